/**
 * Signing in to the console and out of it (decisions.md, Sessions of the console): with a project token, a passkey, or the
 * link of an operator. A passkey opens a session like the project token with which it was added (signin/passkeys).
 */
import { Effect, Exit, Option, Redacted } from "effect"
import { HttpServerResponse } from "effect/http"
import { Attempts, keyOf, type Outcome } from "../../../platform/edge/limits/Attempts.ts"
import { RateLimit } from "../../../platform/edge/limits/RateLimit.ts"
import { queryOf } from "../../../platform/edge/routes/PageRoutes.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import { passkeyHeaders } from "../../../signin/passkeys/Card.ts"
import { keyOfPasskey, PersonKeys, WrongKey } from "../../../signin/passkeys/PersonKeys.ts"
import { preSession } from "../../../signin/passkeys/PreSession.ts"
import { isFormOf, Sessions, type SignedIn, WrongCredential } from "../../../signin/sessions/Sessions.ts"
import { refuse, type SharedRefusal } from "../../../wire/Errors.ts"
import { type ConsoleRoutes, home, type Request } from "../Routes.ts"
import { enterPage, signInPage } from "./SignInPages.ts"

/** Sign-ins with one project token or passkey: each leaves a session and two audit rows for weeks. */
const signInRate = { perSecond: 1 / 60, burst: 60 }

export const signInRoutes = Effect.fnUntraced(function* ({
  end,
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

  /** Opens a session with what a person entered. A wrong one is a failed authentication of their address. */
  const attempt = <E>(credential: Redacted.Redacted<string>, opening: Effect.Effect<SignedIn, E>) =>
    attempts.attempt<SignedIn, E | SharedRefusal<"rate_limited">, never>(
      { credential, outcomeOf, limited: (seconds) => Effect.fail(refuse("rate_limited", seconds)) },
      opening
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
    const isPasskey = fields.has("credential")
    const credential = Redacted.make(fields.get("credential") ?? (fields.get("project_token") ?? "").trim())
    const opening: Effect.Effect<
      SignedIn,
      Effect.Error<ReturnType<typeof keys.signIn | typeof sessions.signIn>>
    > = isPasskey
      ? keys.signIn({ browser: Option.getOrElse(browsers.find(request), () => Redacted.make("")), credential })
      : sessions.signIn(credential)
    const limited = Effect.gen(function* () {
      const key = isPasskey ? keyOfPasskey(credential) : keyOf(credential)
      const wait = yield* signIns.take(key)
      if (wait > 0) return yield* refuse("rate_limited", wait)
      // Whoever knows the id of a passkey, which is no secret, uses up nothing of its person's.
      return yield* Effect.onError(opening, () => signIns.giveBack(key))
    })
    return attempt(credential, limited).pipe(
      Effect.flatMap((opened) => signedIn(opened, to, request)),
      Effect.catchTags({
        rate_limited: whenBusy,
        WrongCredential: () => Effect.succeed(askSignIn(422, to, { token: wrongToken })),
        WrongKey: ({ reason }) => Effect.succeed(askSignIn(422, to, { passkey: reason }))
      })
    )
  })

  yield* serve("GET", "/console/enter", (request) =>
    Effect.succeed(show(200, enterPage(new URLSearchParams(queryOf(request)).get("code") ?? "")))
  )

  yield* form("/console/enter", (fields, request) => {
    const code = Redacted.make(fields.get("code") ?? "")
    return attempt(code, sessions.enter(code)).pipe(
      Effect.flatMap((opened) =>
        signedIn(opened, opened.project_id === null ? home : `/console/${opened.project_id}`, request)
      ),
      Effect.catchTags({
        rate_limited: whenBusy,
        WrongCredential: () => Effect.succeed(end("link_used"))
      })
    )
  })

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

const outcomeOf = (exit: Exit.Exit<unknown, unknown>): Outcome => {
  if (Exit.isSuccess(exit)) return "accepted"
  const error = Option.getOrUndefined(Exit.findErrorOption(exit))
  return error instanceof WrongCredential || error instanceof WrongKey ? "rejected" : "undecided"
}

const wrongToken =
  "This token does not open the console. Check that you copied all of it, or ask your operator: it may have ended, or be for agents only."
