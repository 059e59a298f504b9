/** The token endpoints: they hand the request to the service and count the outcome. */
import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { Attempts } from "../../platform/edge/limits/Attempts.ts"
import { presentedBy } from "../../platform/edge/Presented.ts"
import { counted, rotations } from "../../platform/metrics/Metrics.ts"
import { Bearer, type Replayable, replayable } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { type Prepared, refuse } from "../../wire/bridges/RotationApi.ts"
import { Possession } from "../possession/Possession.ts"
import { Rotation } from "./Rotation.ts"

export const RotationHttp = HttpApiBuilder.group(
  Api,
  "rotation",
  Effect.fn(function* (handlers) {
    const rotation = yield* Rotation
    const possession = yield* Possession
    const attempts = yield* Attempts
    const rememberSuccessor = ({ answer }: Replayable<Prepared>) => attempts.remember(answer.successor_token)
    /** Runs an operation with the token of a caller that has proved its key, where that is required. */
    const proven = <A, E, R>(
      request: HttpServerRequest.HttpServerRequest,
      operation: (bearer: Bearer["Service"]) => Effect.Effect<A, E, R>
    ) =>
      Effect.flatMap(Bearer, (bearer) =>
        Effect.andThen(possession.require(bearer, presentedBy(request)), operation(bearer))
      )
    return handlers.handleAll({
      prepare: ({ headers, request }) =>
        proven(request, (bearer) =>
          replayable(Effect.tap(rotation.prepare(bearer, headers["idempotency-key"]), rememberSuccessor))
        ).pipe(counted(rotations, "prepare")),
      confirm: ({ headers, payload, request }) =>
        proven(request, (bearer) =>
          replayable(rotation.confirm(bearer, payload.rotation_id, headers["idempotency-key"]))
        ).pipe(counted(rotations, "confirm")),
      abort: ({ headers, payload, request }) =>
        proven(request, (bearer) =>
          replayable(rotation.abort(bearer, payload.rotation_id, headers["idempotency-key"]))
        ).pipe(counted(rotations, "abort")),
      revoke: ({ request }) => counted(rotations, "revoke")(proven(request, rotation.revoke)),
      self: ({ headers, request }) =>
        headers.dpop === undefined
          ? Effect.flatMap(Bearer, (bearer) => rotation.self(bearer, presentedBy(request)))
          : proven(request, rotation.self)
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
