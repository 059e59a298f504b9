/**
 * The program of the packages. `start`, `admin`, `bridge` and `hook` are programs of their own, which launch.mjs starts: here
 * they are for help and completions. The others people run on their own machine, without the database.
 */
import { Command } from "effect/cli"
import { bridge } from "./bridge.ts"
import { checkBridge } from "./checkBridge.ts"
import { connect } from "./connect.ts"
import { Json } from "../support/frames/frame.ts"

const start = Command.make("start").pipe(
  Command.withDescription("Run the server until Ctrl-C; its settings come from the environment (package of the server)")
)
const admin = Command.make("admin").pipe(
  Command.withDescription("Operate the service: the same as service-admin (package of the server)")
)
const ownBridge = Command.withShortDescription(bridge, "Keep a Bridge on this machine enrolled")
const otherBridge = Command.withShortDescription(checkBridge, "Check whether a Bridge keeps its promises")

export const bridgeService = Command.make("bridge-service").pipe(
  Command.withDescription(
    "Runs and operates Bridge Service, keeps a Bridge on this machine, connects coding agents, and checks Bridges that others wrote. Exit codes: 0 done, 1 refused, 64 usage. Completions: bridge-service --completions bash|zsh|fish"
  ),
  Command.withSubcommands([
    { group: "Programs", commands: [start, admin, ownBridge] },
    { group: "Agents and Bridges", commands: [connect, otherBridge] }
  ]),
  Command.withGlobalFlags([Json])
)
