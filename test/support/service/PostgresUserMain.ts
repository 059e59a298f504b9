/** Joins the database of the given folder, prints its address, and stays until a signal ends it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { embeddedPostgres } from "../../../src/platform/database/embedded/EmbeddedPostgres.ts"

embeddedPostgres(process.argv[2]!).pipe(
  Effect.tap((postmaster) => Console.log(JSON.stringify(postmaster))),
  Effect.andThen(Effect.never),
  Effect.scoped,
  NodeRuntime.runMain
)
