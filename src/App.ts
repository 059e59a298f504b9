/** The one layer graph. `services` is what commands and tests use; `server` adds HTTP on top. */
import { Effect, Layer, Schedule } from "effect"
import { Access } from "./access/Access.ts"
import { ProjectTokens } from "./access/ProjectTokens.ts"
import { Audit } from "./audit/Audit.ts"
import { sweeps as auditSweeps } from "./audit/Sweeps.ts"
import { announce } from "./Banner.ts"
import { Bridges } from "./bridge/Bridges.ts"
import { Settings, unusualLifetimes } from "./Config.ts"
import { Memory } from "./continuity/Memory.ts"
import { Snapshot } from "./continuity/Snapshot.ts"
import { sweeps as continuitySweeps } from "./continuity/Sweeps.ts"
import { Tasks } from "./continuity/Tasks.ts"
import { Transfer } from "./continuity/Transfer.ts"
import { Ed25519 } from "./crypto/Ed25519.ts"
import { Backup } from "./database/Backup.ts"
import { DatabaseClock } from "./database/Clock.ts"
import { Database, migrateUntilDone } from "./database/Database.ts"
import { sweepForever } from "./database/Sweeper.ts"
import { Documents } from "./documents/Documents.ts"
import { Credentials } from "./enrollment/Credentials.ts"
import { Enrollment } from "./enrollment/Enrollment.ts"
import { sweeps as enrollmentSweeps } from "./enrollment/Sweeps.ts"
import { http } from "./Http.ts"
import { logLevel } from "./Logging.ts"
import { Gauges } from "./metrics/Gauges.ts"
import { otlp, pushedGauges } from "./metrics/Otlp.ts"
import { Overview } from "./metrics/Overview.ts"
import { prometheus } from "./metrics/Prometheus.ts"
import { Devices } from "./mobile/Devices.ts"
import { sweeps as mobileSweeps } from "./mobile/Sweeps.ts"
import { Authorize } from "./oauth/Authorize.ts"
import { ClientDocuments } from "./oauth/ClientDocuments.ts"
import { Clients } from "./oauth/Clients.ts"
import { Codes } from "./oauth/Codes.ts"
import { Consent } from "./oauth/Consent.ts"
import { Grants } from "./oauth/Grants.ts"
import { RefreshTokens } from "./oauth/RefreshTokens.ts"
import { sweeps as oauthSweeps } from "./oauth/Sweeps.ts"
import { Projects } from "./projects/Projects.ts"
import { apnsProvider } from "./push/Apns.ts"
import { Deliveries } from "./push/Deliveries.ts"
import { PushKeys } from "./push/Keys.ts"
import { logProvider } from "./push/LogProvider.ts"
import { Outbox } from "./push/Outbox.ts"
import { sweeps as pushSweeps } from "./push/Sweeps.ts"
import { Worker } from "./push/Worker.ts"
import { Rotation } from "./rotation/Rotation.ts"
import { sweeps as rotationSweeps } from "./rotation/Sweeps.ts"

/** Every domain, over any database and clock. */
export const domains = Layer.mergeAll(
  Enrollment.layer,
  Credentials.layer,
  Rotation.layer,
  Bridges.layer,
  ProjectTokens.layer,
  Authorize.layer,
  Consent.layer,
  Codes.layer,
  RefreshTokens.layer,
  Projects.layer,
  Memory.layer,
  Tasks.layer,
  Snapshot.layer,
  Documents.layer,
  Devices.layer,
  Deliveries.layer
).pipe(
  Layer.provideMerge(Layer.merge(Access.layer, Grants.layer)),
  Layer.provideMerge(Clients.layer),
  Layer.provide(ClientDocuments.layer),
  Layer.provideMerge(Layer.mergeAll(Audit.layer, Outbox.layer, PushKeys.layer)),
  Layer.provide(Ed25519.layerNode)
)

export const services = Layer.mergeAll(domains, Backup.layer, Transfer.layer, Overview.layer).pipe(
  Layer.provideMerge(DatabaseClock.layer),
  Layer.provideMerge(Database.layer),
  Layer.provideMerge(Settings.layer)
)

const warnOfLifetimes = Effect.gen(function* () {
  for (const sentence of unusualLifetimes(yield* Settings)) yield* Effect.logWarning(sentence)
})

const sweeping = Effect.flatMap(Settings, ({ audit }) =>
  sweepForever([
    ...rotationSweeps,
    ...enrollmentSweeps,
    ...oauthSweeps,
    ...continuitySweeps,
    ...mobileSweeps,
    ...pushSweeps,
    ...auditSweeps(audit.retention)
  ])
)

/** A changed base URL or instance id ends every sign-in made before; whoever changed it should not have to guess. */
const warnOfForeignGrants = Effect.gen(function* () {
  const { foreignGrants } = yield* Access
  const grants = yield* Effect.retry(foreignGrants, Schedule.spaced("1 second"))
  if (grants === 0) return
  yield* Effect.logWarning("Sign-ins made for another base URL or instance id are refused").pipe(
    Effect.annotateLogs({ grants })
  )
})

const metrics = Layer.merge(prometheus, pushedGauges).pipe(Layer.provide(Gauges.layer))
const outermost = Layer.merge(logLevel, otlp).pipe(Layer.provide(Settings.layer))

/** Apple's service where it is configured, else the log. */
const pushProvider = Layer.unwrap(
  Effect.map(Settings, ({ push }) => (push.apns === undefined ? logProvider : apnsProvider))
)

const delivering = Effect.flatMap(Worker, ({ start }) => start)

/** Listens first, migrates then: until that is done every route that needs the database answers 503. */
export const server = Layer.effectDiscard(
  Effect.all(
    [warnOfLifetimes, migrateUntilDone, warnOfForeignGrants, announce, delivering, Effect.forkScoped(sweeping)],
    { discard: true }
  )
).pipe(
  Layer.provide(Layer.provide(Worker.layer, pushProvider)),
  Layer.provideMerge(Layer.merge(http, metrics)),
  Layer.provide(services),
  Layer.provide(outermost)
)
