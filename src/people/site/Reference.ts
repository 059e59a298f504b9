/** What can be called and what comes back, from the tables that the service itself answers by. */
import * as Continuity from "../../agents/continuity/Errors.ts"
import { kinds } from "../../platform/crypto/Tokens.ts"
import * as Documents from "../../agents/documents/Errors.ts"
import * as Mcp from "../../agents/mcp/Errors.ts"
import { lists } from "../../agents/mcp/ToolList.ts"
import { tools } from "../../agents/mcp/Tools.ts"
import * as OAuth from "../../signin/oauth/Errors.ts"
import { refuse, sharedTable } from "../../wire/Errors.ts"
import type { Refusal } from "../../wire/Refusal.ts"
import { ofRole, scopes } from "../../wire/Scopes.ts"
import type { Code, Endpoint } from "./Contract.ts"
import type { Deployment } from "./Deployment.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { block, fields, section, terms, topic } from "./Parts.ts"
import { fieldsOf, type JsonSchema } from "./Shape.ts"

export const toolReference: Html = section(
  "tools",
  "Tools",
  html`<p>
    An agent finds them with <code>tools/list</code>. A write carries the <code>write_context</code> that
    <code>server_identity</code> returns; it is compared with this service and the project of the credential before
    anything changes.
  </p>`,
  lists.contributor.map(({ description, inputSchema, name, title }) => {
    const { needs, writes } = tools[name as keyof typeof tools]
    return html`<article id="tool-${name}">
      <h3><code>${name}</code></h3>
      <p class="soft">
        ${title} <span class="mark">${writes ? "writes" : "reads"}</span>
        ${needs.map((scope) => html`<span class="mark">${scope}</span> `)}
      </p>
      <p>${description}</p>
      ${fields("Takes", fieldsOf(inputSchema as JsonSchema))}
    </article>`
  }),
  topic(
    "Scopes",
    html`<p>
      Writing implies reading of the same noun. A reader's credential has no other scopes than a reader may have.
    </p>`,
    terms(scopes.map((scope) => [html`<code>${scope}</code>`, rolesWith(scope)]))
  )
)

function rolesWith(scope: (typeof scopes)[number]) {
  const roles = (["reader", "contributor"] as const).filter((role) => ofRole(role).includes(scope))
  return roles.length > 0 ? roles.join(", ") : "clients that an operator allowed it"
}

/** Group -> its title; another group shows its own name. */
const groups: Readonly<Record<string, string>> = {
  enrollment: "Enrollment",
  rotation: "Tokens",
  retired: "Retired",
  mobile: "Phones (local 0.0.4 proposal)"
}

export const endpointReference = (endpoints: ReadonlyArray<Endpoint>, deployment: Deployment): Html =>
  section(
    "endpoints",
    "Endpoints",
    html`<p>
      Relative to <code>${deployment.base_url}</code>; for machines, <a href="/openapi.json">openapi.json</a>. JSON in
      and out; an error is <code>{"error":{"code","message"}}</code> with <code>Cache-Control: no-store</code>. The
      version of the Bridge endpoints is in their path: <code>/bridge/v1</code>.
    </p>`,
    [...Map.groupBy(endpoints, ({ group }) => group)].map(([group, members]) =>
      topic(groups[group] ?? group, members.map(endpoint))
    ),
    topic("MCP, OAuth and the rest", terms(plainRoutes(deployment)))
  )

const endpoint = ({ answers, bearer, codes, headers, id, method, path, successes, summary, takes }: Endpoint) =>
  html`<article id="endpoint-${id}">
    <h4 class="route">${method} <code>${path}</code></h4>
    ${summary !== undefined && html`<p>${summary}</p>`} ${bearer !== undefined && html`<p>Bearer: ${bearer}</p>`}
    ${fields("Headers", headers)} ${fields("Takes", takes)} ${fields(`Answers ${successes.join(" or ")}`, answers)}
    <h4>Refuses</h4>
    <p class="codes">
      ${codes.map(({ code, status }) => html`<a href="#code-${code}">${status} <code>${code}</code></a> `)}
    </p>
  </article>`

/** Fixed by other documents than our contract, or too small for one (spec 4.8 to 4.10). */
export const plainRoutes = ({ registration, revocation }: Deployment): ReadonlyArray<readonly [Html, string]> =>
  [
    ["POST", "/mcp", "MCP requests; there are no sessions, so GET and DELETE are 405."],
    ["GET", "/.well-known/oauth-protected-resource/mcp", "Who issues tokens for this resource (RFC 9728)."],
    ["GET", "/.well-known/oauth-authorization-server", "What the authorization server offers (RFC 8414)."],
    ["GET", "/authorize", "Where an agent sends the browser."],
    ["GET", "/oauth/consent", "Where a person allows or denies."],
    ["POST", "/token", "Trades a code or a refresh token for tokens."],
    ...(registration ? [["POST", "/register", "Registers a client (RFC 7591)."] as const] : []),
    ...(revocation ? [["POST", "/revoke", "Revokes a token of the client (RFC 7009)."] as const] : []),
    ["GET", "/healthz", "200 while the process answers."],
    ["GET", "/readyz", "200 once the database answers and has every migration, else 503."],
    ["GET", "/openapi.json", "The contract of the Bridge endpoints, for machines."],
    ["GET", "/docs", "This page."]
  ].map(([method, path, says]) => [html`${method} <code>${path}</code>`, says!] as const)

interface Table<Name extends string> {
  readonly codes: ReadonlyArray<Name>
  readonly refuse: (code: Name) => Refusal
}

const rowsOf = <Name extends string>({ codes, refuse }: Table<Name>): ReadonlyArray<Code> =>
  codes.map((code) => {
    const { message, status } = refuse(code)
    return { code, message, status }
  })

const shared = rowsOf({ codes: Object.keys(sharedTable) as ReadonlyArray<keyof typeof sharedTable>, refuse })

/** Those of the endpoint, and of the rest what a description names: the other codes are for operators. */
const toolCodes: ReadonlyArray<Code> = [
  ...rowsOf(Mcp),
  ...[...rowsOf(Continuity), ...rowsOf(Documents)].filter(({ code }) =>
    lists.contributor.some(({ description }) => description.includes(code))
  )
].filter(({ code }) => !(code in sharedTable))

export const codeReference = (endpoints: ReadonlyArray<Endpoint>): Html => {
  const all = [...shared, ...endpoints.flatMap(({ codes }) => codes)]
  const byCode = [...Map.groupBy(all, ({ code }) => code)].toSorted(
    ([one, [first]], [other, [second]]) => first!.status - second!.status || (one < other ? -1 : 1)
  )
  return section(
    "codes",
    "Codes",
    html`<p>
      Programs read the code; the message is for people. Every 401 says how to authenticate, every 405 what is allowed,
      every 429 and 503 when to come back.
    </p>`,
    terms(
      byCode.map(([code, rows]) => [
        withStatus(rows[0]!.status, code, `code-${code}`),
        [...new Set(rows.map(({ message }) => message))].join(" ")
      ])
    ),
    topic(
      "Tools",
      html`<p>
        In the result of a call, as <code>{"error":{"code","message","details"}}</code> with <code>isError</code>.
      </p>`,
      terms(toolCodes.map(({ code, message }) => [html`<code>${code}</code>`, message]))
    ),
    topic(
      "OAuth",
      html`<p>
        At /token, /register and /revoke an error is <code>{"error","error_description"}</code>; from /authorize it
        comes back to the agent by redirect.
      </p>`,
      terms(rowsOf(OAuth).map(({ code, message, status }) => [withStatus(status, code), message]))
    )
  )
}

const withStatus = (status: number, code: string, id?: string) =>
  html`<span class="status">${status}</span> <code${id !== undefined && html` id="${id}"`}>${code}</code>`

/** A client id is no secret. */
const secretKinds = Object.entries(kinds).filter(([kind]) => kind !== "sci")

export const tokenReference = ({ lifetimes }: Deployment): Html =>
  section(
    "tokens",
    "Tokens",
    html`<p>
      Treat them as opaque. Each says by its prefix what it is, and ends in a checksum; the service keeps only their
      hashes.
    </p>`,
    terms(secretKinds.map(([kind, name]) => [html`<code>${pattern(kind)}</code>`, name])),
    topic(
      "For secret scanners",
      html`<p>One regular expression for all of them:</p>`,
      block(pattern(`(${secretKinds.map(([kind]) => kind).join("|")})`))
    ),
    topic(
      "How long things live here",
      terms(
        lifetimes.map(({ life, setting, what }): readonly [Part, ...Array<Part>] => [
          what,
          life,
          " ",
          html`<code class="soft">${setting}</code>`
        ])
      )
    )
  )

const pattern = (prefix: string) => `\\b${prefix}_[0-9A-Za-z]{49}\\b`
