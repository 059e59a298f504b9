/** The consent pages (spec 4.10). They show which app asks for which project, and what it will be able to do. */
import { Duration } from "effect"
import { isWrite, type Role, type Scope } from "../../../wire/Scopes.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { page } from "../../../platform/html/Page.ts"
import { passkeyCard, passkeyForm, wrongKey } from "../../passkeys/Card.ts"
import type { WrongKey } from "../../passkeys/PersonKeys.ts"
import type { RelyingParty } from "../../passkeys/RelyingParty.ts"
import type { Session } from "../../sessions/Sessions.ts"
import { tokenField } from "../../TokenField.ts"
import type { ErrorRedirect, NoRedirect } from "../authorize/Authorize.ts"
import { destination } from "../clients/RedirectUri.ts"
import { type ConsentEnded, consentPath } from "./BrowserBinding.ts"
import type { ConsentPage } from "./Consent.ts"

const words: Readonly<Record<Scope, { readonly text: string; readonly changes?: true }>> = {
  "context:read": { text: "See an overview: recent notes and decisions, open tasks, finished work" },
  "memory:read": { text: "Read notes and decisions" },
  "memory:write": { text: "Add notes and decisions", changes: true },
  "tasks:read": { text: "Read tasks" },
  "tasks:write": { text: "Create and update tasks", changes: true },
  "documents:read": { text: "Read the project's documents" },
  "mobile:devices": { text: "Register this phone for notifications", changes: true }
}

const roles: Readonly<Record<Role, string>> = {
  reader: "Reader: can read",
  contributor: "Contributor: can read and change"
}

/** The field that was just sent and is refused, and the choice sent with it. */
export interface Sent {
  readonly wrong?: "token" | "session" | "label"
  /** Why the passkey that was used is refused. */
  readonly wrongPasskey?: WrongKey["reason"]
  readonly access?: "read" | "write"
}

/** What may stand for a project token: the console session of this browser, and passkeys. */
export interface Offers {
  readonly session?: Session | undefined
  readonly passkeys?: RelyingParty | undefined
}

/** Asks for a project token first, or for what may stand for it, then for consent. */
export const consentPage = (view: ConsentPage, sent: Sent = {}, { passkeys, session }: Offers = {}): string => {
  const { client, project } = view
  return project === undefined
    ? askToken(view, sent, session?.token && { ...session.token, session_id: session.session_id }, passkeys)
    : askConsent(client.name, view, project, sent)
}

type Offered = Pick<Session, "session_id"> & NonNullable<Session["token"]>

const askToken = (
  { client, csrf, redirect_uri, request_id }: ConsentPage,
  sent: Sent,
  session: Offered | undefined,
  passkeys: RelyingParty | undefined
) => {
  const wrong = sent.wrong === "token"
  const isFirst = session === undefined
  return (passkeys === undefined ? page : passkeyCard)(
    `Allow ${client.name} to use a project?`,
    html`<h1>${client.name} wants to use one of your projects</h1>
      <p class="soft">Choose the project. Nothing is allowed yet: you decide on the next page.</p>
      ${facts(whoAsks(client), whereTo(redirect_uri))} ${warning(client, redirect_uri)}
      ${sent.wrong === "session" && alert("session-error", "You are no longer signed in to the console. Enter the project token instead.")}
      ${session !== undefined && withSession(session, request_id, csrf)}
      ${sent.wrongPasskey !== undefined && alert("passkey-error", wrongKey(sent.wrongPasskey))}
      ${passkeys !== undefined && withPasskey(passkeys, isFirst, request_id, csrf)}
      <form method="post" action="/oauth/consent">
        ${hidden(request_id, csrf)}
        <label for="project_token">${isFirst ? "Project token" : "Or another project token"}</label>
        <span class="soft small" id="token-help">
          It begins with <code>spt_</code> and tells this service which project and role are yours. ${client.name} never
          sees it.
        </span>
        ${wrong && alert("token-error", "This token is not valid. Check that you copied all of it, or ask your operator.")}
        ${tokenField(wrong, wrong)}
        <div class="buttons">
          ${continueWithToken(isFirst)}
          <button name="decision" value="deny" formnovalidate>Deny</button>
        </div>
      </form>`
  )
}

/** The form of a person who is signed in to the console. */
const withSession = ({ label, project_name, role, session_id }: Offered, request_id: string, csrf: string) =>
  html`<form method="post" action="/oauth/consent">
    ${hidden(request_id, csrf)}<input type="hidden" name="session" value="${session_id}" />
    <p>
      You are signed in to the console of <b>${project_name}</b>${label !== null && html` as ${label}`}. ${roles[role]}.
    </p>
    <div class="buttons"><button class="primary">Continue with ${project_name}</button></div>
  </form>`

const withPasskey = (passkeys: RelyingParty, isFirst: boolean, request_id: string, csrf: string) =>
  html`${passkeyForm(
    passkeys,
    "/oauth/consent",
    hidden(request_id, csrf),
    isFirst
      ? html`<button class="primary">Continue with a passkey</button>`
      : html`<button>Use a passkey instead</button>`
  )}
  ${isFirst && html`<p class="or">or</p>`}`

// Enter presses the first button of the form, so Continue comes before Deny.
const continueWithToken = (isPrimary: boolean) =>
  isPrimary ? html`<button class="primary">Continue</button>` : html`<button>Continue with this token</button>`

const askConsent = (name: string, view: ConsentPage, project: NonNullable<ConsentPage["project"]>, sent: Sent) => {
  const { client, csrf, redirect_uri, request_id, scopes } = view
  const title = `Allow ${name} to use ${project.name}?`
  const again = `${consentPath(request_id)}&other=1`
  if (scopes.length === 0) {
    return page(
      title,
      html`<h1>${title}</h1>
        ${alert("scope-error", "This token gives no access to anything that the app asks for.")}
        ${facts(fact("Project", project.name), fact("Your role", roles[project.role]), whoAsks(client))}
        <form method="post" action="/oauth/consent">
          ${hidden(request_id, csrf)}
          <div class="buttons">
            <button name="decision" value="deny">Deny</button>
            <a class="button" href="${again}">Use another token</a>
          </div>
        </form>`
    )
  }
  return page(
    title,
    html`<h1>${title}</h1>
      ${facts(
        fact("Project", project.name),
        fact("Your role", roles[project.role]),
        whoAsks(client),
        whereTo(redirect_uri)
      )}
      ${warning(client, redirect_uri)}
      <h2>It will be able to</h2>
      ${can(scopes)}
      <form method="post" action="/oauth/consent">
        ${hidden(request_id, csrf)}<input type="hidden" name="token_id" value="${project.token_id}" />
        ${scopes.some(isWrite) && chooseAccess(sent.access)} ${nameField(sent.wrong === "label")}
        <div class="buttons">
          <button class="primary" name="decision" value="allow">Allow</button>
          <button name="decision" value="deny">Deny</button>
        </div>
      </form>
      <p class="soft small foot">
        Access is limited to this project at <code>${view.resource}</code>. It ends ${span(view.idle)} after its last
        use, and on ${day(project.until)} at the latest. ${ended(view.endedAt)}
        <a href="${again}">Use another token</a>
      </p>`
  )
}

const ended = (at: string | undefined) => {
  const command = html`<code>service-admin revoke-oauth-grant</code>`
  return at === undefined
    ? html`Your operator can end it at any time with ${command}.`
    : html`You can end it at any time at <code>${at}</code>, and your operator with ${command}.`
}

const can = (scopes: ReadonlyArray<Scope>) =>
  html`<ul>
    ${scopes.map((scope) => {
      const { changes, text } = words[scope]
      return html`<li>${text}${changes === true && html` <span class="mark">can change</span>`}</li>`
    })}
  </ul>`

/** A request for writing scopes is a request, not a decision: the person may take them away. */
const chooseAccess = (access: Sent["access"] = "write") => {
  const choice = (value: "read" | "write", text: string) => {
    const radio =
      value === access
        ? html`<input type="radio" name="access" value="${value}" checked />`
        : html`<input type="radio" name="access" value="${value}" />`
    return html`<label class="choice">${radio} <span>${text}</span></label>`
  }
  return html`<fieldset>
    <legend>You decide</legend>
    ${choice("write", "Read and change")}
    ${choice("read", "Only read: it adds and changes no notes, decisions or tasks")}
  </fieldset>`
}

const nameField = (wrong: boolean) =>
  html`<label for="label">Name for this sign-in <span class="soft small">(optional)</span></label>
    <span class="soft small" id="label-help">Tells it from others later, such as “laptop”.</span>
    ${wrong && alert("label-error", "This is a token, not a name. It was not kept. Enter a name, or leave the field empty.")}
    <input id="label" name="label" maxlength="64" autocomplete="off" aria-describedby="label-help" />`

const hidden = (request_id: string, csrf: string) =>
  html`<input type="hidden" name="request" value="${request_id}" /><input type="hidden" name="csrf" value="${csrf}" />`

const alert = (id: string, text: string) => html`<div class="alert" role="alert" id="${id}"><p>${text}</p></div>`

const facts = (...rows: ReadonlyArray<Html>) => html`<dl>${rows}</dl>`

const fact = (name: string, value: string, more?: Html) =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}${more}</dd>
  </div>`

const whoAsks = ({ client_id, is_copy, kind, name }: ConsentPage["client"]) => {
  const host = kind === "document" ? new URL(client_id).host : ""
  const verified = {
    operator: html`<span class="small good">Registered by the operator of this service</span>`,
    document:
      is_copy === true
        ? html`<span class="small soft">An app of ${host}, as this release knows it; ${host} could not be asked</span>`
        : html`<span class="small good">Identified by ${host}</span>`,
    dynamic: html`<span class="small soft">Registered itself; nobody has verified the name</span>`
  }
  return fact("App", name, verified[kind])
}

const whereTo = (redirect_uri: string) => {
  const { kind, name } = destination(redirect_uri)
  const place = {
    loopback: html`<span class="small soft">An app on this computer</span>`,
    website: html`<span class="small soft">A website</span>`,
    app: html`<span class="small soft">An app on this device</span>`
  }
  return fact("Sends you to", name, place[kind])
}

/** Any program on the computer can listen at a loopback address and claim any name, so the person has to check. */
const warning = ({ kind }: ConsentPage["client"], redirect_uri: string) =>
  kind !== "operator" &&
  destination(redirect_uri).kind === "loopback" &&
  html`<div class="note">
    <p>Continue only if you have just started this sign-in yourself, in an app on this computer.</p>
  </div>`

const day = (at: Date) =>
  at.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" })

const span = (duration: Duration.Duration) => {
  const [days, hours] = [Duration.toDays(duration), Duration.toHours(duration)]
  if (days >= 1) return `${Math.floor(days)} days`
  return hours >= 1 ? `${Math.floor(hours)} hours` : `${Math.ceil(Duration.toMinutes(duration))} minutes`
}

/** Reasons for a sign-in to end on a page of this service. */
export type EndReason = NoRedirect["reason"] | ConsentEnded["reason"] | "busy" | "failed"

const reasons: Readonly<Record<EndReason, readonly [status: number, title: string, sentence: string]>> = {
  malformed: [
    400,
    "This link is not complete",
    "The app sent a request that this service cannot read. Start again from the app."
  ],
  unknown_client: [
    400,
    "This app is not known here",
    "Its client id is unknown or disabled. Remove the connection in the app and add it again, or ask your operator."
  ],
  wrong_redirect_uri: [
    400,
    "This app asked to send you somewhere unexpected",
    "The app has not registered that address, so you were not sent there. Start again from the app."
  ],
  client_unavailable: [
    503,
    "This app cannot be checked right now",
    "Its description could not be fetched from its website. Try again in a minute."
  ],
  unknown: [404, "This sign-in was not found", "Start again from your app."],
  expired: [410, "This page has expired", "Nothing was allowed. Start again from your app."],
  other_browser: [
    403,
    "This sign-in was started in another browser",
    "Nothing was allowed. Start again from your app."
  ],
  answered: [410, "You have already decided", "Go back to your app. If it is still waiting, start again from there."],
  too_many_tries: [410, "Too many invalid tokens", "Nothing was allowed. Start again from your app."],
  busy: [429, "Too many attempts", "Wait a minute, then load this page again."],
  failed: [503, "The service cannot answer right now", "Try again in a minute."]
}

export const endPage = (reason: EndReason): { readonly status: number; readonly body: string } => {
  const [status, title, sentence] = reasons[reason]
  return {
    status,
    body: page(
      title,
      html`<h1>${title}</h1>
        <p class="soft">${sentence}</p>
        <div class="buttons">
          <a class="button" href="/docs/troubleshooting#an-agent-does-not-connect">Troubleshooting</a>
        </div>`
    )
  }
}

/** The error of an unverified client. The person follows the link; the service does not redirect (RFC 9700 4.11). */
export const returnPage = ({ location, redirect_uri, refusal }: ErrorRedirect): string => {
  const title = "The app's request cannot be granted"
  const { name } = destination(redirect_uri)
  return page(
    title,
    html`<h1>${title}</h1>
      <p class="soft">${refusal.message} (<code>${refusal._tag}</code>)</p>
      <div class="buttons"><a class="button" href="${location}">Return to ${name}</a></div>`
  )
}
