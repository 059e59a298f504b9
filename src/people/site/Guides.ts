/** Setup guides for Bridges, agents and phones, and the most important commands for operators. */
import type { Endpoint } from "./Endpoints.ts"
import type { Deployment } from "./Deployment.ts"
import * as Flows from "./Flows.ts"
import { html, type Html } from "../../platform/html/Html.ts"
import { block, list, section, steps, topic } from "./Parts.ts"

export const bridges = ({ base_url }: Deployment): Html =>
  section(
    "bridges",
    "Bridges",
    html`<p>
      A Bridge is a local agent that works for exactly one project. An operator gives it a one-time credential; the
      Bridge proves that it holds a key and receives a short-lived token, which it rotates. The token grants Bridge
      transport for that project and nothing else: no other project, no provider account, no model.
    </p>`,
    topic(
      "Set one up",
      steps(
        html`The operator creates a credential for one project and for account references that are already approved.
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
        html`On the Bridge's machine, the reference Bridge exchanges the credential for a token and keeps it valid.
        ${block(
          [
            "npm run -s bridge -- enroll --state bridge-state \\",
            "  --credential-file bridge.credential --project PROJECT_ID \\",
            `  --bridge-id workshop --base-url ${base_url}`,
            "npm run -s bridge -- run --state bridge-state"
          ].join("\n")
        )}`,
        html`Check the result. ${block("npm run -s bridge -- status --state bridge-state")}`
      )
    ),
    topic(
      "Enrollment",
      html`<p>
        The Bridge signs the 32 decoded bytes of the nonce and nothing else. The service never stores the private key,
        the nonce or the signature; of the token it stores only a hash.
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
        Rotate after about two thirds of the token's lifetime. The Bridge writes both tokens and its journal to disk
        before it confirms: whatever fails after that, one of the two tokens still works.
      </p>`,
      Flows.rotation
    ),
    topic(
      "Retries",
      html`<p>
        If a response is lost, repeat the identical request with the same <code>Idempotency-Key</code>. The original
        response comes back with <code>Idempotency-Replayed: true</code>; nothing happens twice. A different request
        with the same key fails with <a href="#code-idempotency_conflict"><code>idempotency_conflict</code></a
        >. By convention, keys start with <code>bridge-enroll-</code>, <code>bridge-proof-</code>,
        <code>bridge-rotate-</code> or <code>bridge-confirm-</code>.
      </p>`
    )
  )

export const agents = ({ documentHosts, registration, resource }: Deployment): Html =>
  section(
    "agents",
    "MCP clients",
    html`<p>
        Agents use the memory, tasks and documents of one project over MCP (Streamable HTTP) at
        <code>${resource}</code>. They sign in through the browser: you enter a project token once, which selects the
        project, and allow or deny. The agent never sees that token.
      </p>
      <p>
        ${registration ? "Clients can register themselves here." : "Clients cannot register themselves here."}
        ${
          documentHosts.length > 0 &&
          html`Clients whose metadata document is at ${documentHosts.join(", ")} need no registration. `
        }For
        any other client the operator creates a client id with <code>service-admin create-oauth-client</code>.
      </p>`,
    topic(
      "Any of them",
      html`<p>
        In the folder of the project, with <code>claude-code</code>, <code>codex</code>, <code>gemini</code>,
        <code>opencode</code>, <code>vscode</code> or <code>cursor</code>. <code>--check</code> tries the connection,
        <code>--remove</code> takes it away:
      </p>`,
      block(`bridge-service connect claude-code --url ${resource} --section`)
    ),
    topic(
      "Claude Code",
      block(`claude mcp add --transport http bridge-service ${resource}`),
      html`<p>Then run <code>claude mcp login bridge-service</code>, or <code>/mcp</code> in a session, to sign in.</p>`
    ),
    topic(
      "Codex",
      block(`codex mcp add bridge-service --url ${resource}`),
      html`<p>It signs in at once. With a project token in the variable <code>TOKEN</code> instead:</p>`,
      block(`codex mcp add bridge-service --url ${resource} --bearer-token-env-var TOKEN`)
    ),
    topic(
      "Gemini CLI",
      block(`gemini mcp add --transport http bridge-service ${resource}`),
      html`<p>
        Then run <code>/mcp auth bridge-service</code> in a session to sign in. It connects only in folders that it was
        told to trust.
      </p>`
    ),
    topic(
      "opencode",
      html`<p>Add this to <code>opencode.json</code>, then run <code>opencode mcp auth bridge-service</code>:</p>`,
      block(json({ mcp: { "bridge-service": { type: "remote", url: resource } } }))
    ),
    topic(
      "VS Code",
      html`<p>Add this to <code>.vscode/mcp.json</code>, then choose <em>Start</em> above the entry:</p>`,
      block(json({ servers: { "bridge-service": { type: "http", url: resource } } }))
    ),
    topic(
      "Cursor",
      html`<p>Add this to <code>.cursor/mcp.json</code>, then choose <em>Connect</em> in the settings, under MCP:</p>`,
      block(json({ mcpServers: { "bridge-service": { url: resource } } }))
    ),
    topic(
      "Inspector",
      html`<p>Use the transport <em>Streamable HTTP</em> in the browser, or try it on the command line:</p>`,
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
        In Settings, Apps and connectors, Advanced: turn on developer mode. Then create a connector with OAuth and this
        address${resource.startsWith("http:") && " (ChatGPT needs a public https address, which this one is not)"}:
      </p>`,
      block(resource)
    ),
    topic("Signing in", Flows.signIn),
    topic(
      "Without a browser",
      html`<p>
        Internal command-line tools can send a project token as the bearer token. An operator creates one with
        <code>service-admin create-project-token</code>; keep it out of repositories.
      </p>`
    )
  )

const json = (value: unknown) => JSON.stringify(value, null, 2)

export const phones = (endpoints: ReadonlyArray<Endpoint>): Html =>
  section(
    "phones",
    "Phones",
    html`<p class="note">
        <strong>A proposal.</strong> The mobile boundary is a local 0.0.4 implementation proposal and may still change.
      </p>
      <p>
        The companion app shows notifications. It stores no project data or source code and runs no agents. The phone
        controls the notification permission; the service decides who is notified of what.
      </p>`,
    steps(
      "The person allows notifications.",
      html`The app signs in through the system browser with a public client id, a fixed redirect URI and the scope
        <code>mobile:devices</code>. Each sign-in uses PKCE with S256, a fresh verifier and a fresh state. The app
        checks the state before it exchanges the code.`,
      "The app registers with Apple for push: the production environment in release builds, development in debug builds.",
      "It registers the device with this service, and keeps its tokens and device id in the platform's secure store.",
      "At sign-out it revokes the device record, then deletes the device id and the tokens."
    ),
    html`<p>
      The app never displays a token or an authorization header. A watch shows the notifications of its phone.
    </p>`,
    topic(
      "Allow an app",
      html`<p>An operator creates the app's client id, and revokes a lost phone by its device id.</p>`,
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
      "Endpoints",
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
      Operators use <code>npx service-admin</code>, from the project's folder and with the server's environment. It
      writes secrets only to new files of mode 0600. Every command accepts <code>--json</code> and <code>--help</code>.
    </p>`,
    topic("Check the service", block([`curl ${base_url}/healthz`, "npx service-admin doctor"].join("\n"))),
    topic(
      "Give an agent access",
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
      "Revoke access at once",
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
      "Back up and restore",
      block(
        [
          "npx service-admin backup-database --out backup.jsonl",
          "npx service-admin restore-database --in backup.jsonl --erasures data/erasures.jsonl"
        ].join("\n")
      ),
      html`<p>Settings are in docs/reference.md of the repository, upgrades and other procedures in docs/run.md.</p>`
    )
  )

/** The later phases of spec 1.6. */
export const outOfScope = section(
  "scope",
  "Out of scope",
  html`<p>These are left to later phases:</p>`,
  list(
    "offers",
    "credential leases from a secrets vault",
    "a session registry",
    "task dispatch",
    "production activation",
    "user and organization sign-in",
    "installation of repository-host apps, and repository API operations",
    "a watch app"
  )
)
