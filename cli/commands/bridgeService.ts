/**
 * The program of the packages. `start`, `admin`, `bridge` and `hook` are programs of their own, which launch.mjs starts; what is
 * here people run on their own machine, without the database.
 */
import { Command } from "effect/cli"
import { checkBridge } from "./checkBridge.ts"
import { connect } from "./connect.ts"
import { Json } from "../support/frame.ts"

export const bridgeService = Command.make("bridge-service").pipe(
  Command.withDescription(
    [
      "Bridge Service. bridge-service start runs the server, bridge-service admin operates it (the same as service-admin),",
      "bridge-service bridge runs a Bridge on this machine. The commands below connect coding agents, and check Bridges that",
      "others wrote.",
      "Exit codes: 0 done, 1 refused, 64 usage."
    ].join(" ")
  ),
  Command.withSubcommands([connect, checkBridge]),
  Command.withGlobalFlags([Json])
)
