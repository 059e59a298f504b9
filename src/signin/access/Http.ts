/** Authenticates requests to /mcp and to the mobile API, and limits them before anything is looked up. */
import { Effect, Exit, Layer, Option, Result } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { Attempts, boundTo, keyOf, type Outcome } from "../../platform/edge/limits/Attempts.ts"
import { CurrentShare, Shares } from "../../platform/database/Shares.ts"
import { bindableCredentialOf } from "../../platform/edge/BearerCredential.ts"
import { presentedBy } from "../../platform/edge/Presented.ts"
import { type Buckets, RateLimit, takeAll } from "../../platform/edge/limits/RateLimit.ts"
import { type Actor, CurrentGrant } from "../../wire/Actor.ts"
import { refuse, type SharedRefusal } from "../../wire/Errors.ts"
import { PhoneCredential } from "../../wire/Headers.ts"
import { answer } from "../../wire/Refusal.ts"
import { Access } from "./Access.ts"
import type { AccessRefusal } from "./Errors.ts"
import { isAboutProof } from "./WwwAuthenticate.ts"

/** The actor of the request and the key of its credential in `perCredential`, the limit of the route. */
export const authenticates = Effect.fnUntraced(function* (perCredential: Buckets) {
  const access = yield* Access
  const attempts = yield* Attempts
  const limited = (seconds: number) => Effect.fail(refuse("rate_limited", seconds))
  return Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const bearer = bindableCredentialOf(request.headers["authorization"])
    if (Option.isNone(bearer)) return { actor: yield* access.authorize(bearer), key: "" }
    const claim = yield* Effect.result(access.claim(bearer.value, presentedBy(request)))
    const claimed = Result.isSuccess(claim) ? claim.success : undefined
    const authorize: Effect.Effect<Actor, Refused> = Result.isSuccess(claim)
      ? access.authorize(bearer, claimed)
      : Effect.fail(claim.failure)
    const credential = bearer.value
    const actor = yield* attempts.attempt({ credential, claimed, perCredential, outcomeOf, limited }, authorize)
    return { actor, key: keyOf(boundTo(credential, claimed?.jkt)) }
  })
})

type Refused = AccessRefusal<"unauthorized" | "bridge_persistence_error"> | SharedRefusal<"rate_limited">

const outcomeOf = <A>(exit: Exit.Exit<A, Refused>): Outcome => {
  if (Exit.isSuccess(exit)) return "accepted"
  const refused = Option.getOrUndefined(Exit.findErrorOption(exit))
  if (refused?._tag !== "unauthorized") return "undecided"
  return isAboutProof(refused.challenge) ? "unproven" : "rejected"
}

/** Requests for the phones of one project: a client may hold any number of access tokens, each with a limit of its own. */
const projectRate = { perSecond: 50, burst: 500 }
/**
 * Changes to the phones of one project, whoever makes them: each leaves audit rows for as long as the log is kept, and a
 * new phone a notification to the others of its owner.
 */
const changeRate = { perSecond: 10 / 60, burst: 100 }

/** Only an OAuth sign-in with the scope `mobile:devices` owns devices. */
export const AccessHttp = Layer.effect(
  PhoneCredential,
  Effect.gen(function* () {
    const access = yield* Access
    const limits = yield* RateLimit
    const shares = yield* Shares
    const authenticate = yield* authenticates(limits.buckets({ perSecond: 20, burst: 200 }))
    const requests = limits.projects(projectRate)
    const changes = limits.projects(changeRate)
    const phone = Effect.gen(function* () {
      const granted = yield* access.requireGrant((yield* authenticate).actor)
      yield* access.require(granted, "mobile:devices")
      const { method } = yield* HttpServerRequest.HttpServerRequest
      const isChange = method !== "GET" && method !== "HEAD"
      const wait = yield* takeAll([...requests(granted), ...(isChange ? changes(granted) : [])])
      if (wait > 0) return yield* refuse("rate_limited", wait)
      return granted
    })
    return {
      access_token: <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
        Effect.flatMap(Effect.result(phone), (granted) =>
          granted._tag === "Failure"
            ? Effect.succeed(answer(granted.failure))
            : handled.pipe(
                Effect.provideService(CurrentGrant, granted.success),
                Effect.provideService(CurrentShare, shares.known(granted.success.project_id))
              )
        )
    }
  })
)
