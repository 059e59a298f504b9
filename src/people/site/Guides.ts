/** How to set up what talks to the service: Bridges, agents, phones; and what its operator does. */
import type { Endpoint } from "./Contract.ts"
import type { Deployment } from "./Deployment.ts"
import * as Flows from "./Flows.ts"
import { html, type Html } from "../../platform/html/Html.ts"
import { block, list, section, steps, topic } from "./Parts.ts"

export const bridges = ({ base_url }: Deployment): Html =>
  section(
    "bridges",
    "Bridges",
    html`<p>
      A Bridge is a local agent that works for exactly one project. An operator hands it a credential that can be used
      once; it proves that it holds a key, and gets a short-lived token that it rotates. The token opens Bridge
      transport and nothing else: no other project, no provider account, no model.
    </p>`,
    topic(
      "Set one up",
      steps(
        html`The operator makes a credential, bound to one project and to account references that were approved before.
        ${block(
          [
            'npx service-admin create-project --name "Harbour"',
            "npx service-admin approve-account-reference \\",
            "  --project PROJECT_ID --reference github:harbour",
            "npx service-admin create-bridge-enrollment-credential \\",
            "  --project PROJECT_ID --account-reference github:harbour \\",
            "  --out bridge.credential"
          ].join("\n")
        )}`,
        html`On the Bridge's machine, the reference Bridge trades the file for a token and keeps that alive.
        ${block(
          [
            "npm run -s bridge -- enroll --state bridge-state \\",
            "  --credential-file bridge.credential --project PROJECT_ID \\",
            `  --bridge-id workshop --base-url ${base_url}`,
            "npm run -s bridge -- run --state bridge-state"
          ].join("\n")
        )}`,
        html`Ask who it is. ${block("npm run -s bridge -- status --state bridge-state")}`
      )
    ),
    topic(
      "Enrollment",
      html`<p>
        The Bridge signs the decoded 32 bytes of the nonce, nothing added. Private key, nonce and signature are never
        stored by the service; of the token it keeps the hash.
      </p>`,
      Flows.enrollment,
      block(
        [
          `curl ${base_url}/bridge/v1/enrollment/challenges \\`,
          '  -H "Authorization: Bearer $(cat bridge.credential)" \\',
          '  -H "Idempotency-Key: bridge-enroll-1" -H "Content-Type: application/json" \\',
          `  -d '{`,
          '    "project_id": "01990000-0000-7000-8000-000000000001",',
          '    "bridge_id": "workshop",',
          '    "device_id": "device-1",',
          '    "display_name": "The Bridge in the workshop",',
          `    "public_key_fingerprint": "sha256:${"0123456789abcdef".repeat(4)}"`,
          "  }'"
        ].join("\n")
      )
    ),
    topic(
      "Rotation",
      html`<p>
        Rotate at about two thirds of the token's life. The Bridge writes both tokens and its journal to disk before it
        confirms: whatever fails after that, one of the two still works.
      </p>`,
      Flows.rotation
    ),
    topic(
      "Retries",
      html`<p>
        Repeat a request whose answer was lost, exactly and with the same <code>Idempotency-Key</code>. The original
        answer comes back with <code>Idempotency-Replayed: true</code>; nothing happens twice. The same key with another
        request is <a href="#code-idempotency_conflict"><code>idempotency_conflict</code></a
        >. By convention keys begin with <code>bridge-enroll-</code>, <code>bridge-proof-</code>,
        <code>bridge-rotate-</code> or <code>bridge-confirm-</code>.
      </p>`
    )
  )

export const agents = ({ documentHosts, registration, resource }: Deployment): Html =>
  section(
    "agents",
    "MCP clients",
    html`<p>
        An agent reaches the memory, tasks and documents of one project through MCP, over Streamable HTTP, at
        <code>${resource}</code>. It signs in through the browser: you show a project token once, to say which project,
        and allow or deny. The agent never sees that token.
      </p>
      <p>
        ${registration ? "Clients may register themselves here." : "Clients do not register themselves here."}
        ${
          documentHosts.length > 0 &&
          html`Those whose metadata document is at ${documentHosts.join(", ")} are known without it. `
        }For
        any other the operator makes a client id with <code>service-admin create-oauth-client</code>.
      </p>`,
    topic(
      "Claude Code",
      block(`claude mcp add --transport http bridge-service ${resource}`),
      html`<p>Then <code>/mcp</code> in a session, to sign in.</p>`
    ),
    topic(
      "VS Code",
      html`<p><code>.vscode/mcp.json</code>, then <em>Start</em> above the entry:</p>`,
      block(json({ servers: { "bridge-service": { type: "http", url: resource } } }))
    ),
    topic(
      "Cursor",
      html`<p><code>.cursor/mcp.json</code>, then <em>Connect</em> in the settings, under MCP:</p>`,
      block(json({ mcpServers: { "bridge-service": { url: resource } } }))
    ),
    topic(
      "Inspector",
      html`<p>In the browser, with the transport <em>Streamable HTTP</em>; or at once on the command line:</p>`,
      block(
        [
          `npx @modelcontextprotocol/inspector --cli ${resource} \\`,
          '  --transport http --method tools/list --header "Authorization: Bearer $PROJECT_TOKEN"'
        ].join("\n")
      )
    ),
    topic(
      "ChatGPT",
      html`<p>
        Settings, Apps and connectors, Advanced: switch developer mode on. Then create a connector with OAuth and this
        address${resource.startsWith("http:") && "; it has to be public, over https, which this one is not"}:
      </p>`,
      block(resource)
    ),
    topic("Signing in", Flows.signIn),
    topic(
      "Without a browser",
      html`<p>
        Internal commands may send a project token as bearer. An operator makes it with
        <code>service-admin create-project-token</code>; keep it out of repositories.
      </p>`
    )
  )

const json = (value: unknown) => JSON.stringify(value, null, 2)

/** `endpoints`: those of the contract; its phones are in the group `mobile`. */
export const phones = (endpoints: ReadonlyArray<Endpoint>): Html =>
  section(
    "phones",
    "Phones",
    html`<p class="note">
        <strong>A proposal.</strong> The mobile boundary is a local 0.0.4 implementation proposal; it may still change.
      </p>
      <p>
        The companion app shows notifications. It is no project store and no agent runtime, and it holds no source code.
        The phone owns the permission to notify; the service owns who may be notified of what.
      </p>`,
    steps(
      "The person permits notifications.",
      html`The app signs in through the system browser: a public client id with a fixed redirect URI, S256, a fresh
        verifier and state each time, the scope <code>mobile:devices</code>. It compares the state before it exchanges
        the code.`,
      "It registers for push and names the environment: production in release builds, development in debug builds.",
      "It registers the device, and keeps tokens and device id in the platform's secure store.",
      "To sign out it revokes the device record, and then deletes device id and tokens."
    ),
    html`<p>The app never shows a token or an authorization header. A watch mirrors the phone.</p>`,
    topic(
      "Let an app in",
      html`<p>The client id of the app comes from an operator. A phone that was lost is shut out by its device id.</p>`,
      block(
        [
          'npx service-admin create-oauth-client --name "Companion" \\',
          "  --application-type native --scope mobile:devices \\",
          "  --redirect-uri com.example.harbour:/signed-in",
          "npx service-admin revoke-device --device DEVICE_ID"
        ].join("\n")
      )
    ),
    topic(
      "Its endpoints",
      list(
        ...endpoints
          .filter(({ group }) => group === "mobile")
          .map(({ id, method, path }) => html`<a href="#endpoint-${id}">${method} <code>${path}</code></a>`)
      )
    )
  )

export const operators = ({ base_url }: Deployment): Html =>
  section(
    "operators",
    "Operators",
    html`<p>
      Everything is done with <code>npx service-admin</code>, from the project's folder and in the server's environment.
      Secrets go only into new files of mode 0600. Every command takes <code>--json</code> and <code>--help</code>.
    </p>`,
    topic("Is it well?", block([`curl ${base_url}/healthz`, "npx service-admin doctor"].join("\n"))),
    topic(
      "Let an agent in",
      block(
        [
          "npx service-admin create-project-token --project PROJECT_ID \\",
          "  --role contributor --out project.token",
          'npx service-admin create-oauth-client --name "Lighthouse" \\',
          "  --redirect-uri http://127.0.0.1/callback"
        ].join("\n")
      )
    ),
    topic(
      "Shut somebody out, at once",
      block(
        [
          "npx service-admin revoke-bridge --project PROJECT_ID --bridge workshop",
          "npx service-admin revoke-bridge-enrollment-credential --credential CREDENTIAL_ID",
          "npx service-admin revoke-project-token --token TOKEN_ID",
          "npx service-admin revoke-oauth-grant --grant GRANT_ID",
          "npx service-admin disable-project --project PROJECT_ID"
        ].join("\n")
      )
    ),
    topic(
      "See what happened",
      block(
        [
          "npx service-admin list-bridges --project PROJECT_ID",
          "npx service-admin list-audit-events --project PROJECT_ID"
        ].join("\n")
      )
    ),
    topic(
      "Keep it",
      block(
        [
          "npx service-admin backup-database --out backup.jsonl",
          "npx service-admin restore-database --in backup.jsonl"
        ].join("\n")
      ),
      html`<p>Settings are in docs/reference.md of the repository, upgrades and other procedures in docs/run.md.</p>`
    )
  )

/** Spec 1.6: phases of their own. */
export const outOfScope = section(
  "scope",
  "What it does not do",
  html`<p>Left to later phases:</p>`,
  list(
    "offers",
    "credential leases from a secrets vault",
    "a session registry",
    "task dispatch",
    "production activation",
    "user and organization sign-in",
    "installing apps at a repository host, and operations of its API",
    "a watch app"
  )
)
