/**
 * /docs (spec 4.9): setup guides, and a reference generated from the tables in the code. Rendered once, at startup.
 */
import { endpointsOf, type OpenApiDocument } from "./Endpoints.ts"
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
    html`<a class="skip" href="#content">Skip to the content</a>
      <header>
        <a class="brand" href="/">Bridge Service</a>
        <nav aria-label="Contents">${contents.map(([id, title]) => html`<a href="#${id}">${title}</a> `)}</nav>
      </header>
      <main id="content">
        <h1>Documentation</h1>
        <p class="lead">
          This service enrolls Bridges and gives agents access to the memory, tasks and documents of one project.
        </p>
        <p class="soft">
          Its address is <code>${deployment.base_url}</code>. All ids, names and keys below are examples.
        </p>
        ${bridges(deployment)} ${agents(deployment)} ${phones(endpoints)} ${operators(deployment)} ${toolReference}
        ${endpointReference(endpoints, deployment)} ${codeReference(endpoints)} ${tokenReference(deployment)}
        ${outOfScope}
      </main>`
  )
}
