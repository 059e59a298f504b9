/** Joins the database of the folder it is given, says where it is, and stays until it is told to leave. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect } from "effect"
import { embeddedPostgres } from "../../../src/platform/database/embedded/EmbeddedPostgres.ts"

embeddedPostgres(process.argv[2]!).pipe(
  Effect.tap((postmaster) => Console.log(JSON.stringify(postmaster))),
  Effect.andThen(Effect.never),
  Effect.scoped,
  NodeRuntime.runMain
)
