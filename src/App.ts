/** The one layer graph. Commands and tests use `services`; Server.ts adds HTTP and the work in the background. */
import { Layer } from "effect"
import * as agents from "./agents/Wing.ts"
import * as bridges from "./bridges/Wing.ts"
import * as operator from "./operator/Wing.ts"
import * as people from "./people/Wing.ts"
import { Audit } from "./platform/audit/Audit.ts"
import { Partitions } from "./platform/audit/Partitions.ts"
import { Verification } from "./platform/audit/Verification.ts"
import { Backups } from "./platform/backups/Backups.ts"
import { Backup } from "./platform/backups/Backup.ts"
import { DatabaseClock } from "./platform/database/Clock.ts"
import { Database } from "./platform/database/Database.ts"
import { sweeps as proofSweeps } from "./platform/proofs/Sweeps.ts"
import { Workers } from "./platform/workers/Workers.ts"
import { Scan } from "./platform/scan/Scan.ts"
import { Settings } from "./platform/settings/Settings.ts"
import * as push from "./push/Wing.ts"
import * as signin from "./signin/Wing.ts"

/** Every domain, over any database and clock. */
export const domains = Layer.mergeAll(bridges.layer, agents.layer, people.layer, operator.layer).pipe(
  Layer.provideMerge(signin.layer),
  Layer.provideMerge(push.layer),
  Layer.provideMerge(Backups.layer),
  Layer.provideMerge(Layer.merge(Audit.layer, Backup.layer))
)

/** With what only commands use. */
export const everything = Layer.mergeAll(Partitions.layer, Scan.layer, Verification.layer).pipe(
  Layer.provideMerge(domains)
)

export const services = everything.pipe(
  Layer.provideMerge(DatabaseClock.layer),
  Layer.provideMerge(Database.layer),
  Layer.provideMerge(Workers.layer),
  Layer.provideMerge(Settings.layer)
)

/** The services that commands call, by the names that they use. */
export const forCommands = {
  audit: Audit,
  partitions: Partitions,
  verification: Verification,
  backup: Backup,
  backups: Backups,
  scan: Scan,
  ...bridges.forCommands,
  ...signin.forCommands,
  ...agents.forCommands,
  ...people.forCommands,
  ...push.forCommands,
  ...operator.forCommands
}

export const sweeps = [
  ...proofSweeps,
  ...bridges.sweeps,
  ...signin.sweeps,
  ...agents.sweeps,
  ...people.sweeps,
  ...push.sweeps,
  ...operator.sweeps
]
