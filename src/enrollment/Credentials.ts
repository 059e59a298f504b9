/**
 * Bootstrap credentials, the operator's side of enrollment (spec 1.5, 2.2): issue, list, revoke.
 *
 * The raw credential leaves this service once, `Redacted`, for the file that the command writes; the row keeps its hash.
 */
import { Context, type Duration, Effect, Layer, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../audit/Audit.ts"
import { uuidAt } from "../crypto/Random.ts"
import * as Tokens from "../crypto/Tokens.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { persistence } from "../database/Persistence.ts"
import { after } from "../wire/Instant.ts"
import * as Store from "./CredentialStore.ts"
import { type CredentialRefusal, refuseCredential as refuse } from "./Errors.ts"

export interface Order {
  readonly project_id: string
  /** At least one; each approved for the project. */
  readonly account_references: ReadonlyArray<string>
  readonly ttl: Duration.Duration
  /** Replaces key and tokens of this active Bridge instead of enrolling a new one. */
  readonly reenroll_bridge_id: string | undefined
}

export interface Issued {
  readonly credential_id: string
  readonly project_id: string
  readonly expires_at: Date
}

type Credential = typeof Store.Credential.Type
type Lost = CredentialRefusal<"bridge_persistence_error">

export class Credentials extends Context.Service<
  Credentials,
  {
    /**
     * Issues `secrets.length` credentials, all or none. `secrets` come from the caller, who has put them into files
     * already: a file without a row opens nothing, a row without a file could never be used.
     */
    readonly issue: (
      order: Order,
      secrets: ReadonlyArray<{ readonly credential_id: string; readonly credential: Redacted.Redacted<string> }>
    ) => Effect.Effect<
      ReadonlyArray<Issued>,
      | Lost
      | CredentialRefusal<
          | "project_not_found"
          | "project_disabled"
          | "account_reference_not_approved"
          | "bridge_not_found"
          | "bridge_revoked"
          | "bridge_not_active"
        >
    >
    readonly list: (
      project_id: string
    ) => Effect.Effect<ReadonlyArray<Credential>, Lost | CredentialRefusal<"project_not_found">>
    /** Also expires its open challenge. May be repeated; a token that was minted from it lives on. */
    readonly revoke: (
      credential_id: string
    ) => Effect.Effect<{ readonly revoked_at: Date }, Lost | CredentialRefusal<"credential_not_found">>
    /** A fresh credential and its id, not yet known to the database. */
    readonly mint: Effect.Effect<
      { readonly credential_id: string; readonly credential: Redacted.Redacted<string> },
      Lost
    >
  }
>()("service/enrollment/Credentials") {
  static readonly layer = Layer.effect(
    Credentials,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const mint = Effect.gen(function* () {
        return { credential_id: yield* uuidAt(yield* clock.now), credential: yield* Tokens.mint("sbe") }
      })

      const issue = Effect.fn("Credentials.issue")(
        function* (
          { account_references, project_id, reenroll_bridge_id, ttl }: Order,
          secrets: ReadonlyArray<{ readonly credential_id: string; readonly credential: Redacted.Redacted<string> }>
        ) {
          const now = yield* clock.now
          const project = yield* store.findProject(project_id)
          if (Option.isNone(project)) return yield* refuse("project_not_found")
          if (project.value.disabled) return yield* refuse("project_disabled")
          const references = [...new Set(account_references)]
          const approved = yield* store.lockApproved(project_id, references)
          if (approved.length !== references.length) return yield* refuse("account_reference_not_approved")
          if (reenroll_bridge_id !== undefined) yield* reenrollable(project_id, reenroll_bridge_id)

          const expires_at = after(now, ttl)
          for (const { credential, credential_id } of secrets) {
            const row = {
              credential_id,
              credential_hash: Tokens.hash(credential),
              project_id,
              account_references: references,
              reenroll_bridge_id: reenroll_bridge_id ?? null,
              expires_at
            }
            yield* store.insert(row, now)
            yield* audit.done(now, {
              action: "bridge_credential.issued",
              project_id,
              actor: "operator",
              subject: { credential_id, ...(reenroll_bridge_id && { bridge_id: reenroll_bridge_id }) }
            })
          }
          return secrets.map(({ credential_id }) => ({ credential_id, project_id, expires_at }))
        },
        sql.withTransaction,
        persistence
      )

      const reenrollable = Effect.fnUntraced(function* (project_id: string, bridge_id: string) {
        const identity = yield* store.findIdentityStatus(project_id, bridge_id)
        if (Option.isNone(identity)) return yield* refuse("bridge_not_found")
        if (identity.value.status === "revoked") return yield* refuse("bridge_revoked")
        if (identity.value.status === "pending") return yield* refuse("bridge_not_active")
      })

      const list = Effect.fn("Credentials.list")(function* (project_id: string) {
        if (Option.isNone(yield* store.findProject(project_id))) return yield* refuse("project_not_found")
        return yield* store.list(project_id, yield* clock.now)
      }, persistence)

      const revoke = Effect.fn("Credentials.revoke")(
        function* (credential_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revoke(credential_id, now)
          if (Option.isNone(revoked)) return yield* refuse("credential_not_found")
          yield* store.lockReserved(credential_id)
          yield* store.expireChallenges(credential_id, now)
          yield* audit.done(now, {
            action: "bridge_credential.revoked",
            project_id: revoked.value.project_id,
            actor: "operator",
            subject: { credential_id }
          })
          return { revoked_at: revoked.value.revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      return { issue, list, revoke, mint }
    })
  )
}
