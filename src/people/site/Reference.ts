/** The pages of tools, endpoints, codes and this service, generated from the tables that the service itself uses. */
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
import type { Code, Endpoint } from "./Endpoints.ts"
import type { Deployment } from "./Deployment.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { block, fields, heading, terms, topic } from "./Parts.ts"
import type { Made } from "./docs/Contents.ts"
import { fieldsOf, type JsonSchema } from "./JsonSchema.ts"

const toolPage = (): Html =>
  html`<p>
      An agent discovers the tools with <code>tools/list</code>. Every tool that writes takes the
      <code>write_context</code> that <code>server_identity</code> returns; the service compares it with its own
      configuration and the project of the credential before it changes anything.
    </p>
    ${lists.contributor.map(({ description, inputSchema, name, title }) => {
      const { needs, writes } = tools[name as keyof typeof tools]
      return html`<article>
        ${heading(2, `tool-${name}`, html`<code>${name}</code>`)}
        <p class="soft">
          ${title} <span class="mark">${writes ? "writes" : "reads"}</span>
          ${needs.map((scope) => html`<span class="mark">${scope}</span> `)}
        </p>
        <p>${description}</p>
        ${fields("Parameters", fieldsOf(inputSchema as JsonSchema))}
      </article>`
    })}
    ${topic(
      "Scopes",
      html`<p>
        A write scope includes the read scope of the same resource. A reader's credential never has a scope that only
        contributors may have.
      </p>`,
      terms(scopes.map((scope) => [html`<code>${scope}</code>`, rolesWith(scope)]))
    )}`

function rolesWith(scope: (typeof scopes)[number]) {
  const roles = (["reader", "contributor"] as const).filter((role) => ofRole(role).includes(scope))
  return roles.length > 0 ? roles.join(", ") : "only clients that an operator allowed to have it"
}

/** Titles by tag of the OpenAPI document; a tag without a title here is shown as it is. */
const groups: Readonly<Record<string, string>> = {
  enrollment: "Enrollment",
  rotation: "Tokens",
  retired: "Retired",
  keys: "Keys",
  mobile: "Phones (local 0.0.4 proposal)",
  web_push: "Web push"
}

const endpointPage = (endpoints: ReadonlyArray<Endpoint>, deployment: Deployment): Html =>
  html`<p>
      Paths are relative to <code>${deployment.base_url}</code>. Requests and responses are JSON; an error is
      <code>{"error":{"code","message"}}</code> with <code>Cache-Control: no-store</code>. The version of the Bridge
      endpoints is in their path: <code>/bridge/v1</code>. The same reference for programs is
      <a href="/openapi.json">openapi.json</a>, and <a href="/docs/protocol">Protocol</a> shows examples.
    </p>
    ${[...Map.groupBy(endpoints, ({ group }) => group)].map(([group, members]) =>
      topic(groups[group] ?? group, members.map(endpoint))
    )}`

const endpoint = ({
  bearer,
  body,
  codes,
  description,
  headers,
  id,
  method,
  path,
  response,
  successes,
  summary
}: Endpoint) =>
  html`<article>
    ${heading(3, `endpoint-${id}`, html`${method} <code>${path}</code>`)}
    ${summary !== undefined && html`<p>${summary}</p>`} ${description !== undefined && html`<p>${description}</p>`}
    ${bearer !== undefined && html`<p>Bearer: ${bearer}</p>`} ${fields("Headers", headers)}
    ${fields("Request body", body)} ${fields(`Response ${successes.join(" or ")}`, response)}
    <p class="label">Errors</p>
    <p class="codes">
      ${codes.map(({ code, status }) => html`<a href="/docs/codes#code-${code}">${status} <code>${code}</code></a> `)}
    </p>
  </article>`

/** Routes outside the OpenAPI document, because other standards define them or they return pages (spec 4.8, 4.9, 4.10). */
const plainRoutes = ({ registration, revocation }: Deployment): ReadonlyArray<readonly [Html, string]> =>
  [
    ["POST", "/mcp", "MCP requests. There are no sessions, so GET and DELETE answer 405."],
    ["GET", "/.well-known/oauth-protected-resource/mcp", "Names the authorization server of this resource (RFC 9728)."],
    ["GET", "/.well-known/oauth-authorization-server", "Describes the authorization server (RFC 8414)."],
    ["GET", "/authorize", "Starts a sign-in: an agent sends the browser here."],
    ["GET", "/oauth/consent", "The page on which a person allows or denies a sign-in."],
    ["POST", "/token", "Exchanges a code or a refresh token for tokens."],
    ...(registration ? [["POST", "/register", "Registers a client (RFC 7591)."] as const] : []),
    ...(revocation ? [["POST", "/revoke", "Revokes a token of the client (RFC 7009)."] as const] : []),
    ["GET", "/healthz", "200 while the process is alive."],
    ["GET", "/readyz", "200 if the database answers and all migrations have run, otherwise 503."],
    ["GET", "/openapi.json", "The OpenAPI document of the Bridge endpoints."],
    ["GET", "/docs", "These pages."]
  ].map(([method, path, description]) => [html`${method} <code>${path}</code>`, description!] as const)

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

/** The codes of /mcp, and the domain codes that a tool's description names: the other codes are for operators. */
const toolCodes: ReadonlyArray<Code> = [
  ...rowsOf(Mcp),
  ...[...rowsOf(Continuity), ...rowsOf(Documents)].filter(({ code }) =>
    lists.contributor.some(({ description }) => description.includes(code))
  )
].filter(({ code }) => !(code in sharedTable))

const codePage = (endpoints: ReadonlyArray<Endpoint>): Html => {
  const all = [...shared, ...endpoints.flatMap(({ codes }) => codes)]
  const byCode = [...Map.groupBy(all, ({ code }) => code)].toSorted(
    ([one, [first]], [other, [second]]) => first!.status - second!.status || (one < other ? -1 : 1)
  )
  return html`<p>
      Programs use the code; the message is for people. Every 401 carries <code>WWW-Authenticate</code>, every 405
      <code>Allow</code>, every 429 and 503 <code>Retry-After</code>. What to do about a code is in
      <a href="/docs/troubleshooting">Troubleshooting</a>, how a Bridge reacts in
      <a href="/docs/protocol#codes">Protocol</a>.
    </p>
    ${topic(
      "Bridges and phones",
      terms(
        byCode.map(([code, rows]) => [
          withStatus(rows[0]!.status, code),
          [...new Set(rows.map(({ message }) => message))].join(" ")
        ]),
        byCode.map(([code]) => `code-${code}`)
      )
    )}
    ${topic(
      "Tools",
      html`<p>
        A failed call returns a result with <code>isError</code> and
        <code>{"error":{"code","message","details"}}</code>.
      </p>`,
      terms(
        toolCodes.map(({ code, message }) => [html`<code>${code}</code>`, message]),
        toolCodes.map(({ code }) => `tool-failure-${code}`)
      )
    )}
    ${topic(
      "OAuth",
      html`<p>
        At /token, /register and /revoke an error is <code>{"error","error_description"}</code>; /authorize redirects
        back to the agent with the error.
      </p>`,
      terms(
        rowsOf(OAuth).map(({ code, message, status }) => [withStatus(status, code), message]),
        OAuth.codes.map((code) => `oauth-${code}`)
      )
    )}`
}

const withStatus = (status: number, code: string) => html`<span class="status">${status}</span> <code>${code}</code>`

const servicePage = (deployment: Deployment): Html =>
  html`<p>
      What is true of the service that you are reading this on. Settings change it: see
      <a href="/docs/reference#settings">Reference</a>.
    </p>
    ${topic(
      "Addresses",
      terms([
        ["Bridges and phones", html`<code>${deployment.base_url}/bridge/v1</code>`],
        ["Agents", html`<code>${deployment.resource}</code>`],
        ["Sign-in", html`<code>${deployment.issuer}</code>`]
      ])
    )}
    ${topic(
      "Clients",
      html`<p>
        ${deployment.registration ? "Clients can register themselves here." : "Clients cannot register themselves here."}
        ${
          deployment.documentHosts.length > 0 &&
          html`Clients whose metadata document is at ${deployment.documentHosts.join(", ")} need no registration. `
        }For
        any other client the operator creates a client id with <code>service-admin create-oauth-client</code>.
      </p>`
    )}
    ${topic(
      "Lifetimes",
      terms(
        deployment.lifetimes.map(({ lifetime, setting, subject }): readonly [Part, ...Array<Part>] => [
          subject,
          lifetime,
          " ",
          html`<code class="soft">${setting}</code>`
        ])
      )
    )}
    ${topic(
      "Tokens",
      html`<p>
        The format of every token: a prefix of three letters that tells its kind, <code>_</code>, 43 random characters
        and 6 of checksum. Treat tokens as opaque; the service stores only hashes.
      </p>`,
      terms(secretKinds.map(([kind, name]) => [html`<code>${pattern(kind)}</code>`, name])),
      html`<p>For secret scanners, this regular expression matches all of them:</p>`,
      block(pattern(`(${secretKinds.map(([kind]) => kind).join("|")})`))
    )}
    ${topic("Other routes", terms(plainRoutes(deployment)))}`

/** A client id has the form of a token but is not secret. */
const secretKinds = Object.entries(kinds).filter(([kind]) => kind !== "sci")

const pattern = (prefix: string) => `\\b${prefix}_[0-9A-Za-z]{49}\\b`

/** What each page shows below its title. */
export const reference = (
  deployment: Deployment,
  endpoints: ReadonlyArray<Endpoint>
): Readonly<Record<Made, () => Html>> => ({
  tools: toolPage,
  endpoints: () => endpointPage(endpoints, deployment),
  codes: () => codePage(endpoints),
  service: () => servicePage(deployment)
})
