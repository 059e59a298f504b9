/**
 * Authenticates callers of /mcp and the mobile API (spec 4.12, 5): one query, one generic refusal.
 *
 * 1. Prefix and checksum tell the kind of the token. Anything but an access token or a project token (a Bridge
 *    token, a token of a repository host, a typo) is rejected without a query.
 * 2. One statement looks up the hash and checks everything behind it: token, grant, client, project token and project are
 *    in force, and the grant is for this resource and this instance. Revoking any of them takes effect with the next
 *    request.
 * 3. A token that is bound to a key needs a proof by it (RFC 9449 7). The proof is checked before the token is looked up, so
 *    whoever lacks the key learns nothing about the token; it is remembered after that, so that only proofs of callers who
 *    are let in are. `claim` reads the proof; its signature is verified later, once a limit has admitted the caller.
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
import { type Presented, requireSigned, type Unproven } from "../../platform/proofs/DpopProof.ts"
import type { Actor, Granted } from "../../wire/Actor.ts"
import { Refusal } from "../../wire/Refusal.ts"
import type { Scope } from "../../wire/Scopes.ts"
import { type Claimed, ClientProofs, isKey } from "../possession/ClientProofs.ts"
import { challenges } from "./WwwAuthenticate.ts"
import { type AccessRefusal, refuse } from "./Errors.ts"
import * as Store from "./AccessStore.ts"

type Unauthorized = AccessRefusal<"unauthorized" | "bridge_persistence_error">

/** Milliseconds. `last_used_at` is written at most once in this time. */
const lastUsedPrecision = 60_000

export class Access extends Context.Service<
  Access,
  {
    /** The key that the request says it holds; undefined under the scheme `Bearer`. Fails without a proof about the request. */
    readonly claim: (
      bearer: Redacted.Redacted<string>,
      request: Presented
    ) => Effect.Effect<Claimed | undefined, Unauthorized>
    /** A missing credential differs from a rejected one only in WWW-Authenticate (decisions.md, One 401). */
    readonly authorize: (
      bearer: Option.Option<Redacted.Redacted<string>>,
      claimed?: Claimed
    ) => Effect.Effect<Actor, Unauthorized>
    /** Whether the credential of a request that was authorized is still in force. Its proof is not asked for again. */
    readonly authorizeAgain: (bearer: Option.Option<Redacted.Redacted<string>>) => Effect.Effect<void, Unauthorized>
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
      const proofs = yield* ClientProofs
      const store = Store.make(sql, { resource, instance_id: access.instanceId })
      const finders = {
        sat: yield* together(store.accessToken),
        sba: yield* together(store.bridgeToken),
        spt: yield* together(store.projectToken)
      }
      const challenge = challenges(baseUrl.origin)

      const missing = challenged(refuse("unauthorized"), challenge.missing)
      const invalid = challenged(refuse("unauthorized"), challenge.invalid)

      const invalidBound = challenged(refuse("unauthorized"), challenge.invalidBound)
      const unproven = (why: string) => challenged(refuse("unauthorized"), challenge.unproven(why))
      const saying = <A>(self: Effect.Effect<A, Unproven | AccessRefusal<"bridge_persistence_error">>) =>
        Effect.catchTag(self, "Unproven", ({ why }) => unproven(why))

      const claim = Effect.fnUntraced(function* (
        bearer: Redacted.Redacted<string>,
        { method, path, proof, scheme }: Presented
      ) {
        if (scheme === "Bearer") return undefined
        if (proof === undefined) return yield* unproven("there is none")
        return yield* saying(proofs.read(proof, { method, path, baseUrl, tokenHash: Tokens.hash(bearer) }))
      }, sharedPersistence)

      const find = Effect.fnUntraced(function* (bearer: Redacted.Redacted<string>) {
        const kind = Tokens.kindOf(Redacted.value(bearer))
        if (kind !== "sat" && kind !== "sba" && kind !== "spt") return Option.none()
        const now = yield* clock.now
        const asked = { token_hash: Tokens.hash(bearer), now }
        const found = yield* finders[kind](asked)
        return Option.map(found, (row) => ({ ...row, now }))
      })

      const authorizeAgain = Effect.fn("Access.authorizeAgain")(function* (
        bearer: Option.Option<Redacted.Redacted<string>>
      ) {
        if (Option.isNone(bearer) || Option.isNone(yield* find(bearer.value))) return yield* invalid
      }, sharedPersistence)

      const authorize = Effect.fnUntraced(
        function* (bearer: Option.Option<Redacted.Redacted<string>>, claimed?: Claimed) {
          if (Option.isNone(bearer)) return yield* missing
          if (claimed !== undefined) yield* saying(requireSigned(claimed))
          const found = Option.getOrUndefined(yield* find(bearer.value))
          if (found === undefined || !isKey(found.dpop_jkt, claimed))
            return yield* claimed === undefined ? invalid : invalidBound
          if (claimed !== undefined && !(yield* proofs.remember(claimed.used)))
            return yield* unproven("it was used before")
          const { dpop_jkt, last_used_at, now, scopes, ...actor } = found
          const isOld = last_used_at === null || now.getTime() - last_used_at.getTime() >= lastUsedPrecision
          if (actor.bridge_id === null && isOld) {
            const touch =
              actor.grant_id === null
                ? store.touchProjectToken(actor.credential_id, now)
                : store.touchGrant(actor.grant_id, now)
            yield* Effect.ignore(inTurn(touch))
          }
          return { ...actor, scopes: new Set(scopes), bound: dpop_jkt !== null }
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
          : challenged(refuse("insufficient_scope"), challenge.insufficient(needed, actor.scopes, actor.bound === true))

      const foreignGrants = Effect.gen(function* () {
        const [counted] = yield* store.countForeignGrants(yield* clock.now)
        return counted!.grants
      }).pipe(persistence)

      return { claim, authorize, authorizeAgain, foreignGrants, requireGrant, require }
    })
  )
}

const challenged = <Code extends string>({ _tag, message, status }: Refusal<Code>, challenge: string): Refusal<Code> =>
  new Refusal({ _tag, message, status, challenge })
