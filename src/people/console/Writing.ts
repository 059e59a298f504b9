/**
 * What people write at the console (decisions.md, What people may write): forms are decoded by the schemas of the agents'
 * tools, and written by the same services. Nothing that was typed is lost: a form that is not accepted is shown again.
 */
import { findSecretIn } from "../../platform/secrets/Secrets.ts"
import { secretReason } from "../../platform/secrets/Guard.ts"
import { Data, Effect, Result, Schema } from "effect"
import { findUnacceptable } from "../../agents/continuity/Acceptable.ts"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import type { Session } from "../../signin/sessions/Sessions.ts"
import type { Actor } from "../../wire/Actor.ts"
import { firstIssue } from "../../wire/Issue.ts"
import type { Scope } from "../../wire/Scopes.ts"
import { ofRole } from "../../wire/Scopes.ts"
import { maySee, type View } from "./View.ts"

/** A form that was not accepted: the page shows why, and what was typed. 409 a conflict, 422 a mistake, 429 a limit. */
export class Unsaved extends Data.TaggedError("Unsaved")<{
  readonly status: 409 | 422 | 429
  readonly problem: string
}> {}

/** A form of a page as it was sent. */
export interface Sent {
  readonly action: string
  readonly fields: URLSearchParams
}

/** Whether the session may write what this scope lets an agent write. A disabled project takes nothing. */
export const mayWrite = ({ project, session }: Pick<View, "project" | "session">, scope: Scope): boolean =>
  maySee(session, scope) && !project.disabled

/** The session as the author of what it writes: its project token, or the operator. */
export const authorOf = ({ actor, token }: Session, project: View["project"], limits: Actor["limits"]): Actor => ({
  project_id: project.project_id,
  project_name: project.name,
  role: token?.role ?? "contributor",
  scopes: token?.scopes ?? new Set(ofRole("contributor")),
  credential_id: token?.token_id ?? "",
  subject: token?.token_id ?? "",
  client_id: null,
  grant_id: null,
  instance_id: "",
  limits,
  ...(token === undefined && { operator: actor })
})

/** How an answer names the person of the session. */
export const personOf = ({ actor, person_key_id, token }: Session) => {
  if (token === undefined) return { kind: "operator", id: actor.replace(/^operator:/, ""), label: null } as const
  return person_key_id === null
    ? ({ kind: "token", id: token.token_id, label: token.label } as const)
    : ({ kind: "passkey", id: person_key_id, label: token.label } as const)
}

/** The same form sent twice by one session is one change: its key says so to the service. */
export const keyOf = ({ session_id }: Session, path: string, { fields }: Sent): string => {
  const content = [...fields].filter(([name]) => name !== "csrf").toSorted(([one], [other]) => (one < other ? -1 : 1))
  return `console:${Buffer.from(sha256(JSON.stringify([session_id, path, content]))).toString("base64url")}`
}

/** Separates what looks alike but was sent on purpose more than ten minutes apart. */
const period = 600_000

/** A text field as it was typed, with the line breaks of the service; browsers send CRLF. */
export const typed = (fields: URLSearchParams, name: string): string =>
  (fields.get(name) ?? "").replaceAll("\r\n", "\n")

/** The words of a field of tags. */
export const tagsIn = (fields: URLSearchParams, name = "tags"): ReadonlyArray<string> => [
  ...new Set(
    typed(fields, name)
      .split(/[\s,]+/u)
      .filter((tag) => tag !== "")
  )
]

/** Members whose value is undefined are left out: they were not given. */
export const given = (members: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

/** The input of a service, or a mistake that names the field in the words of the form, `called`. */
export const checked = <A>(
  { now }: View,
  schema: Schema.ConstraintDecoder<A>,
  input: Readonly<Record<string, unknown>>,
  called = labels
): Effect.Effect<A, Unsaved> => {
  const decoded = Schema.decodeUnknownResult(schema as Schema.Codec<A>)(input)
  if (Result.isFailure(decoded)) {
    const [field, reason] = firstIssue(decoded.failure.issue)
    return mistake(called, field, reason)
  }
  const secret = findSecretIn(input, now)
  if (secret !== undefined) return mistake(called, secret.field, secretReason(secret))
  const unacceptable = findUnacceptable(decoded.success)
  return unacceptable === undefined
    ? Effect.succeed(decoded.success)
    : mistake(called, unacceptable.field, unacceptable.reason)
}

const mistake = (called: typeof labels, field: string, reason: string) => {
  const [first = ""] = field.split(".")
  return new Unsaved({ status: 422, problem: `${called[first] ?? "The form"}: ${reason}.` })
}

const labels: Readonly<Record<string, string>> = {
  title: "Title",
  body: "Text",
  text: "Answer",
  priority: "Priority",
  status: "Status",
  tags: "Tags",
  assignee: "Assigned to",
  blocked_reason: "Why it is blocked",
  blocked_kind: "What it waits for",
  kind: "Kind"
}

export const conflict = (problem: string) => new Unsaved({ status: 409, problem })

/** Refusals that every form can meet. */
export const commonRefusals = {
  idempotency_conflict: () => conflict("This form was sent before with another text."),
  limit_exceeded: ({ message }: { readonly message: string }) => new Unsaved({ status: 429, problem: message })
} as const

/** A form of the page, with the value that belongs to the session. */
export const form = (view: View, action: string, body: Html): Html =>
  html`<form class="write" method="post" ${sentHere(view, action) !== undefined && html`data-unsaved`}>
    <input type="hidden" name="csrf" value="${view.session.csrf}" />
    <input type="hidden" name="action" value="${action}" />
    ${alert(view, action)} ${body}
  </form>`

/** The hidden field of a form that creates something. */
export const periodOf = ({ now }: Pick<View, "now">): Html =>
  html`<input type="hidden" name="period" value="${Math.floor(now.getTime() / period)}" />`

/** What this form was sent with, if it was not accepted. */
export const sentHere = ({ unsaved }: Pick<View, "unsaved">, action: string): URLSearchParams | undefined =>
  unsaved?.action === action ? unsaved.fields : undefined

const alert = ({ unsaved }: View, action: string): Part =>
  unsaved?.action === action && html`<div class="note" role="alert"><p>${unsaved.problem}</p></div>`

/** A form behind a button, open when it was not accepted. */
export const folded = (view: View, action: string, title: string, body: Html): Html =>
  html`<details class="folded" ${sentHere(view, action) !== undefined && html`open`}>
    <summary>${title}</summary>
    ${form(view, action, body)}
  </details>`

export const textField = (id: string, label: string, value: string, more: Html = html``, width = ""): Html =>
  html`<div class="${width}">
    <label for="${id}">${label}</label>
    <input id="${id}" name="${id}" value="${value}" ${more} />
  </div>`

/** A browser drops the first line break of a text area, so one is added. */
export const textArea = (id: string, label: Part, value: string, more: Html = html``): Html =>
  html`<div class="wide">
    <label for="${id}">${label}</label>
    <textarea id="${id}" name="${id}" ${more}>${`\n${value}`}</textarea>
  </div>`
