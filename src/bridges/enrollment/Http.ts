/** The enrollment endpoints: they hand the request to the service and count the outcome. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import type { EnrolledToken } from "../../wire/bridges/EnrollmentApi.ts"
import { Attempts } from "../../platform/edge/limits/Attempts.ts"
import { counted, enrollments } from "../../platform/metrics/Metrics.ts"
import { Bearer, type Replayable, replayable } from "../../wire/Headers.ts"
import { Enrollment } from "./Enrollment.ts"

export const EnrollmentHttp = HttpApiBuilder.group(
  Api,
  "enrollment",
  Effect.fn(function* (handlers) {
    const enrollment = yield* Enrollment
    const attempts = yield* Attempts
    const rememberToken = ({ answer }: Replayable<EnrolledToken>) => attempts.remember(answer.access_token)
    return handlers.handleAll({
      createChallenge: ({ headers, payload }) =>
        Effect.flatMap(Bearer, (credential) =>
          replayable(enrollment.createChallenge(payload, headers["idempotency-key"], credential)).pipe(
            counted(enrollments, "challenge")
          )
        ),
      prove: ({ headers, payload }) =>
        replayable(Effect.tap(enrollment.prove(payload, headers["idempotency-key"]), rememberToken)).pipe(
          counted(enrollments, "proof")
        )
    })
  })
)
