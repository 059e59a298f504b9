/** The filter of the activity page: kinds of events, who or what they are about, and days. It is part of the address. */
import type { Filter } from "../../../platform/audit/AuditStore.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { options } from "../Parts.ts"
import { sentences } from "./Sentences.ts"

/** Each kind by the nouns of its actions. Those of the service itself, of no project, have none. */
const kinds = [
  ["tasks", "Tasks", ["task"]],
  ["memory", "Memory", ["memory"]],
  ["documents", "Documents", ["document"]],
  ["bridges", "Bridges and their tokens", ["bridge", "bridge_credential", "account_reference"]],
  [
    "access",
    "Tokens and sign-ins",
    ["project_token", "person_key", "oauth_client", "oauth_grant", "oauth_access_token", "subject"]
  ],
  ["console", "Console", ["console_session", "console_link", "console"]],
  ["phones", "Phones", ["mobile_device", "channel", "push"]],
  ["project", "The project", ["project", "mcp"]]
] as const

const nounOf = (action: string) => action.split(".")[0]!
const actionsOf = (nouns: ReadonlyArray<string>) =>
  Object.keys(sentences).filter((action) => nouns.includes(nounOf(action)))

/** Undefined: a value is none of the form's. */
export const filterOf = (query: URLSearchParams, ofProject: boolean): Filter | undefined => {
  const given = (name: string) => (query.get(name) ?? "").trim()
  const [kind, about] = ofProject ? [given("kind"), given("about")] : [given("kind"), ""]
  const isRefused = kind === "refused"
  const nouns = ofProject ? kinds.find(([value]) => value === kind)?.[2] : undefined
  if (kind !== "" && !isRefused && nouns === undefined) return undefined
  const [from, until] = [dayOf(given("from")), dayOf(given("until"))]
  // PostgreSQL has no text with a NUL.
  if (from === null || until === null || about.includes("\0")) return undefined
  return {
    actions: nouns !== undefined ? actionsOf(nouns) : about === "" ? undefined : Object.keys(sentences),
    about: about === "" ? undefined : about,
    refused: isRefused,
    from,
    until: until && new Date(until.getTime() + day)
  }
}

const day = 86_400_000

/** Midnight in UTC; null if the text is no day. */
const dayOf = (text: string) => {
  if (text === "") return undefined
  const at = new Date(`${text}T00:00:00.000Z`)
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(at.getTime()) ? at : null
}

export const isFiltered = (query: URLSearchParams): boolean =>
  ["kind", "about", "from", "until"].some((name) => (query.get(name) ?? "").trim() !== "")

export const filterForm = (query: URLSearchParams, ofProject: boolean): Html => {
  const given = (name: string) => (query.get(name) ?? "").trim()
  const known: ReadonlyArray<readonly [string, string]> = [
    ["", "Everything"],
    ["refused", "Only what was refused"],
    ...(ofProject ? kinds.map(([value, label]) => [value, label] as const) : [])
  ]
  const date = (name: string, label: string) =>
    html`<div>
      <label for="${name}">${label}</label>
      <input id="${name}" name="${name}" type="date" value="${given(name)}" />
    </div>`
  return html`<form class="filters" method="get" role="search" aria-label="Filter activity">
    <div>
      <label for="kind">Kind</label>
      <select id="kind" name="kind">
        ${options(known, given("kind"))}
      </select>
    </div>
    ${
      ofProject &&
      html`<div>
        <label for="about">By or about (an id)</label>
        <input
          id="about"
          name="about"
          maxlength="512"
          spellcheck="false"
          autocomplete="off"
          value="${given("about")}"
        />
      </div>`
    }
    ${date("from", "From (UTC)")} ${date("until", "Until, inclusive")}
    <div><button>Show</button></div>
  </form>`
}
