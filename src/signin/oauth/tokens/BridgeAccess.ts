/**
 * Access tokens for Bridges (RFC 6749 4.4, RFC 7523; decisions.md, Access of Bridges): an enrolled machine whose Bridge has
 * a granted role reaches /mcp with its key, and nothing is pasted.
 *
 * 1. The assertion is checked by itself: form, client, audience, time and the signature by the key that it brings.
 * 2. One statement issues the token and remembers the assertion, if that key is the enrolled one, the operator has granted
 *    the role, and the Bridge is in force. A caller without the key gets one answer for all of this.
 * 3. There is no refresh token: the next assertion gets the next token.
 */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit, traceAt } from "../../../platform/audit/Audit.ts"
import { Ed25519 } from "../../../platform/crypto/Ed25519.ts"
import { uuidAt } from "../../../platform/crypto/Random.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../../platform/database/Persistence.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { after } from "../../../wire/Instant.ts"
import { expanded, ofRole, type Role, type Scope } from "../../../wire/Scopes.ts"
import type { Proven } from "../../possession/ClientProofs.ts"
import { type OAuthRefusal, proofUsed, refuse } from "../Errors.ts"
import * as Store from "./BridgeAccessStore.ts"
import { type Asserted, assertedWith, invalid } from "./ClientAssertion.ts"
import type { IssuedTokens } from "./issueTokens.ts"

const ttl = Duration.minutes(10)

interface Request {
  readonly asserted: Asserted
  /** The key that the caller has proved; the token is bound to it. */
  readonly proven?: Proven | undefined
  /** Undefined: all scopes of the role. */
  readonly scopes: ReadonlyArray<Scope> | undefined
}

type Unavailable = SharedRefusal<"bridge_persistence_error">

export class BridgeAccess extends Context.Service<
  BridgeAccess,
  {
    /** The Bridge that an assertion names, if it is valid by itself. */
    readonly check: (assertion: string) => Effect.Effect<Asserted, OAuthRefusal<"invalid_client"> | Unavailable>
    /** The Bridge of an assertion by its enrolled key that was not used yet; none for anybody else. */
    readonly holder: (
      asserted: Asserted,
      proven: Proven | undefined
    ) => Effect.Effect<Option.Option<string>, Unavailable>
    readonly issue: (
      request: Request
    ) => Effect.Effect<
      IssuedTokens,
      OAuthRefusal<"invalid_client" | "unauthorized_client" | "invalid_scope" | "invalid_dpop_proof"> | Unavailable
    >
  }
>()("service/oauth/BridgeAccess") {
  static readonly layer = Layer.effect(
    BridgeAccess,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const { access, authUrl, resource } = yield* Settings
      const store = Store.make(sql, { resource, instance_id: access.instanceId })
      const asserted = assertedWith(yield* Ed25519, [authUrl.origin, `${authUrl.origin}/token`])

      const check = Effect.fnUntraced(function* (assertion: string) {
        return yield* asserted(assertion, yield* clock.now)
      })

      const holder = Effect.fnUntraced(function* (asserted: Asserted, proven: Proven | undefined) {
        const found = yield* store.find(asserted, proven, yield* clock.now)
        // Whoever has only an assertion or a proof that was used draws on nobody's limit.
        return found.pipe(
          Option.filter(({ alive, assertion_used, proof_used }) => alive && !assertion_used && !proof_used),
          Option.map(({ identity_id }) => identity_id)
        )
      }, persistence)

      const issue = Effect.fn("BridgeAccess.issue")(function* ({ asserted, proven, scopes }: Request) {
        const now = yield* clock.now
        const { bridge_id, project_id } = asserted

        const refused = Effect.fnUntraced(function* <
          R extends OAuthRefusal<"invalid_client" | "unauthorized_client" | "invalid_dpop_proof">
        >(refusal: R) {
          yield* audit.rejected(now, {
            action: "bridge.access_token_issued",
            code: refusal._tag,
            project_id,
            actor: `bridge:${bridge_id}`,
            subject: { bridge_id }
          })
          return yield* Effect.fail(refusal)
        })

        const attempt = Effect.gen(function* () {
          const found = Option.getOrUndefined(yield* store.find(asserted, proven, now))
          if (found === undefined) return yield* unknown
          if (!found.alive) return yield* refused(unknown)
          if (found.assertion_used) return yield* refused(invalid("it was used before"))
          if (found.proof_used) return yield* refused(proofUsed)
          if (found.role === null) return yield* refused(notGranted)
          const granted = scopesOf(found.role, scopes)
          if (granted.length === 0) return yield* refuse("invalid_scope")
          const access_token = yield* Tokens.mint("sba")
          const expires_at = after(now, ttl)
          const token = {
            token_id: yield* uuidAt(now),
            token_hash: Tokens.hash(access_token),
            expires_at,
            role: found.role,
            scopes: granted
          }
          const issued = yield* store.issue(asserted, proven, token, now, yield* traceAt(now))
          return Option.map(issued, ({ scopes }): IssuedTokens => ({
            access_token,
            refresh_token: undefined,
            expires_in: Duration.toSeconds(ttl),
            scopes,
            jkt: proven?.jkt
          }))
        })

        return yield* untilSettled(attempt)
      }, persistence)

      return { check, holder, issue }
    })
  ).pipe(Layer.provide(Ed25519.layerNode))
}

/** One answer for an unknown Bridge, another key, and a Bridge that is not in force. */
const unknown = refuse("invalid_client", "No Bridge that is in force has this name and key.")

const notGranted = refuse(
  "unauthorized_client",
  "The operator has not granted this Bridge access; ask for service-admin grant-bridge-access."
)

/** What is asked for, cut to the role. */
const scopesOf = (role: Role, scopes: ReadonlyArray<Scope> | undefined) =>
  scopes === undefined ? ofRole(role) : expanded(scopes).filter((scope) => ofRole(role).includes(scope))
