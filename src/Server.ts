/** What `npm start` runs: the services of App.ts, with HTTP and the work in the background. */
import { Effect, Layer, Schedule } from "effect"
import { embedForever } from "./agents/Wing.ts"
import { services, sweeps } from "./App.ts"
import { http } from "./Http.ts"
import { otlp } from "./people/operator/Otlp.ts"
import { sampleForever } from "./people/operator/Samples.ts"
import { eraseForever, metrics } from "./people/Wing.ts"
import { linkForever } from "./platform/audit/Linker.ts"
import { maintainForever } from "./platform/audit/Partitions.ts"
import { backUpForever } from "./platform/backups/Backups.ts"
import { migrateUntilDone } from "./platform/database/Database.ts"
import { sweepForever } from "./platform/database/Sweeper.ts"
import { announce, announceStopped, announceStopping } from "./platform/process/Banner.ts"
import { logLevel } from "./platform/process/Logging.ts"
import { guessableIn } from "./platform/settings/SecretStrength.ts"
import { ConfigurationError, Settings, unusualLifetimes } from "./platform/settings/Settings.ts"
import { unknownIn } from "./platform/settings/Unknown.ts"
import { isReplacement, Workers } from "./platform/workers/Workers.ts"
import { Worker } from "./push/delivery/Worker.ts"
import { worker } from "./push/Wing.ts"
import { Access } from "./signin/access/Access.ts"

const warnOfSettings = Effect.gen(function* () {
  const settings = yield* Settings
  const secrets = guessableIn(settings)
  if (secrets.length > 0) yield* Effect.logWarning("Secrets are easy to guess").pipe(Effect.annotateLogs({ secrets }))
  const sentences = [...unusualLifetimes(settings), ...unknownIn(process.env, settings.known)]
  for (const sentence of sentences) yield* Effect.logWarning(sentence)
})

/** A changed base URL or instance id ends every earlier sign-in; the warning names the cause. */
const warnOfForeignGrants = Effect.gen(function* () {
  const { foreignGrants } = yield* Access
  const grants = yield* Effect.retry(foreignGrants, Schedule.spaced("1 second"))
  if (grants === 0) return
  yield* Effect.logWarning("Sign-ins made for another base URL or instance id are refused").pipe(
    Effect.annotateLogs({ grants })
  )
})

/** Otherwise whoever takes over the service could rewrite the audit log with the owner's account. */
const refuseOwner = Effect.gen(function* () {
  const { ownerUrl, url } = (yield* Settings).database
  if (url === undefined || ownerUrl === undefined) return
  return yield* new ConfigurationError({
    message:
      "SERVICE_DATABASE_OWNER_URL is for commands: remove it from the service's environment, and keep it in that of service-admin."
  })
})

/** What one process on a machine does for all of them. */
const byTheFirst = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Workers, ({ isFirst }) => (isFirst ? Effect.asVoid(work) : Effect.void))

const startDelivery = Effect.flatMap(Worker, ({ start }) => start)

const background = Effect.all(
  [
    startDelivery,
    Effect.forkScoped(sweepForever(sweeps)),
    Effect.forkScoped(linkForever),
    Effect.forkScoped(sampleForever),
    Effect.forkScoped(embedForever),
    Effect.forkScoped(eraseForever),
    Effect.forkScoped(maintainForever),
    Effect.forkScoped(backUpForever)
  ],
  { discard: true }
)

/** A worker that replaces another one gets requests as soon as it listens. */
const migratedBefore = isReplacement ? Layer.effectDiscard(migrateUntilDone) : Layer.empty

/**
 * Listens first, then migrates. Until all migrations have run, routes that need the database answer 503. `commands` are those
 * that operators may run from elsewhere.
 */
export const server = <E>(commands: Layer.Layer<never, E, Layer.Success<typeof services>>) =>
  Layer.effectDiscard(
    Effect.all(
      [
        refuseOwner,
        byTheFirst(warnOfSettings),
        migrateUntilDone,
        byTheFirst(warnOfForeignGrants),
        announce,
        byTheFirst(background),
        announceStopping
      ],
      { discard: true }
    )
  ).pipe(
    Layer.provide(worker),
    Layer.provideMerge(Layer.merge(http, metrics).pipe(Layer.provide(migratedBefore))),
    Layer.provide(commands),
    Layer.provide(services),
    Layer.provide(announceStopped),
    Layer.provide(Layer.merge(logLevel, otlp).pipe(Layer.provide(Settings.layer)))
  )
