/** The endpoints of key rotation: they ask for a proof by the old key, hand the request on and count the outcome. */
import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { presentedBy } from "../../platform/edge/Presented.ts"
import { counted, rotations } from "../../platform/metrics/Metrics.ts"
import { Api } from "../../wire/Api.ts"
import { Bearer, replayable } from "../../wire/Headers.ts"
import { Possession, type Prover } from "../possession/Possession.ts"
import { Keys } from "./Keys.ts"

export const KeysHttp = HttpApiBuilder.group(
  Api,
  "keys",
  Effect.fn(function* (handlers) {
    const keys = yield* Keys
    const possession = yield* Possession
    /** Runs an operation with the token and the key of the caller. */
    const proven = <A, E, R>(
      request: HttpServerRequest.HttpServerRequest,
      key_rotation_id: string | undefined,
      operation: (bearer: Bearer["Service"], prover: Prover) => Effect.Effect<A, E, R>
    ) =>
      Effect.flatMap(Bearer, (bearer) =>
        Effect.flatMap(possession.prove(bearer, presentedBy(request), key_rotation_id), (prover) =>
          operation(bearer, prover)
        )
      )
    return handlers.handleAll({
      prepareKey: ({ headers, payload, request }) =>
        proven(request, undefined, (bearer, prover) =>
          replayable(keys.prepare(bearer, prover, payload.public_key_fingerprint, headers["idempotency-key"]))
        ).pipe(counted(rotations, "prepare_key")),
      confirmKey: ({ headers, payload, request }) =>
        proven(request, payload.key_rotation_id, (bearer, prover) =>
          replayable(keys.confirm(bearer, prover, payload, headers["idempotency-key"]))
        ).pipe(counted(rotations, "confirm_key")),
      abortKey: ({ headers, payload, request }) =>
        proven(request, payload.key_rotation_id, (bearer, prover) =>
          replayable(keys.abort(bearer, prover, payload.key_rotation_id, headers["idempotency-key"]))
        ).pipe(counted(rotations, "abort_key"))
    })
  })
)
