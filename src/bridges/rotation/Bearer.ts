/** What every operation does with the token that it is asked with: hash it, find it, guard it, watch it for theft. */
import { Effect, Option, Redacted } from "effect"
import { Audit } from "../../platform/audit/Audit.ts"
import { isReuse, refusalOf, type TokenState } from "../identity/Guard.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { count, suspicions } from "../../platform/metrics/Metrics.ts"
import { refuse, type RotationRefusal } from "../../wire/bridges/RotationErrors.ts"

export type Bearer = Redacted.Redacted<string>

export type Guarded = RotationRefusal<
  | "bridge_token_invalid"
  | "bridge_token_expired"
  | "bridge_token_revoked"
  | "bridge_token_pending"
  | "bridge_revoked"
  | "bridge_persistence_error"
>

export const make = Effect.gen(function* () {
  const audit = yield* Audit
  // Signs that never came are shown as zero.
  yield* Effect.forEach(["bridge.token_reused_after_rotation", "bridge.rotation_prepared_elsewhere"], (action) =>
    count(suspicions(action), 0)
  )

  const hashOf = Effect.fnUntraced(function* (bearer: Bearer) {
    if (!Tokens.isToken("sbt", Redacted.value(bearer))) return yield* refuse("bridge_token_invalid")
    return Tokens.hash(bearer)
  })

  const known = <A>(found: Option.Option<A>) =>
    Option.isSome(found) ? Effect.succeed(found.value) : Effect.fail(refuse("bridge_token_invalid"))

  /** A sign of theft: a row for the operator, never a lock-out. */
  const suspect = (action: string, code: string, token: TokenState, now: Date) =>
    Effect.andThen(
      count(suspicions(action)),
      audit.refused(now, {
        action,
        code,
        project_id: token.project_id,
        actor: `bridge:${token.bridge_id}`,
        subject: { bridge_id: token.bridge_id, token_id: token.token_id }
      })
    )

  /** Passes for an active token of an active identity. */
  const guard = Effect.fnUntraced(function* (token: TokenState, now: Date) {
    const refusal = refusalOf(token, now)
    if (refusal === undefined) return
    if (isReuse(token, now)) yield* suspect("bridge.token_reused_after_rotation", refusal._tag, token, now)
    return yield* refusal
  })

  return { hashOf, known, suspect, guard }
})
