/** The services that commands use: those of the server, after bringing the schema up to date. */
import { Effect, Schedule } from "effect"
import * as App from "../../src/App.ts"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { migrateSoon } from "../../src/platform/database/Database.ts"
import { persistence } from "../../src/platform/database/Persistence.ts"
import { operator } from "../../src/platform/settings/Operator.ts"

const services = Effect.gen(function* () {
  /** The migrations that this command ran. */
  const migrated = yield* migrateSoon
  return { migrated, ...(yield* Effect.all(App.forCommands)), persistently, recorded: yield* recording }
})

/**
 * Writes the audit row of a command that changes nothing but reads much: whole projects, or who holds secrets. The command
 * shows its result only once the row is written.
 */
const recording = Effect.gen(function* () {
  const audit = yield* Audit
  const clock = yield* DatabaseClock
  return (action: string, project_id: string | null, subject: Readonly<Record<string, string>> = {}) =>
    Effect.flatMap(clock.now, (at) => audit.done(at, { action, project_id, actor: operator, subject })).pipe(
      persistence
    )
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
