/**
 * /docs (spec 4.9): setup for people, reference from the tables of the code. Rendered once, when the service starts.
 */
import { endpointsOf, type OpenApiDocument } from "./Contract.ts"
import type { Deployment } from "./Deployment.ts"
import { docsStyle } from "./DocsStyle.ts"
import { agents, bridges, operators, outOfScope, phones } from "./Guides.ts"
import { html } from "../../platform/html/Html.ts"
import { pagesWith } from "../../platform/html/Page.ts"
import { codeReference, endpointReference, tokenReference, toolReference } from "./Reference.ts"

const { headers, page } = pagesWith(docsStyle)
export const docsHeaders = headers

const contents: ReadonlyArray<readonly [id: string, title: string]> = [
  ["bridges", "Bridges"],
  ["agents", "MCP clients"],
  ["phones", "Phones"],
  ["operators", "Operators"],
  ["tools", "Tools"],
  ["endpoints", "Endpoints"],
  ["codes", "Codes"],
  ["tokens", "Tokens"],
  ["scope", "Out of scope"]
]

export const docsPage = (deployment: Deployment, contract: OpenApiDocument): string => {
  const endpoints = endpointsOf(contract)
  return page(
    "Bridge Service documentation",
    html`<a class="skip" href="#content">To the content</a>
      <header>
        <a class="brand" href="/">Bridge Service</a>
        <nav aria-label="Contents">${contents.map(([id, title]) => html`<a href="#${id}">${title}</a> `)}</nav>
      </header>
      <main id="content">
        <h1>Documentation</h1>
        <p class="lead">
          This service enrolls Bridges, and gives agents the memory, tasks and documents of one project.
        </p>
        <p class="soft">It is at <code>${deployment.base_url}</code>. Every id, name and key below is made up.</p>
        ${bridges(deployment)} ${agents(deployment)} ${phones(endpoints)} ${operators(deployment)} ${toolReference}
        ${endpointReference(endpoints, deployment)} ${codeReference(endpoints)} ${tokenReference(deployment)}
        ${outOfScope}
      </main>`
  )
}
