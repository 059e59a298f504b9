/**
 * Serves the console (decisions.md, Sessions of the console).
 *
 * 1. Each page finds the session of its cookie. Without one, a GET leads to the sign-in page and back afterwards.
 * 2. A project token sees its own project, an operator every one. Anything else is the one 404.
 * 3. A form is accepted only from a page of ours: `Origin` must be the base URL's, and the form of a signed-in person
 *    carries the value that belongs to the session. Success is a 303.
 *
 * With SERVICE_CONSOLE=off no route exists.
 */
import { Effect, Exit, Layer, Option, Redacted } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Projects } from "../../operator/projects/Projects.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import { Attempts, type Outcome } from "../../platform/edge/Attempts.ts"
import { readForm } from "../../platform/edge/Form.ts"
import { onlyMethods } from "../../platform/edge/Methods.ts"
import { isFromOwnPage, ownCookie, pageRoutes, queryOf } from "../../platform/edge/PageRoutes.ts"
import { pageHeaders } from "../../platform/html/Page.ts"
import { CurrentShare, Shares } from "../../platform/database/Shares.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { isFormOf, type Session, Sessions, type SignedIn, WrongCredential } from "../../signin/sessions/Sessions.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { refuse } from "../../wire/Errors.ts"
import { Caller } from "../../wire/Headers.ts"
import { accessPage } from "./AccessPage.ts"
import { doneSentence, operatorActions } from "./Actions.ts"
import { activityPage } from "./ActivityPage.ts"
import { agentsPage } from "./AgentsPage.ts"
import { bridgesPage } from "./BridgesPage.ts"
import { documentsPage } from "./DocumentsPage.ts"
import { entryPage } from "./EntryPage.ts"
import {
  consoleHeaders,
  endPage,
  enterPage,
  type Frame,
  framed,
  fullSentence,
  sections,
  serviceSections,
  signInPage,
  told
} from "./Frame.ts"
import { healthPage } from "./HealthPage.ts"
import { limitsPage } from "./LimitsPage.ts"
import { memoryPage } from "./MemoryPage.ts"
import { phonesPage } from "./PhonesPage.ts"
import { projectsPage } from "./ProjectsPage.ts"
import { pushPage } from "./PushPage.ts"
import { serviceBridgesPage } from "./ServiceBridgesPage.ts"
import { taskPage } from "./TaskPage.ts"
import { tasksPage } from "./TasksPage.ts"
import { todayPage } from "./TodayPage.ts"
import { type Failure, isUuid, maySee, NotHere, type ServiceView, type Shown, type View } from "./View.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse
type Found = Effect.Effect<Option.Option<Session>, SharedRefusal<"bridge_persistence_error" | "rate_limited">>

const home = "/console"

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* Settings
    const sessions = yield* Sessions
    const shares = yield* Shares
    const projects = yield* Projects
    const attempts = yield* Attempts
    const audit = yield* Audit
    const { fail, redirect, serve, show, wrongSecrets } = yield* pageRoutes(router, pageHeaders, endPage)

    const isSecure = baseUrl.protocol === "https:"
    const cookie = isSecure ? "__Host-console" : `console_${baseUrl.port || "80"}`
    const withCookie = (response: Response, value: string, maxAge: number) =>
      HttpServerResponse.setHeader(response, "set-cookie", ownCookie(cookie, value, isSecure, maxAge))

    const end = (reason: Parameters<typeof endPage>[0]) => {
      const { body, status } = endPage(reason)
      return show(status, body)
    }
    /** Pages in the frame have a style sheet of their own, and the script. */
    const showFramed = (status: number, body: string) =>
      HttpServerResponse.setHeaders(show(status, body), consoleHeaders)
    const notHere = (frame: Frame) =>
      showFramed(404, told(frame, "Nothing is here", "The address is wrong, or what it names is not yours to see."))

    /** A page that refreshes itself does not count as a use. */
    const sessionOf = ({ cookies, headers }: Request): Found => {
      const value = cookies[cookie] ?? ""
      if (value === "") return Effect.succeedNone
      const credential = Redacted.make(value)
      const found: Found = sessions.find(credential, headers["console-refresh"] === undefined)
      const limited = (seconds: number): Found => Effect.fail(refuse("rate_limited", seconds))
      return attempts.attempt({ credential, outcomeOf, limited }, found)
    }

    /** Answers a GET of a signed-in person; anyone else is led to the sign-in page. */
    const page = (
      path: HttpRouter.PathInput,
      answer: (session: Session, request: Request) => Effect.Effect<Response, Failure, HttpRouter.RouteContext>
    ) =>
      serve("GET", path, (request) =>
        Effect.gen(function* () {
          const session = yield* sessionOf(request)
          if (Option.isSome(session)) {
            const notFound = () => Effect.succeed(notHere({ session: session.value }))
            const owner = session.value.token?.project_id ?? session.value.session_id
            return yield* answer(session.value, request).pipe(
              Effect.catchTag("NotHere", notFound),
              Effect.provideService(CurrentShare, shares.known(owner))
            )
          }
          return redirect(`/console/sign-in${request.url === home ? "" : `?to=${encodeURIComponent(request.url)}`}`)
        }).pipe(Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter))))
      )

    /** The project of the path, if the session may see it. */
    const projectOf = Effect.fnUntraced(function* ({ token }: Session, project_id: string) {
      if (token !== undefined) {
        if (token.project_id !== project_id) return yield* new NotHere()
        return { project_id, name: token.project_name, disabled: false }
      }
      if (!isUuid(project_id)) return yield* new NotHere()
      const { disabled_at, name } = yield* projects
        .find(project_id)
        .pipe(Effect.catchTag("project_not_found", () => new NotHere()))
      return { project_id, name, disabled: disabled_at !== null }
    })

    /** A page of a project; `path` follows the project's id. */
    const projectPage = (
      section: (typeof sections)[number][0] | "limits",
      render: (view: View) => Effect.Effect<Shown, Failure>,
      path: "" | "/:id" = ""
    ) =>
      page(
        `/console/:project${section === "" ? "" : `/${section}`}${path}` as HttpRouter.PathInput,
        (session, request) =>
          Effect.gen(function* () {
            const params = yield* HttpRouter.params
            const project = yield* projectOf(session, params["project"] ?? "")
            const query = new URLSearchParams(queryOf(request))
            const frame = { project, section, session, done: doneSentence(query.get("done")) }
            const [, title, needs] = sections.find(([path]) => path === section) ?? ["", "", undefined]
            if (needs !== undefined && !maySee(session, needs)) {
              return showFramed(403, told(frame, title, `Your project token does not include the scope ${needs}.`))
            }
            const view = { session, project, query, now: session.now, id: params["id"] ?? "" }
            return yield* render(view).pipe(
              Effect.map((shown) => showFramed(200, framed(frame, shown))),
              Effect.catchTag("NotHere", () => Effect.succeed(notHere(frame)))
            )
          })
      )

    /** A page of the operator; for anyone else it does not exist. */
    const servicePage = (
      section: (typeof serviceSections)[number][0],
      render: (view: ServiceView) => Effect.Effect<Shown, Failure>
    ) =>
      page(`/console/${section}`, (session, request) =>
        Effect.gen(function* () {
          if (session.token !== undefined) return yield* new NotHere()
          const query = new URLSearchParams(queryOf(request))
          const shown = yield* render({ session, now: session.now, query })
          return showFramed(200, framed({ session, section, done: doneSentence(query.get("done")) }, shown))
        })
      )

    const showActivity = yield* activityPage
    yield* servicePage("projects", yield* projectsPage)
    yield* servicePage("bridges", yield* serviceBridgesPage)
    yield* servicePage("access", yield* accessPage)
    yield* servicePage("push", yield* pushPage)
    yield* servicePage("health", yield* healthPage)
    yield* servicePage("activity", showActivity)
    yield* projectPage("", yield* todayPage)
    yield* projectPage("tasks", yield* tasksPage)
    yield* projectPage("tasks", yield* taskPage, "/:id")
    yield* projectPage("memory", yield* memoryPage)
    yield* projectPage("memory", yield* entryPage, "/:id")
    yield* projectPage("bridges", yield* bridgesPage)
    yield* projectPage("documents", yield* documentsPage)
    yield* projectPage("agents", yield* agentsPage)
    yield* projectPage("phones", yield* phonesPage)
    yield* projectPage("activity", showActivity)
    yield* projectPage("limits", yield* limitsPage)
    // The router serves /console itself by this route, too.
    yield* page("/console/*", (session, request) =>
      request.url.split("?")[0] === home ? Effect.succeed(redirect(firstPage(session))) : new NotHere()
    )

    /** Where a sign-in leads: an address under /console/ at our own origin, otherwise the first page. */
    const destination = (to: string) => {
      if (!URL.canParse(to, baseUrl.origin)) return home
      const { origin, pathname, search } = new URL(to, baseUrl)
      return origin === baseUrl.origin && pathname.startsWith("/console/") ? `${pathname}${search}` : home
    }

    /** Reads a form of ours, of which each field counts once; `handle` answers it. */
    const form = (
      path: HttpRouter.PathInput,
      handle: (fields: URLSearchParams, request: Request) => Effect.Effect<Response, unknown>
    ) =>
      serve("POST", path, (request) =>
        isFromOwnPage(request, baseUrl.origin)
          ? readForm(request).pipe(
              Effect.matchEffect({
                onFailure: () => Effect.succeed(end("malformed")),
                onSuccess: (fields) => handle(fields, request)
              })
            )
          : Effect.succeed(end("foreign_form"))
      )

    const runAction = yield* operatorActions
    /** The forms of a page's actions, which lead back to the page. Only an operator's session may send them. */
    const actions = (path: HttpRouter.PathInput) =>
      form(path, (fields, request) =>
        Effect.gen(function* () {
          const session = Option.getOrUndefined(yield* sessionOf(request))
          if (session === undefined) return redirect("/console/sign-in")
          if (!isFormOf(session, fields.get("csrf") ?? "")) return end("foreign_form")
          const frame = { session }
          if (session.token !== undefined) {
            const project_id = session.token.project_id
            const event = {
              action: "console_session.refused",
              code: "operator_only",
              project_id,
              actor: session.actor,
              subject: {}
            }
            yield* audit.rejected(session.now, event)
            return showFramed(403, told(frame, "Nothing was changed", "Only the operator may do this."))
          }
          const running = runAction(session.actor, fields)
          if (running === undefined) {
            return showFramed(422, told(frame, "Nothing was changed", "A value of the form is missing or malformed."))
          }
          return yield* running.pipe(
            Effect.map((action) => redirect(withDone(request, action))),
            Effect.catchTag("NotHere", () => Effect.succeed(notHere(frame)))
          )
        }).pipe(Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter))))
      )
    for (const path of ["projects", "bridges", "access", "push"])
      yield* actions(`/console/${path}` as HttpRouter.PathInput)
    for (const path of ["documents", "bridges", "agents", "phones", "limits"]) {
      yield* actions(`/console/:project/${path}` as HttpRouter.PathInput)
    }

    /** The answer to a sign-in. The session that the browser had before ends with it. */
    const signedIn = Effect.fnUntraced(function* ({ lasts, secret }: SignedIn, to: string, request: Request) {
      const former = yield* sessions.find(Redacted.make(request.cookies[cookie] ?? ""), false)
      if (Option.isSome(former)) yield* sessions.signOut(former.value)
      yield* attempts.remember(secret)
      return withCookie(redirect(to), Redacted.value(secret), lasts)
    })

    /** Tries a secret that a person entered, unless too many wrong ones came from that address. */
    const limited = <E>(attempt: Effect.Effect<Response, E | WrongCredential>) =>
      Effect.gen(function* () {
        const { network } = yield* Caller
        const wait = yield* wrongSecrets.wait(network)
        if (wait > 0) return fail("busy", wait)
        return yield* Effect.tapError(attempt, (error) =>
          error instanceof WrongCredential ? wrongSecrets.take(network) : Effect.void
        )
      })

    yield* serve("GET", "/console/sign-in", (request) =>
      Effect.gen(function* () {
        const to = destination(new URLSearchParams(queryOf(request)).get("to") ?? "")
        const session = yield* sessionOf(request)
        return Option.isSome(session) ? redirect(to) : show(200, signInPage(to))
      }).pipe(Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter))))
    )

    yield* form("/console/sign-in", (fields, request) => {
      const to = destination(fields.get("to") ?? "")
      const token = Redacted.make((fields.get("project_token") ?? "").trim())
      return limited(Effect.flatMap(sessions.signIn(token), (opened) => signedIn(opened, to, request))).pipe(
        Effect.catchTags({
          WrongCredential: () => Effect.succeed(show(422, signInPage(to, wrongToken))),
          TooManySessions: ({ maximum }) => Effect.succeed(show(409, signInPage(to, fullSentence(maximum))))
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
        const session = yield* sessions.find(Redacted.make(request.cookies[cookie] ?? ""), false)
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
)

/** The page that sent the form, which then says what was done. */
const withDone = (request: Request, action: string) => {
  const query = new URLSearchParams(queryOf(request))
  query.set("done", action)
  return `${request.url.split("?")[0]}?${query}`
}

/** The first page that the session may see: of its project, or the list of projects. */
const firstPage = (session: Session) => {
  const { token } = session
  if (token === undefined) return "/console/projects"
  const [path] = sections.find(([, , needs]) => maySee(session, needs)) ?? sections[0]
  return path === "" ? `/console/${token.project_id}` : `/console/${token.project_id}/${path}`
}

const wrongToken =
  "This token does not open the console. Check that you copied all of it, or ask your operator: it may have ended, or be for agents only."

const outcomeOf = (exit: Exit.Exit<Option.Option<Session>, unknown>): Outcome =>
  Exit.isFailure(exit) ? "undecided" : Option.isSome(exit.value) ? "accepted" : "rejected"

export const ConsoleHttp = Layer.unwrap(
  Effect.map(Settings, ({ console }) =>
    console.enabled
      ? Layer.mergeAll(
          routes,
          onlyMethods("/console/sign-in", ["GET", "POST"]),
          onlyMethods("/console/enter", ["GET", "POST"]),
          onlyMethods("/console/sign-out", ["POST"]),
          onlyMethods("/console/*", ["GET"])
        )
      : Layer.empty
  )
)
