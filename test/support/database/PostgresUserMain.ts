/** Connects to the managed PostgreSQL of the given data folder, prints its address, and runs until it is signalled. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Redacted } from "effect"
import { embeddedPostgres } from "../../../src/platform/database/embedded/EmbeddedPostgres.ts"

embeddedPostgres(process.argv[2]!).pipe(
  Effect.tap((postmaster) =>
    Console.log(JSON.stringify({ ...postmaster, password: Redacted.value(postmaster.password) }))
  ),
  Effect.andThen(Effect.never),
  Effect.scoped,
  NodeRuntime.runMain
)
