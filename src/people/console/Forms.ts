/**
 * What the forms of the console do: write to a project as an agent does, change what is a person's own, and run the
 * operator's actions. Success is a 303 to the page that says what was done.
 */
import { ByteSize, Effect, Option } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { CallBudget } from "../../agents/mcp/calls/CallBudget.ts"
import { Limits } from "../../operator/limits/Limits.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { readForm } from "../../platform/edge/Form.ts"
import { MemoryBudget } from "../../platform/edge/limits/MemoryBudget.ts"
import { RateLimit, takeAll } from "../../platform/edge/limits/RateLimit.ts"
import { isFromOwnPage, queryOf } from "../../platform/edge/routes/PageRoutes.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { PersonKeyRefusal } from "../../signin/passkeys/Errors.ts"
import { isFormOf, type Session } from "../../signin/sessions/Sessions.ts"
import type { Actor } from "../../wire/Actor.ts"
import { Caller } from "../../wire/Headers.ts"
import type { Scope } from "../../wire/Scopes.ts"
import { operatorActions } from "./Actions.ts"
import { type Frame, framed, told } from "./frame/Frame.ts"
import { markdownOfPage } from "./Markdown.ts"
import { isOwnAction, type OwnAction, ownDeviceActions } from "./phones/OwnDevices.ts"
import { type ConsoleRoutes, ownerOf, ownFrame, type Request } from "./Routes.ts"
import { type Failure, isUuid, type NotHere, type Shown, type View } from "./View.ts"
import { authorOf, mayWrite, type Sent, Unsaved } from "./Writing.ts"

/** What one form of a page does: it returns the page to show next. */
type Action = (view: View, author: Actor, sent: Sent) => Effect.Effect<string, Unsaved | Failure>

/** Percent-encoded, the largest text of a form has three times its size. */
const largestForm = ByteSize.fromInputUnsafe(128 * 1024)

/** Changes to the phones of a project, as at the API. */
const deviceChangeRate = { perSecond: 10 / 60, burst: 100 }

const phonesPath = "/console/:project/phones"

export const consoleForms = Effect.fnUntraced(function* ({
  answering,
  end,
  fail,
  form,
  notHere,
  projectOf,
  redirect,
  serve,
  sessionOf,
  showFramed,
  whenBusy
}: ConsoleRoutes) {
  const { baseUrl } = yield* Settings
  const audit = yield* Audit
  const budget = yield* CallBudget
  const limits = yield* Limits
  const memory = yield* MemoryBudget
  const rates = yield* RateLimit
  const changes = rates.buckets(deviceChangeRate)
  const phoneChanges = rates.projects(deviceChangeRate)
  const runAction = yield* operatorActions
  const runOwnAction = yield* ownDeviceActions

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
      const view: View = {
        session,
        project,
        query: new URLSearchParams(),
        now: session.now,
        id: params["id"] ?? "",
        markdown: markdownOfPage()
      }
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

    return serve(
      "POST",
      `/console/:project/${section}${path}` as HttpRouter.PathInput,
      Effect.fnUntraced(
        function* (request) {
          if (!isFromOwnPage(request, baseUrl.origin)) return end("foreign_form")
          const session = Option.getOrUndefined(yield* sessionOf(request))
          if (session === undefined) return end("signed_out")
          return yield* answering(session, request, memory.body(ownerOf(session), request, written(session, request)))
        },
        Effect.catchTag("rate_limited", whenBusy)
      )
    )
  }

  /** A form about what a person has of their own. `run` returns what was done; what it refuses changes nothing. */
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
        const answer = run(session, fields).pipe(
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
        return yield* answering(session, request, answer)
      }).pipe(Effect.catchTag("rate_limited", whenBusy))
    )

  /** Runs a form about the person's own devices. */
  const ownAction = Effect.fnUntraced(function* (
    action: OwnAction,
    session: Session,
    fields: URLSearchParams,
    request: Request
  ) {
    const { project: project_id = "" } = yield* HttpRouter.params
    const project = yield* projectOf(session, project_id)
    const wait = yield* takeAll(phoneChanges(ownerOf(session)))
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

  /** Runs a form of a page's actions. */
  const acted = Effect.fnUntraced(function* (
    path: HttpRouter.PathInput,
    session: Session,
    fields: URLSearchParams,
    request: Request
  ) {
    const frame = { session }
    if (session.token !== undefined) {
      const action = fields.get("action")
      if (path === phonesPath && isOwnAction(action)) return yield* ownAction(action, session, fields, request)
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
    return redirect(withDone(request, yield* running))
  })

  /** The forms of a page's actions, which lead back to the page. Only an operator's session may send most of them. */
  const actionForms = (path: HttpRouter.PathInput) =>
    form(path, (fields, request) =>
      Effect.gen(function* () {
        const session = Option.getOrUndefined(yield* sessionOf(request))
        if (session === undefined) return redirect("/console/sign-in")
        if (!isFormOf(session, fields.get("csrf") ?? "")) return end("foreign_form")
        return yield* answering(session, request, acted(path, session, fields, request))
      }).pipe(Effect.catchTag("rate_limited", whenBusy))
    )

  return { actionForms, ownForm, projectForms }
})

/** The page that sent the form, which then says what was done. */
const withDone = (request: Request, action: string) => {
  const query = new URLSearchParams(queryOf(request))
  query.set("done", action)
  return `${request.url.split("?")[0]}?${query}`
}

const malformedForm = "A value of the form is missing or malformed. Go back: what you typed is still there."
