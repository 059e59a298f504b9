/** Implements the `ProjectCredential` middleware of wire/Headers.ts, which provides `CurrentActor` to its endpoints. */
import { Effect, Layer } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { CurrentActor } from "../../wire/Actor.ts"
import { ProjectCredential } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { Access } from "./Access.ts"
import { credentialOf } from "./BearerCredential.ts"

export const AccessHttp = Layer.effect(
  ProjectCredential,
  Effect.gen(function* () {
    const access = yield* Access
    return {
      access_token: <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
        Effect.gen(function* () {
          const { headers } = yield* HttpServerRequest.HttpServerRequest
          const actor = yield* Effect.result(access.authorize(credentialOf(headers["authorization"])))
          return actor._tag === "Failure"
            ? answer(actor.failure)
            : yield* Effect.provideService(handled, CurrentActor, actor.success)
        })
    }
  })
)
