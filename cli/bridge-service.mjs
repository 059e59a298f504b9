#!/usr/bin/env node
// Both programs of the package: with one file for all names, npx knows which to start.
import { basename } from "node:path"
import { launch } from "./support/launch.mjs"

await launch(basename(process.argv[1]) === "service-admin" ? "service-admin" : "bridge-service")
