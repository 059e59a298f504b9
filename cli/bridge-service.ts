/** The program that people run on their own machine; it needs neither the database nor a clone. */
import { Command } from "effect/cli"
import { connect } from "./commands/connect.ts"
import { Json } from "./support/command.ts"
import { run } from "./support/run.ts"

Command.make("bridge-service").pipe(
  Command.withDescription("Connects coding agents to a Bridge Service. Exit codes: 0 done, 1 refused, 64 usage."),
  Command.withSubcommands([connect]),
  Command.withGlobalFlags([Json]),
  run
)
