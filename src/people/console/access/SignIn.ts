/**
 * Signing in to the console and out of it (decisions.md, Sessions of the console): with a project token, a passkey, or the
 * link of an operator. A passkey opens a session like the project token with which it was added (signin/passkeys).
 */
import { Effect, Option, Redacted } from "effect"
import { HttpServerResponse } from "effect/http"
import { Attempts, keyOf } from "../../../platform/edge/limits/Attempts.ts"
import { RateLimit } from "../../../platform/edge/limits/RateLimit.ts"
import { queryOf } from "../../../platform/edge/routes/PageRoutes.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import { passkeyHeaders } from "../../../signin/passkeys/Card.ts"
import { keyOfPasskey, PersonKeys, WrongKey } from "../../../signin/passkeys/PersonKeys.ts"
import { preSession } from "../../../signin/passkeys/PreSession.ts"
import { isFormOf, Sessions, type SignedIn, WrongCredential } from "../../../signin/sessions/Sessions.ts"
import { type ConsoleRoutes, home, type Request, type Response } from "../Routes.ts"
import { enterPage, signInPage } from "./SignInPages.ts"

/** Sign-ins with one project token or passkey: each leaves a session and two audit rows for weeks. */
const signInRate = { perSecond: 1 / 60, burst: 60 }

export const signInRoutes = Effect.fnUntraced(function* ({
  countingWrong,
  end,
  fail,
  form,
  redirect,
  secretOf,
  serve,
  sessionOf,
  show,
  whenBusy,
  withCookie
}: ConsoleRoutes) {
  const { baseUrl } = yield* Settings
  const sessions = yield* Sessions
  const attempts = yield* Attempts
  const keys = yield* PersonKeys
  const browsers = yield* preSession
  const signIns = (yield* RateLimit).buckets(signInRate)

  /** Where a sign-in leads: an address under /console/ at our own origin, otherwise the first page. */
  const destination = (to: string) => {
    if (!URL.canParse(to, baseUrl.origin)) return home
    const { origin, pathname, search } = new URL(to, baseUrl)
    return origin === baseUrl.origin && pathname.startsWith("/console/") ? `${pathname}${search}` : home
  }

  /** The answer to a sign-in. The session that the browser had before ends with it. */
  const signedIn = Effect.fnUntraced(function* ({ lasts, secret }: SignedIn, to: string, request: Request) {
    const former = yield* sessions.find(secretOf(request), false)
    if (Option.isSome(former)) yield* sessions.signOut(former.value)
    yield* attempts.remember(secret)
    return withCookie(redirect(to), Redacted.value(secret), lasts)
  })

  /** Tries what a person entered, and limits how many wrong secrets or passkeys come from an address. */
  const limited = <E>(attempt: Effect.Effect<Response, E | WrongCredential | WrongKey>) =>
    countingWrong(
      attempt,
      (error) => error instanceof WrongCredential || error instanceof WrongKey,
      (wait) => Effect.succeed(fail("busy", wait))
    )

  const askSignIn = (status: number, to: string, wrong?: Parameters<typeof signInPage>[2]) => {
    const asked = show(status, signInPage(to, keys.relyingParty, wrong))
    return keys.relyingParty === undefined ? asked : HttpServerResponse.setHeaders(asked, passkeyHeaders)
  }

  yield* serve("GET", "/console/sign-in", (request) =>
    Effect.gen(function* () {
      const to = destination(new URLSearchParams(queryOf(request)).get("to") ?? "")
      const session = yield* sessionOf(request)
      return Option.isSome(session) ? redirect(to) : askSignIn(200, to)
    }).pipe(Effect.catchTag("rate_limited", whenBusy))
  )

  yield* form("/console/sign-in", (fields, request) => {
    const to = destination(fields.get("to") ?? "")
    const credential = Redacted.make(fields.get("credential") ?? "")
    const token = Redacted.make((fields.get("project_token") ?? "").trim())
    const opening: Effect.Effect<
      SignedIn,
      Effect.Error<ReturnType<typeof keys.signIn | typeof sessions.signIn>>
    > = fields.has("credential")
      ? keys.signIn({ browser: Option.getOrElse(browsers.find(request), () => Redacted.make("")), credential })
      : sessions.signIn(token)
    const attempt = Effect.gen(function* () {
      const key = fields.has("credential") ? keyOfPasskey(credential) : keyOf(token)
      const wait = yield* signIns.take(key)
      if (wait > 0) return fail("busy", wait)
      // Whoever knows the id of a passkey, which is no secret, uses up nothing of its person's.
      const opened = yield* Effect.onError(opening, () => signIns.giveBack(key))
      return yield* signedIn(opened, to, request)
    })
    return limited(attempt).pipe(
      Effect.catchTags({
        WrongCredential: () => Effect.succeed(askSignIn(422, to, { token: wrongToken })),
        WrongKey: ({ reason }) => Effect.succeed(askSignIn(422, to, { passkey: reason }))
      })
    )
  })

  yield* serve("GET", "/console/enter", (request) =>
    Effect.succeed(show(200, enterPage(new URLSearchParams(queryOf(request)).get("code") ?? "")))
  )

  yield* form("/console/enter", (fields, request) =>
    limited(
      Effect.flatMap(sessions.enter(Redacted.make(fields.get("code") ?? "")), (opened) =>
        signedIn(opened, opened.project_id === null ? home : `/console/${opened.project_id}`, request)
      )
    ).pipe(Effect.catchTag("WrongCredential", () => Effect.succeed(end("link_used"))))
  )

  yield* form("/console/sign-out", (fields, request) =>
    Effect.gen(function* () {
      const session = yield* sessions.find(secretOf(request), false)
      if (Option.isSome(session)) {
        if (!isFormOf(session.value, fields.get("csrf") ?? "")) return end("foreign_form")
        yield* fields.get("everywhere") === "1"
          ? sessions.signOutEverywhere(session.value)
          : sessions.signOut(session.value)
      }
      return withCookie(redirect("/console/sign-in"), "", 0)
    })
  )
})

const wrongToken =
  "This token does not open the console. Check that you copied all of it, or ask your operator: it may have ended, or be for agents only."
