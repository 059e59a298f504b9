/**
 * Authenticates callers of /mcp and the mobile API (spec 4.12, 5): one query, one generic refusal.
 *
 * 1. Prefix and checksum tell the kind of the token. Anything but an OAuth access token or a project token (a Bridge
 *    token, a token of a repository host, a typo) is rejected without a query.
 * 2. One statement looks up the hash and checks everything behind it: token, grant, client, project token and project are
 *    in force, and the grant is for this resource and this instance. Revoking any of them takes effect with the next
 *    request.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Settings } from "../../platform/settings/Settings.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, sharedPersistence } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import { together } from "../../platform/database/Together.ts"
import { spanned } from "../../platform/metrics/Span.ts"
import type { Actor, Granted } from "../../wire/Actor.ts"
import { Refusal } from "../../wire/Refusal.ts"
import type { Scope } from "../../wire/Scopes.ts"
import { challenges } from "./WwwAuthenticate.ts"
import { type AccessRefusal, refuse } from "./Errors.ts"
import * as Store from "./AccessStore.ts"

/** Milliseconds. `last_used_at` is written at most once in this time. */
const lastUsedPrecision = 60_000

export class Access extends Context.Service<
  Access,
  {
    /** A missing credential differs from a rejected one only in WWW-Authenticate (decisions.md, One 401). */
    readonly authorize: (
      bearer: Option.Option<Redacted.Redacted<string>>
    ) => Effect.Effect<Actor, AccessRefusal<"unauthorized" | "bridge_persistence_error">>
    /** How many grants in force are rejected because they were made under another base URL or instance id. */
    readonly foreignGrants: Effect.Effect<number, AccessRefusal<"bridge_persistence_error">>
    /** For operations that need an OAuth sign-in: rejects a project token like any invalid credential. */
    readonly requireGrant: (actor: Actor) => Effect.Effect<Granted, AccessRefusal<"unauthorized">>
    /** The challenge names every scope of the operation and every scope held, so that one more sign-in has all of them. */
    readonly require: (
      actor: Actor,
      ...needed: ReadonlyArray<Scope>
    ) => Effect.Effect<void, AccessRefusal<"insufficient_scope">>
  }
>()("service/access/Access") {
  static readonly layer = Layer.effect(
    Access,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const { access, baseUrl, resource } = yield* Settings
      const store = Store.make(sql, { resource, instance_id: access.instanceId })
      const findAccessToken = yield* together(store.accessToken)
      const findProjectToken = yield* together(store.projectToken)
      const challenge = challenges(baseUrl.origin)

      const missing = challenged(refuse("unauthorized"), challenge.missing)
      const invalid = challenged(refuse("unauthorized"), challenge.invalid)

      const authorize = Effect.fnUntraced(
        function* (bearer: Option.Option<Redacted.Redacted<string>>) {
          if (Option.isNone(bearer)) return yield* missing
          const kind = Tokens.kindOf(Redacted.value(bearer.value))
          if (kind !== "sat" && kind !== "spt") return yield* invalid
          const now = yield* clock.now
          const asked = { token_hash: Tokens.hash(bearer.value), now }
          const found = yield* kind === "sat" ? findAccessToken(asked) : findProjectToken(asked)
          if (Option.isNone(found)) return yield* invalid
          const { last_used_at, scopes, ...actor } = found.value
          if (last_used_at === null || now.getTime() - last_used_at.getTime() >= lastUsedPrecision) {
            const touch =
              actor.grant_id === null
                ? store.touchProjectToken(actor.credential_id, now)
                : store.touchGrant(actor.grant_id, now)
            yield* Effect.ignore(inTurn(touch))
          }
          return { ...actor, scopes: new Set(scopes) }
        },
        sharedPersistence,
        spanned("Access.authorize")
      )

      const requireGrant = (actor: Actor) => {
        const { client_id, grant_id } = actor
        return client_id === null || grant_id === null ? invalid : Effect.succeed({ ...actor, client_id, grant_id })
      }

      const require = (actor: Actor, ...needed: ReadonlyArray<Scope>) =>
        needed.every((scope) => actor.scopes.has(scope))
          ? Effect.void
          : challenged(refuse("insufficient_scope"), challenge.insufficient(needed, actor.scopes))

      const foreignGrants = Effect.gen(function* () {
        const [counted] = yield* store.countForeignGrants(yield* clock.now)
        return counted!.grants
      }).pipe(persistence)

      return { authorize, foreignGrants, requireGrant, require }
    })
  )
}

const challenged = <Code extends string>({ _tag, message, status }: Refusal<Code>, challenge: string): Refusal<Code> =>
  new Refusal({ _tag, message, status, challenge })
