/** The frame of every page: navigation, project, who is signed in; and the pages without one, for failures. */
import { html, type Part } from "../../../platform/html/Html.ts"
import { page as card, pagesWith } from "../../../platform/html/Page.ts"
import { passkeyScript } from "../../../signin/passkeys/Script.ts"
import type { Session } from "../../../signin/sessions/Sessions.ts"
import type { Scope } from "../../../wire/Scopes.ts"
import { ringScript } from "../app/RingScript.ts"
import { command, mark } from "../Parts.ts"
import { consoleScript } from "./Script.ts"
import { consoleStyle } from "./Style.ts"
import { maySee, pathOf, type Shown, type View } from "../View.ts"

const app = html`<link rel="manifest" href="/console/manifest.webmanifest" />
  <link rel="apple-touch-icon" href="/console/icon.png" />
  <meta name="theme-color" content="#175ddc" />`
const { headers, page } = pagesWith(consoleStyle, consoleScript + passkeyScript + ringScript, app)
export const consoleHeaders = headers

/** The pages of a project that the navigation shows, and the scope that each needs. */
export const sections = [
  ["", "Today", "context:read"],
  ["tasks", "Tasks", "tasks:read"],
  ["memory", "Memory", "memory:read"],
  ["documents", "Documents", "documents:read"],
  ["bridges", "Bridges", "context:read"],
  ["agents", "Agents", "context:read"],
  ["phones", "Phones", "context:read"],
  ["activity", "Activity", "context:read"]
] as const satisfies ReadonlyArray<readonly [path: string, title: string, needs: Scope]>

/** The pages of the operator, about the whole service. */
export const serviceSections = [
  ["projects", "Projects"],
  ["bridges", "Bridges"],
  ["access", "Access"],
  ["push", "Push"],
  ["health", "Health"],
  ["activity", "Activity"]
] as const

export interface Frame {
  readonly session: Session
  readonly project?: View["project"] | undefined
  /** The section that the page belongs to. */
  readonly section?: string | undefined
  /** What was done by the form that led here. */
  readonly done?: string | undefined
}

export const framed = ({ done, project, section, session }: Frame, { body, title }: Shown): string =>
  page(
    project === undefined ? `${title} · Bridge Service` : `${title} · ${project.name}`,
    html`<a class="skip" href="#content">Skip to the content</a>
      <header class="bar">
        <a class="brand" href="/console">Bridge Service</a>
        ${project !== undefined && html`<span class="where">${project.name}</span>`} ${who(session)}
      </header>
      <p class="stale" role="status"></p>
      <div class="page">
        <nav class="sections" aria-label="Console">
          ${
            session.token === undefined &&
            (project === undefined
              ? serviceSections.map(([path, label]) => link(`/console/${path}`, label, section === path))
              : link("/console/projects", "All projects", false))
          }
          ${
            project !== undefined &&
            sections
              .filter(([, , needs]) => maySee(session, needs))
              .map(([path, label]) =>
                link(pathOf({ project }, ...(path === "" ? [] : [path])), label, section === path)
              )
          }
          ${
            project !== undefined &&
            session.token === undefined &&
            link(pathOf({ project }, "limits"), "Limits", section === "limits")
          }
        </nav>
        <main id="content" tabindex="-1">
          ${
            project?.disabled === true &&
            html`<div class="note">
              <p>This project is disabled: it refuses every request of its Bridges and agents.</p>
            </div>`
          }
          ${done !== undefined && html`<div class="note done" role="status"><p>${done}</p></div>`} ${body}
        </main>
      </div>`
  )

const link = (href: string, label: string, isCurrent: boolean) =>
  isCurrent ? html`<a href="${href}" aria-current="page">${label}</a>` : html`<a href="${href}">${label}</a>`

const who = ({ csrf, person_key_id, token }: Session) =>
  html` <details class="who">
    <summary>
      <span>${token === undefined ? "Operator" : (token.label ?? `Token ${shortId(token.token_id)}`)}</span>
    </summary>
    <div>
      ${
        token === undefined
          ? html`<p>You are signed in as operator and see every project.</p>`
          : html`<p>
                You are signed in with ${person_key_id !== null && "a passkey of "}the project token
                ${token.label !== null && html`<b class="name">${token.label}</b>`}
                <span class="id">${token.token_id}</span>.
              </p>
              <p>Role: ${mark(token.role)}</p>
              <p><a href="/console/keys">Your passkeys</a></p>
              <p><a href="/console/apps">Apps you let in</a></p>`
      }
      <form method="post" action="/console/sign-out">
        <input type="hidden" name="csrf" value="${csrf}" />
        <button>Sign out</button>
        <button name="everywhere" value="1">Sign out everywhere</button>
      </form>
    </div>
  </details>`

/** The random end of a UUID: its beginning is a time, which other ids share. */
export const shortId = (id: string): string => id.slice(-8)

/** A page of a signed-in person that only says something. */
export const told = (frame: Frame, title: string, sentence: Part): string =>
  framed(frame, {
    title,
    body: html`<h1>${title}</h1>
      <p class="soft">${sentence}</p>`
  })

/** Pages that end a sign-in, and failures. */
export const endPage = (reason: keyof typeof ends): { readonly status: number; readonly body: string } => {
  const [status, title, sentence] = ends[reason]
  return { status, body: notice(title, sentence) }
}

const ends = {
  link_used: [
    410,
    "This link does not work any more",
    html`It can be used once, within five minutes. Make another with ${command("service-admin open-console")}.`
  ],
  foreign_form: [
    403,
    "Nothing was changed",
    html`The form was not sent by a page of this service. Open the <a href="/console">console</a> and try again.`
  ],
  signed_out: [
    401,
    "You are signed out, so nothing was changed",
    html`Go back: your browser keeps what you typed. Copy it, then <a href="/console/sign-in">sign in</a> again.`
  ],
  malformed: [400, "This form cannot be read", html`Open the <a href="/console">console</a> and try again.`],
  busy: [429, "Too many attempts", "Wait a minute, then load this page again."],
  failed: [503, "The service cannot answer right now", "Try again in a minute."]
} as const satisfies Readonly<Record<string, readonly [number, string, Part]>>

const notice = (title: string, sentence: Part) =>
  card(
    title,
    html`<h1>${title}</h1>
      <p class="soft">${sentence}</p>`
  )
