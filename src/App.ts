/** The one layer graph. `services` is what commands and tests use; `server` adds HTTP on top. */
import { Effect, Layer, Schedule } from "effect"
import { Access } from "./signin/access/Access.ts"
import { ProjectTokens } from "./signin/access/ProjectTokens.ts"
import { Audit } from "./platform/audit/Audit.ts"
import { sweeps as auditSweeps } from "./platform/audit/Sweeps.ts"
import { announce } from "./platform/process/Banner.ts"
import { Bridges } from "./bridges/identity/Bridges.ts"
import { Settings, unusualLifetimes } from "./platform/settings/Settings.ts"
import { Memory } from "./agents/memory/Memory.ts"
import { Snapshot } from "./agents/handover/Snapshot.ts"
import { sweeps as continuitySweeps } from "./agents/continuity/Sweeps.ts"
import { Tasks } from "./agents/tasks/Tasks.ts"
import { Transfer } from "./agents/transfer/Transfer.ts"
import { Ed25519 } from "./platform/crypto/Ed25519.ts"
import { Backup } from "./platform/database/Backup.ts"
import { DatabaseClock } from "./platform/database/Clock.ts"
import { Database, migrateUntilDone } from "./platform/database/Database.ts"
import { sweepForever } from "./platform/database/Sweeper.ts"
import { Documents } from "./agents/documents/Documents.ts"
import { Credentials } from "./bridges/enrollment/Credentials.ts"
import { Enrollment } from "./bridges/enrollment/Enrollment.ts"
import { sweeps as enrollmentSweeps } from "./bridges/enrollment/Sweeps.ts"
import { http } from "./Http.ts"
import { logLevel } from "./platform/process/Logging.ts"
import { Gauges } from "./people/operator/Gauges.ts"
import { otlp, pushedGauges } from "./people/operator/Otlp.ts"
import { Overview } from "./people/operator/Overview.ts"
import { prometheus } from "./people/operator/Prometheus.ts"
import { Devices } from "./people/mobile/Devices.ts"
import { sweeps as mobileSweeps } from "./people/mobile/Sweeps.ts"
import { Authorize } from "./signin/oauth/authorize/Authorize.ts"
import { ClientDocuments } from "./signin/oauth/clients/ClientDocuments.ts"
import { Clients } from "./signin/oauth/clients/Clients.ts"
import { Codes } from "./signin/oauth/tokens/Codes.ts"
import { Consent } from "./signin/oauth/consent/Consent.ts"
import { Grants } from "./signin/oauth/grants/Grants.ts"
import { RefreshTokens } from "./signin/oauth/tokens/RefreshTokens.ts"
import { sweeps as oauthSweeps } from "./signin/oauth/Sweeps.ts"
import { Projects } from "./operator/projects/Projects.ts"
import { apnsProvider } from "./push/channels/apns/Apns.ts"
import { PushAdmin } from "./push/admin/PushAdmin.ts"
import { PushTokens } from "./push/tokens/PushTokens.ts"
import { logProvider } from "./push/channels/LogProvider.ts"
import { Outbox } from "./push/outbox/Outbox.ts"
import { sweeps as pushSweeps } from "./push/Sweeps.ts"
import { Worker } from "./push/delivery/Worker.ts"
import { Rotation } from "./bridges/rotation/Rotation.ts"
import { sweeps as rotationSweeps } from "./bridges/rotation/Sweeps.ts"

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
  PushAdmin.layer
).pipe(
  Layer.provideMerge(Layer.merge(Access.layer, Grants.layer)),
  Layer.provideMerge(Clients.layer),
  Layer.provide(ClientDocuments.layer),
  Layer.provideMerge(Layer.mergeAll(Audit.layer, Outbox.layer, PushTokens.layer)),
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
