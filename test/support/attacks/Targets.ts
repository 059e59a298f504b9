/** Every route and every tool of a service with a request that it accepts, made with valid credentials. */
import { Context, Effect, type Layer, Redacted } from "effect"
import { HttpApi } from "effect/http-api"
import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Api } from "../../../src/wire/Api.ts"
import type { domains } from "../../../src/App.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { Documents } from "../../../src/agents/documents/Documents.ts"
import type { ToolName } from "../../../src/agents/mcp/Tools.ts"
import { authorizeQuery, Browser, callback, hiddenFields, makeClient, signIn as signInByForm } from "../agents/Agent.ts"
import { Bridge } from "../bridges/Bridge.ts"
import type { Target } from "./Malformed.ts"
import { examplesOf } from "../agents/Examples.ts"
import { Agent } from "../agents/McpAgent.ts"
import { repositoryIn } from "../agents/Repository.ts"
import { makeOperatorToken } from "../people/Operator.ts"
import { everything, makePhone, makeRegisteredPhone } from "../phones/Phone.ts"
import { makePerson } from "../people/SignIn.ts"
import { tokens } from "../bridges/Tokens.ts"

/** The services of all domains: an instance of the tests, or the services beside a server. */
export interface World {
  readonly url: string
  readonly services: Context.Context<Layer.Success<typeof domains>>
}

/** A document that the operator pinned for the project, from a repository in `folder`. */
export const pinDocument = Effect.fnUntraced(function* ({ services }: World, folder: string, project_id: string) {
  const { git } = repositoryIn(folder)
  writeFileSync(join(folder, "guide.md"), `A guide of ${project_id}\n`.repeat(50))
  git("add", "guide.md")
  git("commit", "-qm", "test")
  return yield* Context.get(services, Documents).pin({
    project_id,
    directory: folder,
    repository: "acme/shop",
    commit: git("rev-parse", "HEAD"),
    path: "guide.md",
    title: "Guide",
    bootstrap: true
  })
})

const revisions = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]

/** `folder` holds the repository. */
export const targets = Effect.fnUntraced(function* (on: World, folder: string) {
  const json = { "content-type": "application/json" }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  const bridge = yield* Bridge.make(on)
  const challenge = yield* bridge.askChallenge(on)
  const proof = yield* bridge.proofBody(challenge)
  const ended: string = yield* (yield* Bridge.make(on)).enroll(on)
  const rotating: string = yield* (yield* Bridge.make(on)).enroll(on)
  const { body: pending } = yield* tokens(on).prepare(rotating)
  const active: string = yield* (yield* Bridge.make(on)).enroll(on)

  const person = yield* Effect.orDie(makePerson(on))
  const phone = yield* makeRegisteredPhone(on, person)
  const device = `/bridge/v1/mobile/devices/${phone.device_id}`
  const mobile = { ...json, ...bearer(person.bearer) }

  const endpoints: Record<string, Omit<Target, "name" | "method" | "path"> & { readonly path?: string }> = {
    "POST /bridge/v1/enrollment/challenges": {
      headers: { ...json, ...bearer(bridge.credential), "idempotency-key": "bridge-enroll-1" },
      json: bridge.challengeBody
    },
    "POST /bridge/v1/enrollment/proofs": {
      headers: { ...json, "idempotency-key": "bridge-proof-1" },
      json: { ...proof, signature_b64: Buffer.alloc(64, 1).toString("base64url") }
    },
    "POST /bridge/v1/tokens/rotate/prepare": { headers: { ...bearer(active), "idempotency-key": "bridge-rotate-1" } },
    "POST /bridge/v1/tokens/rotate/confirm": {
      headers: { ...json, ...bearer(pending.successor_token), "idempotency-key": "bridge-confirm-1" },
      json: { rotation_id: pending.rotation_id }
    },
    "POST /bridge/v1/tokens/rotate/abort": {
      headers: { ...json, ...bearer(pending.successor_token), "idempotency-key": "bridge-abort-1" },
      json: { rotation_id: pending.rotation_id }
    },
    "POST /bridge/v1/keys/rotate/prepare": {
      headers: { ...json, ...bearer(active), "idempotency-key": "bridge-prepare-key-1" },
      json: { public_key_fingerprint: `sha256:${"1".repeat(64)}` }
    },
    "POST /bridge/v1/keys/rotate/confirm": {
      headers: { ...json, ...bearer(active), "idempotency-key": "bridge-confirm-key-1" },
      json: {
        key_rotation_id: randomUUID(),
        nonce_b64: Buffer.alloc(32, 1).toString("base64url"),
        public_key_b64: Buffer.alloc(32, 1).toString("base64url"),
        signature_b64: Buffer.alloc(64, 1).toString("base64url"),
        predecessor_signature_b64: Buffer.alloc(64, 1).toString("base64url")
      }
    },
    "POST /bridge/v1/keys/rotate/abort": {
      headers: { ...json, ...bearer(active), "idempotency-key": "bridge-abort-key-1" },
      json: { key_rotation_id: randomUUID() }
    },
    "POST /bridge/v1/tokens/revoke": { headers: bearer(ended) },
    "GET /bridge/v1/tokens/self": { headers: bearer(active) },
    "POST /bridge/v1/tokens/rotate": { headers: {} },
    "POST /bridge/v1/mobile/devices": {
      headers: mobile,
      json: {
        ...makePhone(on, person).body({ preferences: everything }),
        app_version: "1.0",
        os_version: "26.1",
        locale: "de-CH"
      }
    },
    "GET /bridge/v1/mobile/devices/:id": { path: device, headers: bearer(person.bearer) },
    "PUT /bridge/v1/mobile/devices/:id/preferences": {
      path: `${device}/preferences`,
      headers: { ...mobile, "if-match": '"1"' },
      json: {
        ...everything,
        quiet_hours: {
          enabled: true,
          start: "22:00",
          end: "07:00",
          time_zone: "Europe/Zurich",
          days: ["monday"],
          allow_urgent: true
        },
        paused_until: "2030-01-01T00:00:00Z"
      }
    },
    "POST /bridge/v1/mobile/devices/:id/revoke": {
      path: `/bridge/v1/mobile/devices/${randomUUID()}/revoke`,
      headers: bearer(person.bearer)
    },
    "POST /bridge/v1/mobile/devices/:id/test": {
      path: `/bridge/v1/mobile/devices/${randomUUID()}/test`,
      headers: bearer(person.bearer)
    },
    "GET /bridge/v1/mobile/web-push-key": { headers: {} }
  }

  const agent = yield* Agent.make(on)
  const { document_id } = yield* pinDocument(on, folder, agent.project_id)
  const entry = yield* agent.note("The gate opens at nine")
  const superseded = yield* agent.note("The gate opens at ten")
  const [task, dependency] = [yield* agent.task("Paint the gate"), yield* agent.task("Buy paint")]
  const ids = { entry_id: entry.id, superseded_id: superseded.id, task_id: task.id, dependency_id: dependency.id }
  const examples = examplesOf({ ...ids, document_id }, agent.write_context)
  // A cursor and a blob id that do not match, so that these parameters are spoiled too.
  const uses: Readonly<Record<ToolName, object>> = {
    ...examples,
    memory_search: { ...examples.memory_search, tags: ["gate"], cursor: "x" },
    task_list: { ...examples.task_list, assignee: "me", cursor: "x" },
    git_document_get: { ...examples.git_document_get, expected_blob_oid: "a".repeat(40) }
  }
  const rpc = (name: string, method: string, params: object, revision: string): Target => ({
    name: `mcp ${revision} ${name}`,
    method: "POST",
    path: "/mcp",
    headers: {
      ...json,
      ...bearer(agent.token),
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": revision,
      ...(revision === "2026-07-28" && {
        "mcp-method": method,
        ...("name" in params && { "mcp-name": `${params.name}` })
      })
    },
    json: {
      jsonrpc: "2.0",
      id: 1,
      method,
      params:
        revision === "2026-07-28"
          ? {
              ...params,
              _meta: {
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientCapabilities": {}
              }
            }
          : params
    }
  })
  const calls = revisions.flatMap((revision) => [
    ...Object.entries(uses).map(([name, given]) => rpc(name, "tools/call", { name, arguments: given }, revision)),
    rpc(
      "initialize",
      "initialize",
      {
        protocolVersion: revision,
        capabilities: {},
        clientInfo: { name: "t", version: "1" }
      },
      revision
    ),
    rpc("tools/list", "tools/list", { cursor: "x" }, revision),
    rpc("ping", "ping", {}, revision),
    rpc("server/discover", "server/discover", {}, revision),
    rpc("notifications/cancelled", "notifications/cancelled", { requestId: 1, reason: "x" }, revision)
  ])
  const one = rpc("batch", "tools/call", { name: "task_get", arguments: uses.task_get }, "2025-03-26")
  const batch = { ...one, json: [one.json, { ...one.json, id: 2 }, { jsonrpc: "2.0", method: "notifications/x" }] }

  const client_id = yield* makeClient(on)
  const form = { "content-type": "application/x-www-form-urlencoded" }
  const { refresh_token } = yield* signInByForm(on, { client_id, token: agent.token })
  const browser = new Browser(on.url)
  const page = yield* browser.authorize(authorizeQuery({ client_id }))
  const resource = `${on.url}/mcp`
  const plain: ReadonlyArray<Omit<Target, "name">> = [
    {
      method: "POST",
      path: "/token",
      headers: form,
      form: { grant_type: "refresh_token", client_id, refresh_token, scope: "tasks:read memory:read", resource }
    },
    {
      method: "POST",
      path: "/token",
      headers: form,
      form: {
        grant_type: "authorization_code",
        client_id,
        code: Redacted.value(yield* Tokens.mint("sac")),
        code_verifier: "v".repeat(43),
        redirect_uri: callback,
        resource
      }
    },
    {
      method: "POST",
      path: "/revoke",
      headers: form,
      form: { client_id, token: Redacted.value(yield* Tokens.mint("sat")) }
    },
    {
      method: "POST",
      path: "/register",
      headers: json,
      json: {
        client_name: "A client",
        redirect_uris: [callback],
        application_type: "native",
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
        scope: "tasks:read"
      }
    },
    {
      method: "POST",
      path: "/operator/v1/commands/list-bridges",
      headers: { ...json, ...bearer(yield* makeOperatorToken(on)) },
      json: { project: agent.project_id, limit: 5 }
    },
    {
      method: "GET",
      path: "/authorize",
      headers: {},
      query: Object.fromEntries(new URLSearchParams(authorizeQuery({ client_id, resource, scope: "tasks:read" })))
    },
    {
      method: "GET",
      path: "/oauth/consent",
      headers: { cookie: browser.cookie },
      query: { request: hiddenFields(page)["request"] ?? "", other: "1" }
    },
    {
      method: "POST",
      path: "/oauth/consent",
      headers: { ...form, cookie: browser.cookie, origin: on.url, "sec-fetch-site": "same-origin" },
      form: { ...hiddenFields(page), project_token: Redacted.value(yield* Tokens.mint("spt")) }
    },
    ...[
      "/",
      "/docs",
      "/openapi.json",
      "/healthz",
      "/readyz",
      "/nowhere",
      "/mcp",
      "/mcp/",
      "/.well-known/oauth-protected-resource",
      "/.well-known/oauth-protected-resource/mcp",
      "/.well-known/oauth-authorization-server",
      "/.well-known/oauth-authorization-server/mcp",
      "/.well-known/openid-configuration"
    ].map((path) => ({ method: "GET", path, headers: {} }))
  ]

  const declared: Array<Target> = []
  HttpApi.reflect(Api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint: { method, path } }) => {
      const name = `${method} ${path}`
      const given = endpoints[name]
      if (given === undefined) throw new Error(`No request is known for ${name}.`)
      declared.push({ name, method, path, ...given })
    }
  })
  return [...declared, ...calls, batch, ...plain.map((one) => ({ name: `${one.method} ${one.path}`, ...one }))]
})
