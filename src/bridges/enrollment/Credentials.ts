/**
 * Bootstrap credentials, the operator's side of enrollment (spec 1.5, 2.2): issue, list, revoke.
 *
 * A command mints the raw credential here and writes it to a file. Only its hash is stored.
 */
import { Context, type Duration, Effect, Layer, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { expireChallenges, lockReserved } from "../../platform/sql/OpenChallenges.ts"
import { after } from "../../wire/Instant.ts"
import * as Store from "./CredentialStore.ts"
import { type CredentialRefusal, refuseCredential as refuse } from "./Errors.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"

export interface IssueRequest {
  readonly project_id: string
  /** At least one; each must be approved for the project. */
  readonly account_references: ReadonlyArray<string>
  readonly ttl: Duration.Duration
  /** The credential replaces key and tokens of this active Bridge instead of enrolling a new one. */
  readonly reenroll_bridge_id: string | undefined
}

/** What the service needs to know of a secret: never the secret itself. */
export interface Minted {
  readonly credential_id: string
  readonly credential_hash: Uint8Array
}

export interface Secret extends Minted {
  readonly credential: Redacted.Redacted<string>
}

export interface Issued {
  readonly credential_id: string
  readonly project_id: string
  readonly expires_at: Date
}

type Credential = typeof Store.Credential.Type
export type Waiting = typeof Store.Waiting.Type
type Unavailable = CredentialRefusal<"bridge_persistence_error">

export class Credentials extends Context.Service<
  Credentials,
  {
    /**
     * Issues one credential per secret, all or none. The caller writes the secrets to files first: a file without a row
     * is harmless, but a row without a file could never be used. Can be repeated with the same secrets after a lost
     * answer.
     */
    readonly issue: (
      request: IssueRequest,
      secrets: ReadonlyArray<Minted>
    ) => Effect.Effect<
      ReadonlyArray<Issued>,
      | Unavailable
      | CredentialRefusal<
          | "project_not_found"
          | "project_disabled"
          | "account_reference_not_approved"
          | "bridge_not_found"
          | "bridge_revoked"
          | "bridge_not_active"
        >
    >
    /** In the order of creation. */
    readonly list: (
      project_id: string,
      page: Page,
      status?: Credential["status"]
    ) => Effect.Effect<ReadonlyArray<Credential>, Unavailable | CredentialRefusal<"project_not_found">>
    /** Of all projects that are not disabled: those with which a Bridge may still enroll, the first to expire first. */
    readonly listWaiting: (page: Page) => Effect.Effect<ReadonlyArray<Waiting>, Unavailable>
    /** Also expires its open challenge. Can be repeated. A token that was minted from it stays valid. */
    readonly revoke: (
      credential_id: string
    ) => Effect.Effect<{ readonly revoked_at: Date }, Unavailable | CredentialRefusal<"credential_not_found">>
    /** A new secret and its id; nothing is stored yet. */
    readonly mint: Effect.Effect<Secret, Unavailable>
  }
>()("service/bridges/Credentials") {
  static readonly layer = Layer.effect(
    Credentials,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const mint = Effect.gen(function* () {
        const credential = yield* Tokens.mint("sbe")
        return {
          credential_id: yield* uuidAt(yield* clock.now),
          credential,
          credential_hash: Tokens.hash(credential)
        }
      })

      const issue = Effect.fn("Credentials.issue")(
        function* (request: IssueRequest, secrets: ReadonlyArray<Minted>) {
          const now = yield* clock.now
          const settled = yield* untilSettled(findIssued(secrets), insertAll(request, secrets, now))
          return secrets.map(({ credential_id }) => ({ credential_id, ...settled }))
        },
        sql.withTransaction,
        persistence
      )

      /** Finds the rows of an earlier attempt with these secrets. They share one transaction, so the first row is enough. */
      const findIssued = ([first]: ReadonlyArray<Minted>) => store.findIssued(first!.credential_hash)

      /** None if an earlier attempt with the same secrets commits in the meantime. */
      const insertAll = Effect.fnUntraced(function* (
        { account_references, project_id, reenroll_bridge_id, ttl }: IssueRequest,
        secrets: ReadonlyArray<Minted>,
        now: Date
      ) {
        const project = yield* store.findProject(project_id)
        if (Option.isNone(project)) return yield* refuse("project_not_found")
        if (project.value.disabled) return yield* refuse("project_disabled")
        const references = [...new Set(account_references)]
        const approved = yield* store.lockApproved(project_id, references)
        if (approved.length !== references.length) return yield* refuse("account_reference_not_approved")
        if (reenroll_bridge_id !== undefined) yield* requireActiveBridge(project_id, reenroll_bridge_id)

        const expires_at = after(now, ttl)
        for (const { credential_hash, credential_id } of secrets) {
          const row = {
            credential_id,
            credential_hash,
            project_id,
            account_references: references,
            reenroll_bridge_id: reenroll_bridge_id ?? null,
            expires_at
          }
          if ((yield* store.insert(row, now)).length === 0) return Option.none()
          yield* audit.done(now, {
            action: "bridge_credential.issued",
            project_id,
            actor: yield* CurrentOperator,
            subject: { credential_id, ...(reenroll_bridge_id && { bridge_id: reenroll_bridge_id }) }
          })
        }
        return Option.some({ project_id, expires_at })
      })

      const requireActiveBridge = Effect.fnUntraced(function* (project_id: string, bridge_id: string) {
        const identity = yield* store.findIdentityStatus(project_id, bridge_id)
        if (Option.isNone(identity)) return yield* refuse("bridge_not_found")
        if (identity.value.status === "revoked") return yield* refuse("bridge_revoked")
        if (identity.value.status === "pending") return yield* refuse("bridge_not_active")
      })

      const list = Effect.fn("Credentials.list")(function* (
        project_id: string,
        page: Page,
        status?: Credential["status"]
      ) {
        if (Option.isNone(yield* store.findProject(project_id))) return yield* refuse("project_not_found")
        return yield* store.list(project_id, page, yield* clock.now, status)
      }, persistence)

      const listWaiting = Effect.fn("Credentials.listWaiting")(function* (page: Page) {
        return yield* store.listWaiting(page, yield* clock.now)
      }, persistence)

      const revoke = Effect.fn("Credentials.revoke")(
        function* (credential_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revoke(credential_id, now)
          if (Option.isNone(revoked)) return yield* refuse("credential_not_found")
          const { first, project_id, revoked_at } = revoked.value
          yield* lockReserved(sql, [credential_id])
          yield* expireChallenges(sql, [credential_id], now)
          if (first) {
            yield* audit.done(now, {
              action: "bridge_credential.revoked",
              project_id,
              actor: yield* CurrentOperator,
              subject: { credential_id }
            })
          }
          return { revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      return { issue, list, listWaiting, revoke, mint }
    })
  )
}
