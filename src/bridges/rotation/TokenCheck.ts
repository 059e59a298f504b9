/** The first steps of every operation with the presented token: hash it, check its state, watch for theft. */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { Audit } from "../../platform/audit/Audit.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { count, suspicions } from "../../platform/metrics/Metrics.ts"
import { refuse } from "../../wire/bridges/RotationApi.ts"
import { isReusedAfterRotation, refusalUnlessActive, type TokenState } from "../identity/TokenState.ts"

/** A raw Bridge token, as it came in the Authorization header. */
export type BearerToken = Redacted.Redacted<string>

const suspicious = ["bridge.token_reused_after_rotation", "bridge.rotation_prepared_elsewhere"] as const

const make = Effect.gen(function* () {
  const audit = yield* Audit
  // Both counters start at zero, so that the metric is exported before the first suspicion.
  yield* Effect.forEach(suspicious, (action) => count(suspicions(action), 0))

  const hashOf = Effect.fnUntraced(function* (bearer: BearerToken) {
    if (!Tokens.isToken("sbt", Redacted.value(bearer))) return yield* refuse("bridge_token_invalid")
    return Tokens.hash(bearer)
  })

  const requireKnown = <A>(found: Option.Option<A>) =>
    Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(refuse("bridge_token_invalid"))

  /**
   * A sign of theft for the operator. It revokes no token, because a lost answer looks the same
   * (decisions.md, Signs of theft).
   */
  const suspicion = <Action extends (typeof suspicious)[number]>(action: Action, code: string, token: TokenState) => ({
    action,
    code,
    project_id: token.project_id,
    actor: `bridge:${token.bridge_id}`,
    subject: { bridge_id: token.bridge_id, token_id: token.token_id }
  })

  const reportReuse = Effect.fnUntraced(function* (token: TokenState, code: string, now: Date) {
    if (!isReusedAfterRotation(token, now)) return
    const event = suspicion("bridge.token_reused_after_rotation", code, token)
    yield* count(suspicions(event.action))
    yield* audit.rejected(now, event)
  })

  const reportPreparedElsewhere = Effect.fnUntraced(function* (token: TokenState, now: Date) {
    const event = suspicion("bridge.rotation_prepared_elsewhere", "bridge_rotation_in_progress", token)
    yield* count(suspicions(event.action))
    yield* audit.refused(now, event)
  })

  /** Succeeds for an active token of an active identity. */
  const requireActive = Effect.fnUntraced(function* (token: TokenState, now: Date) {
    const refusal = refusalUnlessActive(token, now)
    if (refusal === undefined) return
    yield* reportReuse(token, refusal._tag, now)
    return yield* refusal
  })

  return { hashOf, requireKnown, requireActive, reportReuse, reportPreparedElsewhere }
})

export class TokenCheck extends Context.Service<TokenCheck, Effect.Success<typeof make>>()(
  "service/rotation/TokenCheck"
) {
  static readonly layer = Layer.effect(TokenCheck, make)
}
