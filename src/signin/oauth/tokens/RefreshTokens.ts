/**
 * Exchanges refresh tokens for new tokens (OAuth 2.1 "Refreshing an Access Token"; spec 4.10).
 *
 * 1. A refresh token is used once and has one successor, derived from the token itself, a stored salt and a secret of the
 *    server. During the grace period a client that lost the response, or sent two requests at once, gets the same
 *    successor again. From another address or user agent this is reported: it may be a thief (decisions.md, Signs of theft).
 * 2. A used refresh token that is presented after the grace period, or after its successor was used, has been copied: the
 *    grant ends, and every token issued from it (decisions.md, Reuse of a refresh token).
 * 3. A token that is bound to a key is exchanged only with a proof by it; without one nothing changes. A token that is not
 *    is bound by the first exchange with a proof, and its retries then need the same key.
 * 4. The salt is deleted when the successor is used, or by a sweep after the grace period. So a used token, the database
 *    and the secret together derive no live token.
 */
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../../platform/audit/Audit.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import { deriveFrom, KeyRing } from "../../../platform/crypto/Derivation.ts"
import { salt } from "../../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../../platform/crypto/Sha256.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { sharedPersistence, underivable, untilSettled } from "../../../platform/database/Persistence.ts"
import { inTurn } from "../../../platform/database/Shares.ts"
import { changes, together } from "../../../platform/database/Together.ts"
import { count, grantSuspicions } from "../../../platform/metrics/Metrics.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { Caller } from "../../../wire/Headers.ts"
import { after, hasPassed } from "../../../wire/Instant.ts"
import { expanded, type Scope } from "../../../wire/Scopes.ts"
import { Clients } from "../clients/Clients.ts"
import { isKey, mayUse, type Proven } from "../../possession/ClientProofs.ts"
import { type OAuthRefusal, proofUsed, refuse } from "../Errors.ts"
import { Grants } from "../grants/Grants.ts"
import { type IssuedTokens, issueTokens } from "./issueTokens.ts"
import * as Store from "./RefreshTokenStore.ts"

interface Refresh {
  readonly client_id: string
  readonly refresh_token: Redacted.Redacted<string>
  /** A subset of the granted scopes; undefined: all of them. */
  readonly scopes: ReadonlyArray<Scope> | undefined
  /** The key that the client has proved; the new tokens are bound to it. */
  readonly proven?: Proven | undefined
}

export class RefreshTokens extends Context.Service<
  RefreshTokens,
  {
    /** The grant of a refresh token from which the client can get tokens; none if it can only be refused. */
    readonly grantOf: (
      request: Omit<Refresh, "scopes">
    ) => Effect.Effect<Option.Option<Store.HeldGrant>, SharedRefusal<"bridge_persistence_error">>
    readonly refresh: (
      request: Refresh
    ) => Effect.Effect<
      IssuedTokens,
      | OAuthRefusal<
          "invalid_client" | "invalid_grant" | "unauthorized_client" | "invalid_scope" | "invalid_dpop_proof"
        >
      | SharedRefusal<"bridge_persistence_error">
    >
  }
>()("service/oauth/RefreshTokens") {
  static readonly layer = Layer.effect(
    RefreshTokens,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const clients = yield* Clients
      const grants = yield* Grants
      const { access, oauth, resource } = yield* Settings
      const store = Store.make(sql, { resource, instance_id: access.instanceId })
      const findGrant = yield* together(store.findGrant)
      const sharing = yield* changes(store.use)
      const useProven = (using: Store.Using) => inTurn(Effect.map(store.use([using], ""), ([used]) => used!))
      const successors = successorsOf(oauth)
      yield* count(grantSuspicions("refresh_replayed_elsewhere"), 0)

      const grantOf = Effect.fn("RefreshTokens.grantOf")(function* ({
        client_id,
        proven,
        refresh_token
      }: Omit<Refresh, "scopes">) {
        if (!Tokens.isToken("srt", Redacted.value(refresh_token))) return Option.none()
        const token_hash = Tokens.hash(refresh_token)
        const found = yield* proven === undefined
          ? findGrant({ token_hash, now: yield* clock.now })
          : inTurn(store.findProvenGrant(token_hash, proven))
        return Option.filter(found, (held) => held.client_id === client_id)
      }, sharedPersistence)

      const refresh = Effect.fn("RefreshTokens.refresh")(function* ({
        client_id,
        proven,
        refresh_token,
        scopes
      }: Refresh) {
        if (!Tokens.isToken("srt", Redacted.value(refresh_token))) {
          yield* clients.requireKnown(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const narrowed = scopes === undefined ? null : expanded(scopes)
        const presented = { token_hash: Tokens.hash(refresh_token), client_id, scopes: narrowed, proven }
        const since = new Date(now.getTime() - Duration.toMillis(oauth.refreshGrace))
        const { address, userAgent } = yield* Caller
        const caller = sha256(JSON.stringify([address, userAgent]))

        const use = sharing()
        const attempt = Effect.gen(function* () {
          const successor = yield* successors.make(refresh_token)
          const row = {
            token_hash: Tokens.hash(successor.token),
            expires_at: after(now, oauth.refreshIdleTtl),
            salt: successor.salt
          }
          const trace = yield* traceAt(now)
          return yield* issueTokens(oauth, successor.token, proven, now, (access) => {
            const using = { presented, access, used_by: caller, successor: row, trace }
            return proven === undefined ? use(using) : useProven(using)
          })
        })

        const explain = Effect.gen(function* () {
          yield* clients.requireKnown(client_id)
          const found = Option.getOrUndefined(yield* store.find(presented, since, now))
          if (found === undefined || found.client_id !== client_id || !found.alive) {
            return yield* refuse("invalid_grant")
          }
          if (!mayUse(found.dpop_jkt, proven)) return yield* refuse("invalid_grant")
          if (found.proof_used) return yield* proofUsed
          if (!found.grant_types.includes("refresh_token")) return yield* refuse("unauthorized_client")
          if (found.used_at === null && hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          if (narrowed?.some((scope) => !found.scopes.includes(scope))) return yield* refuse("invalid_scope")
          return found.used_at === null ? Option.none() : yield* replay(found)
        })

        /** Returns the same successor while it is unused and within the grace period; otherwise ends the grant. */
        const replay = Effect.fnUntraced(function* (found: Store.RefreshState) {
          // With another key than the one that used it, or without one, it is no retry.
          if (found.successor_salt === null || !isKey(found.successor_jkt, proven)) {
            yield* grants.endCopied(found, "refresh_reused", now)
            return yield* refuse("invalid_grant")
          }
          // The client has the successor, or loses every answer: another access token would not help it.
          if (found.exhausted) return yield* refuse("invalid_grant")
          const successor = successors.again(refresh_token, found.successor_salt, found.successor_hash!)
          if (successor === undefined) return yield* underivable
          const elsewhere = found.used_by !== null && !equal(found.used_by, caller)
          const trace = yield* traceAt(now)
          const issued = yield* issueTokens(oauth, successor, proven, now, (access_token) =>
            store.replay({ ...presented, since, elsewhere }, access_token, now, trace)
          )
          if (elsewhere && Option.isSome(issued)) yield* count(grantSuspicions("refresh_replayed_elsewhere"))
          return issued
        })

        return yield* untilSettled(attempt, inTurn(explain))
      }, sharedPersistence)

      return { grantOf, refresh }
    })
  )
}

type Settled = Pick<Settings["Service"]["oauth"], "refreshGrace" | "secret" | "secretPrevious">

/** How successors are made and made again. Without a grace period they are random, and no salt is stored. */
const successorsOf = ({ refreshGrace, secret, secretPrevious }: Settled) => {
  const ring =
    secret === undefined || Duration.isZero(refreshGrace)
      ? undefined
      : KeyRing.make({
          purpose: "oauth/v1/refresh-successor",
          current: secret,
          previous: Option.fromUndefinedOr(secretPrevious)
        })
  const format = (bytes: Uint8Array) => Tokens.format("srt", bytes)

  const make = Effect.fnUntraced(function* (predecessor: Redacted.Redacted<string>) {
    if (ring === undefined) return { token: yield* Tokens.mint("srt"), salt: null }
    const successor_salt = yield* salt
    return { token: format(ring.current.derive("successor", [successor_salt, predecessor])), salt: successor_salt }
  })

  /** Undefined if the secret that derived the successor is not configured any more. */
  const again = (predecessor: Redacted.Redacted<string>, successor_salt: Uint8Array, successor_hash: Uint8Array) =>
    [
      ...(ring?.deriveWithEach("successor", [successor_salt, predecessor]) ?? []),
      // As 0.1.0 derived it, which may serve beside this release during an upgrade.
      deriveFrom(predecessor, "oauth/v1/refresh-successor", [successor_salt])
    ]
      .map(format)
      .find((token) => equal(Tokens.hash(token), successor_hash))

  return { make, again }
}
