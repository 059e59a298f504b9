/**
 * Codes and refresh tokens become access tokens; grants end (OAuth 2.1 "Token Endpoint", RFC 7009; spec 4.10, 5).
 *
 * 1. A code is exchanged once, by whoever has its verifier. A second exchange that is otherwise valid means that two
 *    parties have code and verifier: the grant ends. One with a wrong verifier changes nothing, else a stranger who saw
 *    the code could end other people's grants.
 * 2. A refresh token is used once and makes one successor, derived from the token itself and a stored salt. Within the
 *    grace a client that lost the answer, or asked twice at once, gets the same successor again.
 * 3. A used refresh token that comes back after its successor was used, or after the grace, was copied: the grant ends,
 *    and with it every token that came out of it.
 */
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../audit/Audit.ts"
import { Settings } from "../Config.ts"
import { deriveFrom } from "../crypto/Derivation.ts"
import { salt, uuidAt } from "../crypto/Random.ts"
import * as Tokens from "../crypto/Tokens.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { persistence, untilSettled } from "../database/Persistence.ts"
import type { SharedRefusal } from "../wire/Errors.ts"
import { after, hasPassed } from "../wire/Instant.ts"
import { expanded, type Scope } from "../wire/Scopes.ts"
import { type OAuthOperatorRefusal, type OAuthRefusal, refuse, refuseOperator } from "./Errors.ts"
import * as Store from "./GrantStore.ts"
import { challengeOf } from "./Pkce.ts"
import { resourceOf } from "./Resource.ts"

export interface TokenSet {
  readonly access_token: Redacted.Redacted<string>
  readonly refresh_token: Redacted.Redacted<string> | undefined
  /** Whole seconds. */
  readonly expires_in: number
  readonly scopes: ReadonlyArray<Scope>
}

type Grant = typeof Store.Grant.Type
type Lost = SharedRefusal<"bridge_persistence_error">
type GrantRefusal = OAuthRefusal<"invalid_client" | "invalid_grant" | "unauthorized_client"> | Lost

export class Grants extends Context.Service<
  Grants,
  {
    readonly exchange: (asked: {
      readonly client_id: string
      readonly code: Redacted.Redacted<string>
      readonly verifier: string
      /** Has to be the one of the authorization request, where it is sent at all (OAuth 2.1). */
      readonly redirect_uri: string | undefined
    }) => Effect.Effect<TokenSet, GrantRefusal>
    readonly refresh: (asked: {
      readonly client_id: string
      readonly refresh_token: Redacted.Redacted<string>
      /** Fewer than were granted; undefined: all of them. */
      readonly scopes: ReadonlyArray<Scope> | undefined
    }) => Effect.Effect<TokenSet, GrantRefusal | OAuthRefusal<"invalid_scope">>
    /** A refresh token ends its whole grant, an access token only itself; anybody else's token nothing (RFC 7009). */
    readonly revokeToken: (
      client_id: string,
      token: Redacted.Redacted<string>
    ) => Effect.Effect<void, OAuthRefusal<"invalid_client" | "unsupported_token_type"> | Lost>
    readonly list: (
      project_id: string
    ) => Effect.Effect<ReadonlyArray<Grant>, OAuthOperatorRefusal<"project_not_found" | "bridge_persistence_error">>
    /** The operator's; may be repeated. */
    readonly revoke: (
      grant_id: string
    ) => Effect.Effect<
      { readonly revoked_at: Date },
      OAuthOperatorRefusal<"oauth_grant_not_found" | "bridge_persistence_error">
    >
  }
>()("service/oauth/Grants") {
  static readonly layer = Layer.effect(
    Grants,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const { access, baseUrl, oauth } = yield* Settings
      const store = Store.make(sql, { resource: resourceOf(baseUrl.origin), instance_id: access.instanceId })

      const mintAccess = Effect.fnUntraced(function* (now: Date) {
        const token = yield* Tokens.mint("sat")
        const row: Store.NewAccess = {
          token_id: yield* uuidAt(now),
          token_hash: Tokens.hash(token),
          expires_at: after(now, oauth.accessTtl),
          mobile_expires_at: after(now, oauth.mobileAccessTtl)
        }
        return { token, row }
      })

      const tokensOf = (
        { expires_at, refreshable, scopes }: Store.Minted,
        access_token: Redacted.Redacted<string>,
        refresh_token: Redacted.Redacted<string>,
        now: Date
      ): TokenSet => ({
        access_token,
        refresh_token: refreshable ? refresh_token : undefined,
        expires_in: Math.floor((expires_at.getTime() - now.getTime()) / 1000),
        scopes
      })

      /** A client without grant may still be told apart: only its own name is at stake. */
      const known = Effect.fnUntraced(function* (client_id: string) {
        if ((yield* store.clientExists(client_id)).length === 0) return yield* refuse("invalid_client")
      })

      /** Somebody holds what only one party should have. */
      const endFamily = Effect.fnUntraced(function* (
        state: Store.CodeState | Store.RefreshState,
        code: string,
        now: Date
      ) {
        yield* store.end(state.grant_id, code, now)
        yield* audit.refused(now, {
          action: "oauth_grant.revoked",
          code,
          project_id: state.project_id,
          actor: `oauth_client:${state.client_id}`,
          subject: { grant_id: state.grant_id }
        })
      })

      const exchange = Effect.fn("Grants.exchange")(function* ({
        client_id,
        code,
        redirect_uri,
        verifier
      }: {
        readonly client_id: string
        readonly code: Redacted.Redacted<string>
        readonly verifier: string
        readonly redirect_uri: string | undefined
      }) {
        if (!Tokens.isToken("sac", Redacted.value(code))) {
          yield* known(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const asked = { code_hash: Tokens.hash(code), client_id, code_challenge: challengeOf(verifier), redirect_uri }

        const attempt = Effect.gen(function* () {
          const { row, token } = yield* mintAccess(now)
          const first = yield* Tokens.mint("srt")
          const refresh = { token_hash: Tokens.hash(first), expires_at: after(now, oauth.refreshIdleTtl) }
          const minted = yield* store.exchange(asked, row, refresh, now, yield* traceAt(now))
          return Option.map(minted, (tokens) => tokensOf(tokens, token, first, now))
        })

        const explain = Effect.gen(function* () {
          yield* known(client_id)
          const found = Option.getOrUndefined(yield* store.findCode(asked.code_hash, now))
          if (
            found === undefined ||
            found.client_id !== client_id ||
            found.code_challenge !== asked.code_challenge ||
            (redirect_uri !== undefined && redirect_uri !== found.redirect_uri)
          ) {
            return yield* refuse("invalid_grant")
          }
          if (found.used_at !== null) {
            if (found.alive) yield* endFamily(found, "code_replayed", now)
            return yield* refuse("invalid_grant")
          }
          if (!found.alive || hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          return found.grant_types.includes("authorization_code") ? Option.none() : yield* refuse("unauthorized_client")
        })

        return yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
      }, persistence)

      const refresh = Effect.fn("Grants.refresh")(function* ({
        client_id,
        refresh_token,
        scopes
      }: {
        readonly client_id: string
        readonly refresh_token: Redacted.Redacted<string>
        readonly scopes: ReadonlyArray<Scope> | undefined
      }) {
        if (!Tokens.isToken("srt", Redacted.value(refresh_token))) {
          yield* known(client_id)
          return yield* refuse("invalid_grant")
        }
        const now = yield* clock.now
        const narrowed = scopes === undefined ? null : expanded(scopes)
        const presented = { token_hash: Tokens.hash(refresh_token), client_id, scopes: narrowed }

        const attempt = Effect.gen(function* () {
          const { row, token } = yield* mintAccess(now)
          const successor_salt = yield* salt
          const next = successorOf(refresh_token, successor_salt)
          const successor = {
            token_hash: Tokens.hash(next),
            expires_at: after(now, oauth.refreshIdleTtl),
            salt: successor_salt
          }
          const minted = yield* store.refresh(presented, row, successor, now, yield* traceAt(now))
          return Option.map(minted, (tokens) => tokensOf(tokens, token, next, now))
        })

        const explain = Effect.gen(function* () {
          yield* known(client_id)
          const found = Option.getOrUndefined(yield* store.findRefresh(presented.token_hash, now))
          if (found === undefined || found.client_id !== client_id || !found.alive) {
            return yield* refuse("invalid_grant")
          }
          if (!found.grant_types.includes("refresh_token")) return yield* refuse("unauthorized_client")
          if (found.used_at === null && hasPassed(found.expires_at, now)) return yield* refuse("invalid_grant")
          if (narrowed?.some((scope) => !found.scopes.includes(scope))) return yield* refuse("invalid_scope")
          return found.used_at === null ? Option.none() : yield* replay(found)
        })

        /** The successor again while it is unused and the grace lasts; else the family ends. */
        const replay = Effect.fnUntraced(function* (found: Store.RefreshState) {
          const since = new Date(now.getTime() - Duration.toMillis(oauth.refreshGrace))
          if (found.successor_salt === null || hasPassed(found.used_at!, since)) {
            yield* endFamily(found, "refresh_reused", now)
            return yield* refuse("invalid_grant")
          }
          const { row, token } = yield* mintAccess(now)
          const next = successorOf(refresh_token, found.successor_salt)
          const minted = yield* store.replay({ ...presented, since }, row, now, yield* traceAt(now))
          return Option.map(minted, (tokens) => tokensOf(tokens, token, next, now))
        })

        return yield* untilSettled(Effect.filterOrElse(attempt, Option.isSome, () => explain))
      }, persistence)

      const revokeToken = Effect.fn("Grants.revokeToken")(function* (
        client_id: string,
        token: Redacted.Redacted<string>
      ) {
        yield* known(client_id)
        const kind = Tokens.kindOf(Redacted.value(token))
        if (kind === undefined) return
        if (kind !== "srt" && kind !== "sat") return yield* refuse("unsupported_token_type")
        const now = yield* clock.now
        const end = kind === "srt" ? store.revokeFamily : store.revokeAccess
        yield* end(Tokens.hash(token), client_id, now, yield* traceAt(now))
      }, persistence)

      const list = Effect.fn("Grants.list")(function* (project_id: string) {
        if ((yield* store.projectExists(project_id)).length === 0) return yield* refuseOperator("project_not_found")
        return yield* store.list(project_id, yield* clock.now)
      }, persistence)

      const revoke = Effect.fn("Grants.revoke")(
        function* (grant_id: string) {
          const now = yield* clock.now
          const ended = yield* store.end(grant_id, "revoked_by_operator", now)
          if (Option.isNone(ended)) return yield* refuseOperator("oauth_grant_not_found")
          const { first, project_id, revoked_at } = ended.value
          if (first) {
            yield* audit.done(now, {
              action: "oauth_grant.revoked",
              project_id,
              actor: "operator",
              subject: { grant_id }
            })
          }
          return { revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      return { exchange, refresh, revokeToken, list, revoke }
    })
  )
}

/** The same for everybody who presents the same token while its salt is kept; from the rows alone nobody derives it. */
const successorOf = (predecessor: Redacted.Redacted<string>, successor_salt: Uint8Array) =>
  Tokens.format("srt", deriveFrom(predecessor, "oauth/v1/refresh-successor", [successor_salt]))
