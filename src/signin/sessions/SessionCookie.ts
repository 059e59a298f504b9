/**
 * Finds the console session of a request's cookie. Wrong cookies count as failed authentications of their address, so that
 * nobody can try values.
 */
import { Effect, Exit, Option, Redacted } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Attempts, type Outcome } from "../../platform/edge/limits/Attempts.ts"
import { ownCookie } from "../../platform/edge/routes/PageRoutes.ts"
import { RateLimit } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { refuse, type SharedRefusal } from "../../wire/Errors.ts"
import { type Session, Sessions } from "./Sessions.ts"

/** Pages of a session, wherever it asks from. */
const pageRate = { perSecond: 20, burst: 200 }

type Request = Pick<HttpServerRequest.HttpServerRequest, "cookies">
type Found = Effect.Effect<Option.Option<Session>, SharedRefusal<"bridge_persistence_error" | "rate_limited">>

export const sessionCookie = Effect.gen(function* () {
  const { baseUrl } = yield* Settings
  const sessions = yield* Sessions
  const attempts = yield* Attempts
  const perCredential = (yield* RateLimit).buckets(pageRate)

  const isSecure = baseUrl.protocol === "https:"
  const name = isSecure ? "__Host-console" : `console_${baseUrl.port || "80"}`

  const secretOf = ({ cookies }: Request) => Redacted.make(cookies[name] ?? "")

  /** With `isUse` false the session does not count as used. */
  const sessionOf = (request: Request, isUse = true): Found => {
    const credential = secretOf(request)
    if (Redacted.value(credential) === "") return Effect.succeedNone
    const found: Found = sessions.find(credential, isUse)
    const limited = (seconds: number): Found => Effect.fail(refuse("rate_limited", seconds))
    return attempts.attempt({ credential, perCredential, outcomeOf, limited }, found)
  }

  const withCookie = (response: HttpServerResponse.HttpServerResponse, value: string, maxAge: number) =>
    HttpServerResponse.setHeader(response, "set-cookie", ownCookie(name, value, isSecure, maxAge))

  return { secretOf, sessionOf, withCookie }
})

const outcomeOf = (exit: Exit.Exit<Option.Option<Session>, unknown>): Outcome =>
  Exit.isFailure(exit) ? "undecided" : Option.isSome(exit.value) ? "accepted" : "rejected"
