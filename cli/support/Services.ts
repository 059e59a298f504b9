/** The services that commands use: those of the server, after bringing the schema up to date. */
import { Effect, Schedule } from "effect"
import * as App from "../../src/App.ts"
import { migrateSoon } from "../../src/platform/database/Database.ts"

const services = Effect.gen(function* () {
  /** The migrations that this command ran. */
  const migrated = yield* migrateSoon
  return { migrated, ...(yield* Effect.all(App.forCommands)), persistently }
})

/** Retries an idempotent operation: a database that did not answer may still have committed, and the retry finds that out. */
const persistently = <A, E extends { readonly _tag: string }>(work: Effect.Effect<A, E>) =>
  work.pipe(
    Effect.retry({
      while: ({ _tag }) => _tag === "bridge_persistence_error",
      schedule: Schedule.spaced("500 millis"),
      times: 2
    })
  )

export type Services = Effect.Success<typeof services>

export const withServices = <A, E>(work: (services: Services) => Effect.Effect<A, E>) =>
  services.pipe(Effect.flatMap(work), Effect.provide(App.services))
