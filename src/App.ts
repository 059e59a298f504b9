/** The one layer graph. `services` is what commands and tests use; `server` adds HTTP on top. */
import { Layer } from "effect"
import { Access } from "./access/Access.ts"
import { ProjectTokens } from "./access/ProjectTokens.ts"
import { Audit } from "./audit/Audit.ts"
import { Bridges } from "./bridge/Bridges.ts"
import { Settings } from "./Config.ts"
import { Memory } from "./continuity/Memory.ts"
import { Snapshot } from "./continuity/Snapshot.ts"
import { Tasks } from "./continuity/Tasks.ts"
import { Ed25519 } from "./crypto/Ed25519.ts"
import { DatabaseClock } from "./database/Clock.ts"
import { Database, migrateUntilDone } from "./database/Database.ts"
import { Documents } from "./documents/Documents.ts"
import { Credentials } from "./enrollment/Credentials.ts"
import { Enrollment } from "./enrollment/Enrollment.ts"
import { http } from "./Http.ts"
import { logLevel } from "./Logging.ts"
import { Rotation } from "./rotation/Rotation.ts"
import { Projects } from "./projects/Projects.ts"

/** Every domain, over any database and clock. */
export const domains = Layer.mergeAll(
  Enrollment.layer,
  Credentials.layer,
  Rotation.layer,
  Bridges.layer,
  Access.layer,
  ProjectTokens.layer,
  Projects.layer,
  Memory.layer,
  Tasks.layer,
  Snapshot.layer,
  Documents.layer
).pipe(Layer.provideMerge(Audit.layer), Layer.provide(Ed25519.layerNode))

export const services = domains.pipe(
  Layer.provideMerge(DatabaseClock.layer),
  Layer.provideMerge(Database.layer),
  Layer.provideMerge(logLevel),
  Layer.provideMerge(Settings.layer)
)

/** Listens first, migrates then: until that is done every route that needs the database answers 503. */
export const server = Layer.effectDiscard(migrateUntilDone).pipe(Layer.provideMerge(http), Layer.provide(services))
