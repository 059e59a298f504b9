/** The services that commands use: those of the server, after bringing the schema up to date. */
import { Effect, Schedule } from "effect"
import * as App from "../../src/App.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { Memory } from "../../src/agents/memory/Memory.ts"
import { Transfer } from "../../src/agents/transfer/Transfer.ts"
import { Backup } from "../../src/platform/database/Backup.ts"
import { migrateSoon } from "../../src/platform/database/Database.ts"
import { Documents } from "../../src/agents/documents/Documents.ts"
import { Credentials } from "../../src/bridges/enrollment/Credentials.ts"
import { Overview } from "../../src/people/operator/Overview.ts"
import { Devices } from "../../src/people/mobile/Devices.ts"
import { Clients } from "../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { Deliveries } from "../../src/push/outbox/Deliveries.ts"

const services = Effect.gen(function* () {
  return {
    /** The migrations that this command ran. */
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
    transfer: yield* Transfer,
    persistently
  }
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
