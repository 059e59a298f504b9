#!/usr/bin/env node
import { launch } from "./support/launch.mjs"

await launch("bridge-service")
