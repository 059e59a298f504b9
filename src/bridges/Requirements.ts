/** Limits requests to Bridge endpoints, and refuses those without a bearer credential (spec 5, 7.2). */
import { Context, Effect, Exit, Layer, Option, type Redacted } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { Attempts, type Outcome } from "../platform/edge/limits/Attempts.ts"
import { bindableCredentialOf, credentialOf } from "../platform/edge/BearerCredential.ts"
import { presentedBy } from "../platform/edge/Presented.ts"
import { RateLimit } from "../platform/edge/limits/RateLimit.ts"
import { refuse as refuseBridge } from "../wire/bridges/BridgeErrors.ts"
import { refuse as refuseEnrollment } from "../wire/bridges/EnrollmentApi.ts"
import { refuse } from "../wire/Errors.ts"
import { Bearer, BootstrapCredential, BridgeToken, LimitedByCredential } from "../wire/Headers.ts"
import { answer, Refusal } from "../wire/Refusal.ts"
import { CurrentClaim, Possession } from "./possession/Possession.ts"

type Response = HttpServerResponse.HttpServerResponse

const rate = { perSecond: 20, burst: 200 }

/** The credential of the request, read once. The library reads the header as well, but leniently; that is not used. */
const Presented = Context.Reference<Option.Option<Redacted.Redacted<string>>>("service/bridges/Presented", {
  defaultValue: Option.none
})

const limitedByCredential = Layer.effect(
  LimitedByCredential,
  Effect.gen(function* () {
    const attempts = yield* Attempts
    const possession = yield* Possession
    const perCredential = (yield* RateLimit).buckets(rate)
    const limited = (seconds: number) => Effect.succeed(answer(refuse("rate_limited", seconds)))
    return <E, R>(handled: Effect.Effect<Response, E, R>) =>
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const presented = bindableCredentialOf(request.headers["authorization"])
        if (Option.isNone(presented)) return yield* handled
        const credential = presented.value
        const claim = yield* possession.claim(credential, presentedBy(request))
        const claimed = claim && { jkt: claim.key.thumbprint, isSigned: claim.isSigned }
        return yield* attempts.attempt(
          { credential, claimed, perCredential, outcomeOf, limited },
          handled.pipe(Effect.provideService(Presented, presented), Effect.provideService(CurrentClaim, claim))
        )
      })
  })
)

/** What an answer says about the credential. Only authenticated callers get codes about state. */
const outcomeOf = (exit: Exit.Exit<Response, unknown>): Outcome => {
  const answered = Exit.isSuccess(exit) ? exit.value : Option.getOrUndefined(Exit.findErrorOption(exit))
  if (answered instanceof Refusal && answered._tag === "bridge_proof_of_possession_invalid") return "unproven"
  const status =
    answered instanceof Refusal || HttpServerResponse.isHttpServerResponse(answered) ? answered.status : 500
  if (status === 401) return "rejected"
  return status < 400 || aboutState.has(status) ? "accepted" : "undecided"
}
/** Not 422: a secret in the text is refused before the credential is looked up. */
const aboutState = new Set([403, 404, 409, 410])

/** Runs the endpoint with the credential, which is not checked yet; answers `missing` if there is none. */
const present =
  (missing: Refusal) =>
  <E, R>(handled: Effect.Effect<Response, E, R>) =>
    Effect.flatMap(
      Presented,
      Option.match({
        onNone: () => Effect.succeed(answer(missing)),
        onSome: (credential) => Effect.provideService(handled, Bearer, credential)
      })
    )

const credentialMissing = refuseEnrollment("bridge_enrollment_credential_required")

/** No key is bound to a bootstrap credential yet, so `DPoP` is not its scheme. */
const bootstrapCredential = Layer.succeed(
  BootstrapCredential,
  BootstrapCredential.of({
    bootstrap_credential: (handled) =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
        Option.isNone(credentialOf(headers["authorization"]))
          ? Effect.succeed(answer(credentialMissing))
          : present(credentialMissing)(handled)
      )
  })
)

const bridgeToken = Layer.succeed(
  BridgeToken,
  BridgeToken.of({ bridge_token: present(refuseBridge("bridge_token_invalid")) })
)

export const bridgeRequirements = Layer.mergeAll(limitedByCredential, bootstrapCredential, bridgeToken)
