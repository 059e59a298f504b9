/** The token endpoints: they hand the request to the service and count the outcome. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Attempts } from "../../platform/edge/Attempts.ts"
import { counted, rotations } from "../../platform/metrics/Metrics.ts"
import { Bearer, type Replayable, replayable } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { type Prepared, refuse } from "../../wire/bridges/RotationApi.ts"
import { Rotation } from "./Rotation.ts"

export const RotationHttp = HttpApiBuilder.group(
  Api,
  "rotation",
  Effect.fn(function* (handlers) {
    const rotation = yield* Rotation
    const attempts = yield* Attempts
    const rememberSuccessor = ({ answer }: Replayable<Prepared>) => attempts.remember(answer.successor_token)
    return handlers.handleAll({
      prepare: ({ headers }) =>
        Effect.flatMap(Bearer, (bearer) =>
          replayable(Effect.tap(rotation.prepare(bearer, headers["idempotency-key"]), rememberSuccessor)).pipe(
            counted(rotations, "prepare")
          )
        ),
      confirm: ({ headers, payload }) =>
        Effect.flatMap(Bearer, (bearer) =>
          replayable(rotation.confirm(bearer, payload.rotation_id, headers["idempotency-key"])).pipe(
            counted(rotations, "confirm")
          )
        ),
      abort: ({ headers, payload }) =>
        Effect.flatMap(Bearer, (bearer) =>
          replayable(rotation.abort(bearer, payload.rotation_id, headers["idempotency-key"])).pipe(
            counted(rotations, "abort")
          )
        ),
      revoke: () => Effect.flatMap(Bearer, (bearer) => counted(rotations, "revoke")(rotation.revoke(bearer))),
      self: () => Effect.flatMap(Bearer, rotation.self)
    })
  })
)

/** The same answer to every request for the retired route (decisions.md, The retired route). */
const retired = answer(refuse("bridge_rotation_protocol_upgrade_required"), {
  link: '</bridge/v1/tokens/rotate/prepare>; rel="successor-version"'
})

export const RetiredHttp = HttpApiBuilder.group(Api, "retired", (handlers) =>
  Effect.succeed(handlers.handleAll({ rotate: () => Effect.succeed(retired) }))
)
