/**
 * The services that commands use: those of the server, after bringing the schema up to date. On a
 * terminal a command says which database it uses. It never makes one: only `start` does, so that a command in the wrong
 * folder changes nothing.
 */
import { Console, Data, Effect, Redacted, Result, Schedule } from "effect"
import { existsSync } from "node:fs"
import * as App from "../../../src/App.ts"
import { Audit } from "../../../src/platform/audit/Audit.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { migrateSoon } from "../../../src/platform/database/Database.ts"
import { persistence } from "../../../src/platform/database/Persistence.ts"
import { calledAs } from "../../../src/platform/process/CalledAs.ts"
import { isMade, secretsFile } from "../../../src/platform/settings/DataFolder.ts"
import { CurrentOperator } from "../../../src/platform/settings/Operator.ts"
import { parseDatabaseUrl } from "../../../src/platform/settings/DatabaseUrl.ts"
import { databaseSettings, Settings } from "../../../src/platform/settings/Settings.ts"
import { asJson, printed } from "../terminal/Print.ts"

export const services = Effect.gen(function* () {
  const { baseUrl } = yield* Settings
  const all = yield* Effect.all(App.forCommands)
  return { ...all, baseUrl: baseUrl.origin, persistently, recorded: yield* recording }
})

/**
 * Writes the audit row of a command that changes nothing but reads much: whole projects, or who holds secrets. The command
 * shows its result only once the row is written.
 */
const recording = Effect.gen(function* () {
  const audit = yield* Audit
  const clock = yield* DatabaseClock
  return (action: string, project_id: string | null, subject: Readonly<Record<string, string>> = {}) =>
    Effect.gen(function* () {
      const actor = yield* CurrentOperator
      yield* audit.done(yield* clock.now, { action, project_id, actor, subject })
    }).pipe(persistence)
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

type Unmigrated = Effect.Success<typeof services>

export interface Services extends Unmigrated {
  /** The migrations that this command ran. */
  readonly migrated: ReadonlyArray<string>
}

export const withServices = <A, E>(work: (services: Services) => Effect.Effect<A, E>) =>
  Effect.zipWith(migrateSoon(), services, (migrated, all) => ({ ...all, migrated })).pipe(
    Effect.flatMap(work),
    Effect.provide(App.services),
    onDatabase(isMade)
  )

/** For work that decides itself which migrations run, on a database that may be empty. */
export const withoutMigrating = <A, E>(work: (services: Unmigrated) => Effect.Effect<A, E>) =>
  services.pipe(
    Effect.flatMap(work),
    Effect.provide(App.services),
    onDatabase((dataDir) => isMade(dataDir) || existsSync(secretsFile(dataDir)))
  )

/** No start has set up a service in the data folder; the message says where one is looked for. */
class NoServiceHere extends Data.TaggedError("NoServiceHere")<{ readonly message: string }> {}

/** A command may use the database several times. */
let isNamed = false

const onDatabase =
  (isThere: (dataDir: string) => boolean) =>
  <A, E, R>(work: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const { dataDir, ownerUrl, url } = yield* databaseSettings
      if (url === undefined && !isThere(dataDir)) {
        return yield* new NoServiceHere({
          message: `There is no service in ${dataDir}. Run this in the folder where the service was started, or set SERVICE_DATA_DIR to its data folder, or DATABASE_URL to its database. To set up a new service here: ${calledAs("start")}`
        })
      }
      const used = url === undefined ? `embedded, in ${dataDir}` : placeOf(ownerUrl ?? url)
      if (process.stderr.isTTY && !asJson && !isNamed) yield* Console.error(printed([`Database: ${used}`]))
      isNamed = true
      return yield* work
    })

/** Without account, password and parameters. */
const placeOf = (url: Redacted.Redacted) => {
  const { database = "", hosts } = Result.getOrThrow(parseDatabaseUrl(Redacted.value(url)))
  return `${hosts.map(({ host, port }) => `${host}:${port}`).join(",")}/${database}`
}
