/**
 * Serves the console (decisions.md, Sessions of the console).
 *
 * 1. Each page finds the session of its cookie. Without one, a GET leads to the sign-in page and back afterwards.
 * 2. A project token sees its own project, an operator every one. Anything else is the one 404.
 * 3. A page of a project token counts like a tool call of its project. A page counts in memory until it was sent.
 * 4. A passkey opens a session like the project token with which it was added (signin/passkeys).
 * 5. A form is accepted only from a page of ours: `Origin` must be the base URL's, and the form of a signed-in person
 *    carries the value that belongs to the session. Success is a 303.
 *
 * With SERVICE_CONSOLE=off no route exists.
 */
import { ByteSize, Effect, Layer, Option, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CallBudget } from "../../agents/mcp/CallBudget.ts"
import { Limits } from "../../operator/limits/Limits.ts"
import { Projects } from "../../operator/projects/Projects.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import { Attempts, keyOf } from "../../platform/edge/limits/Attempts.ts"
import { readForm } from "../../platform/edge/Form.ts"
import { MemoryBudget } from "../../platform/edge/limits/MemoryBudget.ts"
import { onlyMethods } from "../../platform/edge/Methods.ts"
import { isFromOwnPage, pageRoutes, queryOf } from "../../platform/edge/PageRoutes.ts"
import { RateLimit } from "../../platform/edge/limits/RateLimit.ts"
import { pageHeaders } from "../../platform/html/Page.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { CurrentShare, Shares } from "../../platform/database/Shares.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import {
  isFormOf,
  type Session,
  Sessions,
  type SessionToken,
  type SignedIn,
  WrongCredential
} from "../../signin/sessions/Sessions.ts"
import type { Actor } from "../../wire/Actor.ts"
import { refuse } from "../../wire/Errors.ts"
import type { Scope } from "../../wire/Scopes.ts"
import { passkeyHeaders } from "../../signin/passkeys/Card.ts"
import type { PersonKeyRefusal } from "../../signin/passkeys/Errors.ts"
import { keyOfPasskey, PersonKeys, WrongKey } from "../../signin/passkeys/PersonKeys.ts"
import { preSession } from "../../signin/passkeys/PreSession.ts"
import { sessionCookie } from "../../signin/sessions/SessionCookie.ts"
import { Caller } from "../../wire/Headers.ts"
import { appPaths, appRoutes } from "./app/Http.ts"
import { accessPage } from "./access/AccessPage.ts"
import { doneSentence, operatorActions } from "./Actions.ts"
import { activityPage } from "./activity/ActivityPage.ts"
import { agentsPage } from "./access/AgentsPage.ts"
import { appsDone, appsPage, appsPath, endApp } from "./access/AppsPage.ts"
import { bridgesPage } from "./bridges/BridgesPage.ts"
import { documentsPage } from "./DocumentsPage.ts"
import { entryPage } from "./memory/EntryPage.ts"
import {
  consoleHeaders,
  endPage,
  enterPage,
  type Frame,
  framed,
  sections,
  serviceSections,
  signInPage,
  told
} from "./Frame.ts"
import { healthPage } from "./service/HealthPage.ts"
import { keyActions, keysDone, keysPage, keysPath } from "./access/KeysPage.ts"
import { limitsPage } from "./service/LimitsPage.ts"
import { memoryActions } from "./memory/MemoryForms.ts"
import { memoryPage } from "./memory/MemoryPage.ts"
import { isOwnAction, type OwnAction, ownDeviceActions, ownDone } from "./phones/OwnDevices.ts"
import { phonesPage } from "./phones/PhonesPage.ts"
import { projectsPage } from "./service/ProjectsPage.ts"
import { pushPage } from "./phones/PushPage.ts"
import { serviceBridgesPage } from "./bridges/ServiceBridgesPage.ts"
import { Subjects } from "./activity/Subjects.ts"
import { taskActions } from "./tasks/TaskForms.ts"
import { taskPage } from "./tasks/TaskPage.ts"
import { tasksPage } from "./tasks/TasksPage.ts"
import { todayPage } from "./TodayPage.ts"
import { type Failure, isUuid, maySee, NotHere, type ServiceView, type Shown, type View } from "./View.ts"
import { authorOf, mayWrite, type Sent, Unsaved } from "./Writing.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/** What one form of a page does: it returns the page to show next. */
type Action = (view: View, author: Actor, sent: Sent) => Effect.Effect<string, Unsaved | Failure>

const home = "/console"
/** Percent-encoded, the largest text of a form has three times its size. */
const largestForm = ByteSize.fromInputUnsafe(128 * 1024)

/** Sign-ins with one project token or passkey: each leaves a session and two audit rows for weeks. */
const signInRate = { perSecond: 1 / 60, burst: 60 }

const routes = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { baseUrl } = yield* Settings
    const sessions = yield* Sessions
    const shares = yield* Shares
    const projects = yield* Projects
    const attempts = yield* Attempts
    const audit = yield* Audit
    const budget = yield* CallBudget
    const limits = yield* Limits
    const memory = yield* MemoryBudget
    const subjects = yield* Subjects
    const keys = yield* PersonKeys
    const browsers = yield* preSession
    const signIns = (yield* RateLimit).buckets(signInRate)
    const { countingWrong, fail, redirect, serve, show, wrongSecrets } = yield* pageRoutes(router, pageHeaders, endPage)

    const { secretOf, sessionOf: cookieSession, withCookie } = yield* sessionCookie
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
    const sessionOf = (request: Request) => cookieSession(request, request.headers["console-refresh"] === undefined)

    /** An operator has to see a project that uses all of its turns. */
    const inTurn =
      ({ token }: Session, searches: boolean) =>
      (shown: Effect.Effect<Response, Failure>) => {
        if (token === undefined) return shown
        const caller = { ...token, subject: token.token_id }
        return Effect.catchTag(budget.admit(caller, { searches, writes: false })(shown), "limit_exceeded", (refusal) =>
          Effect.fail(refuse("rate_limited", Number(refusal.details?.["retry_after"])))
        )
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
            const answered = answer(session.value, request).pipe(
              Effect.catchTag("NotHere", notFound),
              Effect.provideService(CurrentShare, shares.known(owner))
            )
            return yield* memory.answer(owner, request, answered)
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
      path: "" | "/:id" = "",
      searches = false
    ) =>
      page(
        `/console/:project${section === "" ? "" : `/${section}`}${path}` as HttpRouter.PathInput,
        (session, request) =>
          Effect.gen(function* () {
            const params = yield* HttpRouter.params
            const project = yield* projectOf(session, params["project"] ?? "")
            const query = new URLSearchParams(queryOf(request))
            const frame = { project, section, session, done: doneSentence(query.get("done")) ?? ownDone(query) }
            const [, title, needs] = sections.find(([path]) => path === section) ?? ["", "", undefined]
            if (needs !== undefined && !maySee(session, needs)) {
              return showFramed(403, told(frame, title, `Your project token does not include the scope ${needs}.`))
            }
            const view = { session, project, query, now: session.now, id: params["id"] ?? "" }
            return yield* render(view).pipe(
              Effect.map((shown) => showFramed(200, framed(frame, shown))),
              Effect.catchTag("NotHere", () => Effect.succeed(notHere(frame))),
              inTurn(session, searches)
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

    /** The forms of a page of a project, by their field `action`. What they do not accept is shown on the page again. */
    const projectForms = (
      section: "tasks" | "memory",
      render: (view: View) => Effect.Effect<Shown, Failure>,
      actions: Readonly<Record<string, Action>>,
      path: "" | "/:id" = ""
    ) => {
      const needs = `${section}:write` as const

      const written = Effect.fnUntraced(function* (session: Session, request: Request) {
        const params = yield* HttpRouter.params
        const project = yield* projectOf(session, params["project"] ?? "")
        const frame = { project, section, session }
        const fields = yield* Effect.option(
          Effect.provideService(readForm(request), HttpServerRequest.MaxBodySize, largestForm)
        )
        if (Option.isNone(fields)) return end("malformed")
        if (!isFormOf(session, fields.value.get("csrf") ?? "")) return end("foreign_form")
        const view: View = { session, project, query: new URLSearchParams(), now: session.now, id: params["id"] ?? "" }
        if (!mayWrite(view, needs)) return yield* refused(frame, needs)
        const sent: Sent = { action: fields.value.get("action") ?? "", fields: fields.value }
        const act = Object.hasOwn(actions, sent.action) ? actions[sent.action] : undefined
        if (act === undefined || (path !== "" && !isUuid(view.id))) return notHere(frame)
        return yield* Effect.gen(function* () {
          const author = authorOf(session, project, yield* limits.own(project.project_id))
          // What was not accepted costs a whole page, so it takes the same turn.
          const answered = Effect.map(act(view, author, sent), redirect).pipe(
            Effect.catchTag("Unsaved", ({ problem, status }) =>
              Effect.map(render({ ...view, unsaved: { ...sent, problem } }), (shown) =>
                showFramed(status, framed(frame, shown))
              )
            )
          )
          return yield* budget.admit(author, { searches: false, writes: true })(answered)
        }).pipe(
          Effect.catchTag("limit_exceeded", ({ message }) =>
            Effect.succeed(
              showFramed(429, told(frame, "Nothing was saved", `${message} Go back: what you typed is still there.`))
            )
          ),
          Effect.catchTag(["NotHere", "project_not_found"], () => Effect.succeed(notHere(frame)))
        )
      })

      /** A person should know of a token that tries to write what it may not. */
      const refused = Effect.fnUntraced(function* (frame: Frame & Pick<View, "project">, needs: Scope) {
        const { project, session } = frame
        if (project.disabled) return showFramed(409, told(frame, "Nothing was changed", "This project is disabled."))
        const { actor, session_id } = session
        const event = { action: "console.write", code: "insufficient_scope", project_id: project.project_id, actor }
        yield* persistence(audit.refused(session.now, { ...event, subject: { session_id } }))
        const sentence = `Your project token does not include the scope ${needs}.`
        return showFramed(403, told(frame, "Nothing was changed", sentence))
      })

      return serve(
        "POST",
        `/console/:project/${section}${path}` as HttpRouter.PathInput,
        Effect.fnUntraced(
          function* (request) {
            if (!isFromOwnPage(request, baseUrl.origin)) return end("foreign_form")
            const session = yield* sessionOf(request)
            if (Option.isNone(session)) return end("signed_out")
            const owner = session.value.token?.project_id ?? session.value.session_id
            const answered = memory.body(owner, request, written(session.value, request)).pipe(
              Effect.catchTag("NotHere", () => Effect.succeed(notHere({ session: session.value }))),
              Effect.provideService(CurrentShare, shares.known(owner))
            )
            return yield* memory.answer(owner, request, answered)
          },
          Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter)))
        )
      )
    }

    const tasks = { actions: yield* taskActions, list: yield* tasksPage, one: yield* taskPage }
    const entries = { actions: yield* memoryActions, list: yield* memoryPage, one: yield* entryPage }
    yield* projectPage("", yield* todayPage)
    yield* projectPage("tasks", tasks.list)
    yield* projectPage("tasks", tasks.one, "/:id")
    yield* projectForms("tasks", tasks.list, { create: tasks.actions.create })
    yield* projectForms(
      "tasks",
      tasks.one,
      { answer: tasks.actions.answer, change: tasks.actions.change, note: tasks.actions.note },
      "/:id"
    )
    yield* projectPage("memory", entries.list, "", true)
    yield* projectPage("memory", entries.one, "/:id")
    yield* projectForms("memory", entries.list, { add: entries.actions.add })
    yield* projectForms(
      "memory",
      entries.one,
      { archive: entries.actions.archive, supersede: entries.actions.supersede },
      "/:id"
    )
    yield* projectPage("bridges", yield* bridgesPage)
    yield* projectPage("documents", yield* documentsPage)
    yield* projectPage("agents", yield* agentsPage)
    yield* projectPage("phones", yield* phonesPage)
    yield* projectPage("activity", showActivity)
    yield* projectPage("limits", yield* limitsPage)
    /** Leads to what a notification is about, so that a phone's app needs to know no project. */
    yield* page("/console/open/:id", (session) =>
      Effect.gen(function* () {
        const { id = "" } = yield* HttpRouter.params
        if (!isUuid(id)) return yield* new NotHere()
        const found = yield* subjects.find(id, session.token?.project_id)
        if (Option.isNone(found)) return yield* new NotHere()
        const { kind, project_id } = found.value
        return redirect(`/console/${project_id}/${kind === "task" ? `tasks/${id}` : sectionOf(kind)}`)
      })
    )
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
      handle: (fields: URLSearchParams, request: Request) => Effect.Effect<Response, unknown, HttpRouter.RouteContext>
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
    const runOwnAction = yield* ownDeviceActions
    const changes = (yield* RateLimit).buckets(deviceChangeRate)

    /** Runs a form about the person's own devices. */
    const ownAction = Effect.fnUntraced(function* (
      action: OwnAction,
      session: Session,
      fields: URLSearchParams,
      request: Request
    ) {
      const { project: project_id = "" } = yield* HttpRouter.params
      const project = yield* projectOf(session, project_id)
      const wait = yield* changes.take(project.project_id)
      if (wait > 0) return fail("busy", wait)
      const { userAgent } = yield* Caller
      return yield* runOwnAction(action, authorOf(session, project, {}), fields, userAgent).pipe(
        Effect.map((done) => redirect(`${request.url.split("?")[0]}?${done}`)),
        Effect.catch((refusal) =>
          refusal._tag === "bridge_persistence_error" || refusal._tag === "rate_limited"
            ? Effect.fail(refusal)
            : Effect.succeed(
                showFramed(
                  409,
                  told(
                    { project, section: "phones", session },
                    "Nothing was changed",
                    refusal._tag === "invalid_request" ? malformedForm : refusal.message
                  )
                )
              )
        )
      )
    })

    /** Frames what a person has of their own, beside the pages of their project. */
    const ownFrame = (session: Session, done?: string): Frame => ({
      session,
      project: session.token && {
        project_id: session.token.project_id,
        name: session.token.project_name,
        disabled: false
      },
      done
    })

    /** A page of what a person has of their own, which an operator has not. */
    const ownPage = (
      path: HttpRouter.PathInput,
      render: (session: Session, token: SessionToken, query: URLSearchParams) => Effect.Effect<Shown, Failure>,
      done: (query: URLSearchParams) => string | undefined
    ) =>
      page(path, (session, request) =>
        Effect.gen(function* () {
          if (session.token === undefined) return yield* new NotHere()
          const query = new URLSearchParams(queryOf(request))
          const shown = yield* render(session, session.token, query)
          return showFramed(200, framed(ownFrame(session, done(query)), shown))
        }).pipe(inTurn(session, false))
      )

    /** The form of such a page. `run` returns what was done; what it refuses changes nothing. */
    const ownForm = (
      path: HttpRouter.PathInput,
      run: (session: Session, fields: URLSearchParams) => Effect.Effect<string, NotHere | PersonKeyRefusal>
    ) =>
      form(path, (fields, request) =>
        Effect.gen(function* () {
          const session = Option.getOrUndefined(yield* sessionOf(request))
          if (session === undefined) return end("signed_out")
          if (!isFormOf(session, fields.get("csrf") ?? "")) return end("foreign_form")
          const wait = yield* changes.take(session.token?.token_id ?? session.session_id)
          if (wait > 0) return fail("busy", wait)
          return yield* run(session, fields).pipe(
            Effect.map((done) => redirect(`${path}?done=${done}`)),
            Effect.catchTag("NotHere", () => Effect.succeed(notHere(ownFrame(session)))),
            Effect.catch((refusal) =>
              refusal._tag === "bridge_persistence_error"
                ? Effect.fail(refusal)
                : Effect.succeed(
                    showFramed(refusal.status, told(ownFrame(session), "Nothing was changed", refusal.message))
                  )
            )
          )
        }).pipe(Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter))))
      )

    yield* ownPage(keysPath, yield* keysPage, keysDone)
    yield* ownForm(keysPath, yield* keyActions)
    yield* ownPage(appsPath, yield* appsPage, appsDone)
    yield* ownForm(appsPath, yield* endApp)

    /** The forms of a page's actions, which lead back to the page. Only an operator's session may send most of them. */
    const actions = (path: HttpRouter.PathInput) =>
      form(path, (fields, request) =>
        Effect.gen(function* () {
          const session = Option.getOrUndefined(yield* sessionOf(request))
          if (session === undefined) return redirect("/console/sign-in")
          if (!isFormOf(session, fields.get("csrf") ?? "")) return end("foreign_form")
          const frame = { session }
          if (session.token !== undefined) {
            const action = fields.get("action")
            if (path === phonesPath && isOwnAction(action)) {
              return yield* Effect.catchTag(ownAction(action, session, fields, request), "NotHere", () =>
                Effect.succeed(notHere(frame))
              )
            }
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
            return showFramed(422, told(frame, "Nothing was changed", malformedForm))
          }
          return yield* running.pipe(
            Effect.map((action) => redirect(withDone(request, action))),
            Effect.catchTag("NotHere", () => Effect.succeed(notHere(frame)))
          )
        }).pipe(Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter))))
      )
    for (const path of serviceActionPages) yield* actions(`/console/${path}`)
    for (const path of projectActionPages) yield* actions(`/console/:project/${path}`)

    /** The answer to a sign-in. The session that the browser had before ends with it. */
    const signedIn = Effect.fnUntraced(function* ({ lasts, secret }: SignedIn, to: string, request: Request) {
      const former = yield* sessions.find(secretOf(request), false)
      if (Option.isSome(former)) yield* sessions.signOut(former.value)
      yield* attempts.remember(secret)
      return withCookie(redirect(to), Redacted.value(secret), lasts)
    })

    /** Tries what a person entered, unless too many wrong secrets or passkeys came from that address. */
    const limited = <E>(attempt: Effect.Effect<Response, E | WrongCredential | WrongKey>) =>
      Effect.gen(function* () {
        const { network } = yield* Caller
        const wait = yield* wrongSecrets.take(network)
        if (wait > 0) return fail("busy", wait)
        return yield* countingWrong(
          attempt,
          network,
          (error) => error instanceof WrongCredential || error instanceof WrongKey
        )
      })

    const askSignIn = (status: number, to: string, wrong?: Parameters<typeof signInPage>[2]) => {
      const asked = show(status, signInPage(to, keys.relyingParty, wrong))
      return keys.relyingParty === undefined ? asked : HttpServerResponse.setHeaders(asked, passkeyHeaders)
    }

    yield* serve("GET", "/console/sign-in", (request) =>
      Effect.gen(function* () {
        const to = destination(new URLSearchParams(queryOf(request)).get("to") ?? "")
        const session = yield* sessionOf(request)
        return Option.isSome(session) ? redirect(to) : askSignIn(200, to)
      }).pipe(Effect.catchTag("rate_limited", ({ retryAfter }) => Effect.succeed(fail("busy", retryAfter))))
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

/** The page that lists Bridges, agents or phones; as long as there is none, the one that says what happened. */
const sectionOf = (kind: "bridge" | "agent" | "phone"): string =>
  sections.map(([path]): string => path).find((path) => path === `${kind}s`) ?? "activity"

/** Pages with actions of the operator: of the service, and of a project. */
const serviceActionPages = ["projects", "bridges", "access", "push"] as const
const projectActionPages = ["documents", "bridges", "agents", "phones", "limits"] as const

const malformedForm = "A value of the form is missing or malformed. Go back: what you typed is still there."

const phonesPath = "/console/:project/phones"

/** Changes to the phones of a project, as at the API. */
const deviceChangeRate = { perSecond: 10 / 60, burst: 100 }

const wrongToken =
  "This token does not open the console. Check that you copied all of it, or ask your operator: it may have ended, or be for agents only."

export const ConsoleHttp = Layer.unwrap(
  Effect.map(Settings, ({ console }) =>
    console.enabled
      ? Layer.mergeAll(
          routes,
          appRoutes,
          ...appPaths.map((path) => onlyMethods(path, ["GET"])),
          onlyMethods("/console/sign-in", ["GET", "POST"]),
          onlyMethods("/console/enter", ["GET", "POST"]),
          onlyMethods("/console/sign-out", ["POST"]),
          onlyMethods(keysPath, ["GET", "POST"]),
          onlyMethods(appsPath, ["GET", "POST"]),
          ...["tasks", "tasks/:id", "memory", "memory/:id", ...projectActionPages].map((path) =>
            onlyMethods(`/console/:project/${path}`, ["GET", "POST"])
          ),
          ...serviceActionPages.map((path) => onlyMethods(`/console/${path}`, ["GET", "POST"])),
          onlyMethods("/console/*", ["GET"])
        )
      : Layer.empty
  )
)
