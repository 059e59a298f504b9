/**
 * What every page and every form of the console goes through (decisions.md, Sessions of the console).
 *
 * 1. Each page finds the session of its cookie. Without one, a GET leads to the sign-in page and back afterwards.
 * 2. A project token sees its own project, an operator every one. Anything else is the one 404.
 * 3. A page of a project token counts like a tool call of its project. A page counts in memory of its token and project
 *    until it was sent.
 * 4. A form is accepted only from a page of ours: `Origin` must be the base URL's, and the form of a signed-in person
 *    carries the value that belongs to the session. Success is a 303.
 */
import { Effect, Option } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { CallBudget } from "../../agents/mcp/calls/CallBudget.ts"
import { Projects } from "../../operator/projects/Projects.ts"
import { CurrentShare, Shares } from "../../platform/database/Shares.ts"
import { readForm } from "../../platform/edge/Form.ts"
import { MemoryBudget } from "../../platform/edge/limits/MemoryBudget.ts"
import { isFromOwnPage, pageRoutes, queryOf } from "../../platform/edge/routes/PageRoutes.ts"
import { pageHeaders } from "../../platform/html/Page.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { sessionCookie } from "../../signin/sessions/SessionCookie.ts"
import type { Session, SessionToken } from "../../signin/sessions/Sessions.ts"
import { refuse, type SharedRefusal } from "../../wire/Errors.ts"
import { doneSentence } from "./Actions.ts"
import { consoleHeaders, endPage, type Frame, framed, sections, type serviceSections, told } from "./frame/Frame.ts"
import { markdownOfPage } from "./Markdown.ts"
import { ownDone } from "./phones/OwnDevices.ts"
import { type Failure, isUuid, maySee, NotHere, type ServiceView, type Shown, type View } from "./View.ts"

export type Request = HttpServerRequest.HttpServerRequest
export type Response = HttpServerResponse.HttpServerResponse

export type ConsoleRoutes = Effect.Success<ReturnType<typeof consoleRoutes>>

export const home = "/console"

export const consoleRoutes = Effect.fnUntraced(function* (router: HttpRouter.HttpRouter) {
  const { baseUrl } = yield* Settings
  const shares = yield* Shares
  const projects = yield* Projects
  const budget = yield* CallBudget
  const memory = yield* MemoryBudget
  const { countingWrong, fail, redirect, serve, show } = yield* pageRoutes(router, pageHeaders, endPage)
  const { secretOf, sessionOf: cookieSession, withCookie } = yield* sessionCookie

  const end = (reason: Parameters<typeof endPage>[0]) => {
    const { body, status } = endPage(reason)
    return show(status, body)
  }
  const whenBusy = ({ retryAfter }: SharedRefusal<"rate_limited">) => Effect.succeed(fail("busy", retryAfter))
  /** Pages in the frame have a style sheet of their own, and the script. */
  const showFramed = (status: number, body: string) => HttpServerResponse.setHeaders(show(status, body), consoleHeaders)
  const notHere = (frame: Frame) =>
    showFramed(404, told(frame, "Nothing is here", "The address is wrong, or what it names is not yours to see."))

  /** A page that refreshes itself does not count as a use. */
  const sessionOf = (request: Request) => cookieSession(request, request.headers["console-refresh"] === undefined)

  /** Answers a signed-in person: in memory and in connections of the database, the answer counts as its owner's. */
  const answering = <R>(session: Session, request: Request, answer: Effect.Effect<Response, Failure, R>) => {
    const owner = ownerOf(session)
    const answered = answer.pipe(
      Effect.catchTag("NotHere", () => Effect.succeed(notHere({ session }))),
      Effect.provideService(CurrentShare, shares.known(owner.project_id))
    )
    return memory.answer(owner, request, answered)
  }

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
        const session = Option.getOrUndefined(yield* sessionOf(request))
        return session === undefined
          ? redirect(`/console/sign-in${request.url === home ? "" : `?to=${encodeURIComponent(request.url)}`}`)
          : yield* answering(session, request, answer(session, request))
      }).pipe(Effect.catchTag("rate_limited", whenBusy))
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
    page(`/console/:project${section === "" ? "" : `/${section}`}${path}` as HttpRouter.PathInput, (session, request) =>
      Effect.gen(function* () {
        const params = yield* HttpRouter.params
        const project = yield* projectOf(session, params["project"] ?? "")
        const query = new URLSearchParams(queryOf(request))
        const frame = { project, section, session, done: doneSentence(query.get("done")) ?? ownDone(query) }
        const [, title, needs] = sections.find(([path]) => path === section) ?? ["", "", undefined]
        if (needs !== undefined && !maySee(session, needs)) {
          return showFramed(403, told(frame, title, `Your project token does not include the scope ${needs}.`))
        }
        const id = params["id"] ?? ""
        const view = { session, project, query, now: session.now, id, markdown: markdownOfPage() }
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

  return {
    answering,
    countingWrong,
    end,
    fail,
    form,
    notHere,
    ownPage,
    page,
    projectOf,
    projectPage,
    redirect,
    secretOf,
    serve,
    servicePage,
    sessionOf,
    show,
    showFramed,
    whenBusy,
    withCookie
  }
})

/** Whom a session counts as: its project and token, or the operator's session. */
export const ownerOf = ({ session_id, token }: Session) => ({
  project_id: token?.project_id ?? session_id,
  subject: token?.token_id ?? session_id
})

/** Frames what a person has of their own, beside the pages of their project. */
export const ownFrame = (session: Session, done?: string): Frame => ({
  session,
  project: session.token && {
    project_id: session.token.project_id,
    name: session.token.project_name,
    disabled: false
  },
  done
})
