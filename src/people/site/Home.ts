/** The home page (spec 4.9): says what the service is and links to the documentation. */
import type { Deployment } from "./Deployment.ts"
import { html } from "../../platform/html/Html.ts"
import { page } from "../../platform/html/Page.ts"

export const homePage = ({ base_url, resource }: Deployment): string =>
  page(
    "Bridge Service",
    html`<h1>Bridge Service</h1>
      <p class="soft">
        Enrolls Bridges, each for one project, and gives agents access to the memory, tasks and documents of that
        project.
      </p>
      <dl>
        <div>
          <dt>Bridges</dt>
          <dd><code>${base_url}/bridge/v1</code></dd>
        </div>
        <div>
          <dt>Agents</dt>
          <dd><code>${resource}</code></dd>
        </div>
      </dl>
      <div class="buttons">
        <a class="button primary" href="/docs">Documentation</a>
        <a class="button" href="/openapi.json">OpenAPI</a>
      </div>`
  )
