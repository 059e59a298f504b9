/** The enrollment endpoints: they hand the request to the service and count the outcome. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { counted, enrollments } from "../../platform/metrics/Metrics.ts"
import { Bearer, replayable } from "../../wire/Headers.ts"
import { Enrollment } from "./Enrollment.ts"

export const EnrollmentHttp = HttpApiBuilder.group(
  Api,
  "enrollment",
  Effect.fn(function* (handlers) {
    const enrollment = yield* Enrollment
    return handlers.handleAll({
      createChallenge: ({ headers, payload }) =>
        Effect.flatMap(Bearer, (credential) =>
          replayable(enrollment.createChallenge(payload, headers["idempotency-key"], credential)).pipe(
            counted(enrollments, "challenge")
          )
        ),
      prove: ({ headers, payload }) =>
        replayable(enrollment.prove(payload, headers["idempotency-key"])).pipe(counted(enrollments, "proof"))
    })
  })
)
