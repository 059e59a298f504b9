/**
 * The requests of the script (Script.ts) before the browser asks its authenticator: a challenge, with what the browser needs
 * beside it. Answers and errors are JSON. What the authenticator answers is sent with a form of the page.
 *
 * With SERVICE_CONSOLE=off no route exists.
 */
import { Effect, Layer, Option } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { readForm } from "../../platform/edge/Form.ts"
import { onlyMethods } from "../../platform/edge/routes/Methods.ts"
import { isFromOwnPage } from "../../platform/edge/routes/PageRoutes.ts"
import { limitedTo, RateLimit } from "../../platform/edge/limits/RateLimit.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { answer, type Refusal } from "../../wire/Refusal.ts"
import { sessionCookie } from "../sessions/SessionCookie.ts"
import { isFormOf } from "../sessions/Sessions.ts"
import { refuse } from "./Errors.ts"
import { type Options, PersonKeys } from "./PersonKeys.ts"
import { preSession } from "./PreSession.ts"

type Request = HttpServerRequest.HttpServerRequest

/** As of a page. */
const requestRate = { perSecond: 20, burst: 200 }

const paths = ["/console/keys/options", "/console/sign-in/options"] as const

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* Settings
    const keys = yield* PersonKeys
    const { sessionOf } = yield* sessionCookie
    const browsers = yield* preSession
    const requests = (yield* RateLimit).networks(requestRate)

    const serve = (
      path: (typeof paths)[number],
      handle: (
        request: Request,
        fields: URLSearchParams
      ) => Effect.Effect<HttpServerResponse.HttpServerResponse, Refusal>
    ) =>
      router.add("POST", path, (request) =>
        Effect.gen(function* () {
          if (!isFromOwnPage(request, baseUrl.origin)) return yield* refuse("foreign_form")
          return yield* handle(request, yield* Effect.mapError(readForm(request), () => refuse("invalid_request")))
        }).pipe(
          Effect.catch((refusal) => Effect.succeed(answer(refusal))),
          limitedTo(requests)
        )
      )

    yield* serve(
      "/console/keys/options",
      Effect.fnUntraced(function* (request, fields) {
        const session = Option.getOrUndefined(yield* sessionOf(request))
        if (session === undefined || !isFormOf(session, fields.get("csrf") ?? "")) {
          return yield* refuse("token_session_required")
        }
        return json(yield* keys.optionsToAdd(session))
      })
    )

    yield* serve(
      "/console/sign-in/options",
      Effect.fnUntraced(function* (request) {
        const browser = Option.getOrUndefined(browsers.find(request)) ?? (yield* browsers.fresh)
        return browsers.withCookie(json(yield* keys.optionsToSignIn(browser)), browser)
      })
    )
  })
)

const json = (options: Options) => HttpServerResponse.jsonUnsafe(options, { headers: { "cache-control": "no-store" } })

export const PasskeysHttp = Layer.unwrap(
  Effect.map(Settings, ({ console }) =>
    console.enabled ? Layer.mergeAll(routes, ...paths.map((path) => onlyMethods(path, ["POST"]))) : Layer.empty
  )
)
