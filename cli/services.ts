/** What commands work with: the services of the server, on a database whose schema is up to date. */
import { Effect, Option } from "effect"
import * as App from "../src/App.ts"
import { ProjectTokens } from "../src/access/ProjectTokens.ts"
import { Audit } from "../src/audit/Audit.ts"
import { Bridges } from "../src/bridge/Bridges.ts"
import { Memory } from "../src/continuity/Memory.ts"
import { Transfer } from "../src/continuity/Transfer.ts"
import { Backup } from "../src/database/Backup.ts"
import { migrateSoon } from "../src/database/Database.ts"
import { databaseLoss } from "../src/database/Persistence.ts"
import { Documents } from "../src/documents/Documents.ts"
import { Credentials } from "../src/enrollment/Credentials.ts"
import { Overview } from "../src/metrics/Overview.ts"
import { Devices } from "../src/mobile/Devices.ts"
import { Clients } from "../src/oauth/Clients.ts"
import { Grants } from "../src/oauth/Grants.ts"
import { Projects } from "../src/projects/Projects.ts"
import { Deliveries } from "../src/push/Deliveries.ts"

const services = Effect.gen(function* () {
  return {
    /** The migrations that this command has run. */
    migrated: yield* migrateSoon,
    audit: yield* Audit,
    backup: yield* Backup,
    bridges: yield* Bridges,
    credentials: yield* Credentials,
    deliveries: yield* Deliveries,
    devices: yield* Devices,
    documents: yield* Documents,
    memory: yield* Memory,
    oauthClients: yield* Clients,
    oauthGrants: yield* Grants,
    overview: yield* Overview,
    projects: yield* Projects,
    projectTokens: yield* ProjectTokens,
    transfer: yield* Transfer
  }
})
export type Services = Effect.Success<typeof services>

export const withServices = <A, E>(work: (services: Services) => Effect.Effect<A, E>) =>
  services.pipe(
    Effect.flatMap(work),
    Effect.provide(App.services),
    // A connection that breaks inside a transaction ends it as a defect.
    Effect.catchCause((cause) =>
      Option.match(databaseLoss(cause), { onNone: () => Effect.failCause(cause), onSome: Effect.fail })
    )
  )
