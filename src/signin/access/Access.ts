/**
 * Who is calling, for /mcp and the mobile API (spec 4.12, 5): one query, one generic refusal.
 *
 * 1. The kind of the token is told by prefix and checksum; anything else than an OAuth access token or a project token
 *    (a Bridge token, a token of a repository host, a typing error) is refused before the database is asked.
 * 2. One statement finds the hash together with all that must hold: token, grant, client, project token and project are
 *    alive, and the grant is for this resource and this instance. Revoking any of them counts from the next request.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Settings } from "../../platform/settings/Settings.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Actor } from "../../wire/Actor.ts"
import { Refusal } from "../../wire/Refusal.ts"
import type { Scope } from "../../wire/Scopes.ts"
import { challenges } from "./Challenge.ts"
import { type AccessRefusal, refuse } from "./Errors.ts"
import * as Store from "./AccessStore.ts"

/** How old `last_used_at` may get while a credential is in use. */
const coarse = 60_000

/** An actor who signed in through OAuth. */
export interface Granted extends Actor {
  readonly client_id: string
  readonly grant_id: string
}

export class Access extends Context.Service<
  Access,
  {
    /** The refusal carries its WWW-Authenticate; without a credential it differs from all others in that alone. */
    readonly authorize: (
      bearer: Option.Option<Redacted.Redacted<string>>
    ) => Effect.Effect<Actor, AccessRefusal<"unauthorized" | "bridge_persistence_error">>
    /** Sign-ins that are refused because the base URL or the instance id was another when they were made. */
    readonly foreignGrants: Effect.Effect<number, AccessRefusal<"bridge_persistence_error">>
    /** Where only an OAuth sign-in counts, a project token used directly is refused like any bad credential. */
    readonly requireGrant: (actor: Actor) => Effect.Effect<Granted, AccessRefusal<"unauthorized">>
    /** Names every scope of the operation in its challenge, so that a client can ask for all of them at once. */
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
      const { access, baseUrl } = yield* Settings
      const store = Store.make(sql, { resource: `${baseUrl.origin}/mcp`, instance_id: access.instanceId })
      const challenge = challenges(baseUrl.origin)

      const missing = challenged(refuse("unauthorized"), challenge.missing)
      const invalid = challenged(refuse("unauthorized"), challenge.invalid)

      const authorize = Effect.fn("Access.authorize")(function* (bearer: Option.Option<Redacted.Redacted<string>>) {
        if (Option.isNone(bearer)) return yield* missing
        const kind = Tokens.kindOf(Redacted.value(bearer.value))
        if (kind !== "sat" && kind !== "spt") return yield* invalid
        const now = yield* clock.now
        const token_hash = Tokens.hash(bearer.value)
        const found = yield* kind === "sat"
          ? store.findAccessToken(token_hash, now)
          : store.findProjectToken(token_hash, now)
        if (Option.isNone(found)) return yield* invalid
        const { last_used_at, scopes, ...actor } = found.value
        if (last_used_at === null || now.getTime() - last_used_at.getTime() >= coarse) {
          yield* Effect.ignore(
            actor.grant_id === null
              ? store.touchProjectToken(actor.credential_id, now)
              : store.touchGrant(actor.grant_id, now)
          )
        }
        return { ...actor, scopes: new Set(scopes) }
      }, persistence)

      const requireGrant = (actor: Actor) => {
        const { client_id, grant_id } = actor
        return client_id === null || grant_id === null ? invalid : Effect.succeed({ ...actor, client_id, grant_id })
      }

      const require = (actor: Actor, ...needed: ReadonlyArray<Scope>) =>
        needed.every((scope) => actor.scopes.has(scope))
          ? Effect.void
          : challenged(refuse("insufficient_scope"), challenge.insufficient(needed))

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
