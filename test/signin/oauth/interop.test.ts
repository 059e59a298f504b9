/**
 * Third-party clients sign in, refresh and are revoked: certified libraries, both MCP SDKs with their own `auth()`,
 * mcp-remote, and the official conformance runner.
 */
import {
  auth as authV2,
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2
} from "@modelcontextprotocol/client"
import { auth as authV1 } from "@modelcontextprotocol/sdk/client/auth.js"
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as oauth from "oauth4webapi"
import * as openid from "openid-client"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Access } from "../../../src/signin/access/Access.ts"
import { credentialOf } from "../../../src/platform/edge/BearerCredential.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { Browser, callback, makeClient, makeToken, reachable } from "../../support/agents/Agent.ts"
import { freePort } from "../../support/network/FreePort.ts"
import { send } from "../../support/network/Http.ts"
import { Service } from "../../support/service/Service.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { firstPage } from "../../support/database/Page.ts"

const Interop = Layer.effect(Service, reachable({ SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })).pipe(
  Layer.provideMerge(TestDatabase.sql)
)

/** Plays the person: opens the URL, enters the token and allows. Returns the address that the browser is sent to. */
const person = Effect.fnUntraced(function* (url: string | URL, token: string) {
  const { pathname, search, origin } = new URL(url)
  assert.strictEqual(pathname, "/authorize")
  const answer = yield* new Browser(origin).consent(search.slice(1), token)
  assert.strictEqual(answer.status, 303, answer.text)
  return new URL(answer.headers.get("location")!)
})

const isAuthorized = Effect.fnUntraced(function* (token: string) {
  const access = Context.get((yield* Service).services, Access)
  return (yield* Effect.exit(access.authorize(credentialOf(`Bearer ${token}`))))._tag === "Success"
})

/** Runs mcp-remote with its own home directory. `call` calls a tool; `opened` returns the addresses it opens in a browser. */
const mcpRemote = Effect.fnUntraced(function* (service: Service["Service"]) {
  const port = yield* freePort
  const home = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "mcp-remote-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const proxy = join(dirname(createRequire(import.meta.url).resolve("mcp-remote/package.json")), "dist/proxy.js")
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [proxy, `${service.url}/mcp`, String(port), "--transport", "http-only"], {
        // Without a PATH it cannot find a browser.
        env: { HOME: home, MCP_REMOTE_CONFIG_DIR: home, PATH: "" }
      })
    ),
    (process) => Effect.sync(() => process.kill("SIGKILL"))
  )
  let [stdout, stderr] = ["", ""]
  child.stdout.on("data", (chunk) => (stdout += chunk))
  child.stderr.on("data", (chunk) => (stderr += chunk))
  const until = (found: () => boolean) =>
    Effect.promise(async () => {
      for (let waited = 0; !found() && waited < 20_000; waited += 50) await new Promise((go) => setTimeout(go, 50))
      assert.isTrue(found(), `${stdout}\n${stderr}`)
    })
  const say = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
  let id = 0
  const ask = (method: string, params: object) =>
    Effect.gen(function* () {
      const own = `"id":${++id}`
      say({ id, method, params })
      yield* until(() => stdout.includes(own))
      return stdout.split("\n").find((line) => line.includes(own))!
    })

  /** Waits until the command has opened `count` addresses and listens for the callback of the last. */
  const opened = Effect.fnUntraced(function* (count: number) {
    const found = () => stderr.match(/http\S+\/authorize\?\S+/g) ?? []
    // It listens only while it signs in, and prints an address before its callback server is up.
    const listened = () => stderr.match(/OAuth callback server running/g) ?? []
    yield* until(() => found().length >= count && listened().length >= count)
    return found()
  })
  const started = yield* Effect.cached(
    Effect.gen(function* () {
      const clientInfo = { name: "test", version: "1" }
      yield* ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo })
      say({ method: "notifications/initialized" })
    })
  )
  const call = Effect.andThen(started, ask("tools/call", { name: "server_identity", arguments: {} }))
  return { call, opened }
})

layer(Interop, { timeout: 60_000 })("a client by", (it) => {
  it.effect("oauth4webapi signs in, refreshes and revokes", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      const client = { client_id: yield* makeClient(service) }
      const http = { [oauth.allowInsecureRequests]: true }
      const resource = new URL(`${service.url}/mcp`)
      const described = yield* Effect.promise(async () => {
        const prm = await oauth.processResourceDiscoveryResponse(
          resource,
          await oauth.resourceDiscoveryRequest(resource, http)
        )
        const issuer = new URL(prm.authorization_servers![0]!)
        return oauth.processDiscoveryResponse(
          issuer,
          await oauth.discoveryRequest(issuer, { ...http, algorithm: "oauth2" })
        )
      })
      const verifier = oauth.generateRandomCodeVerifier()
      const state = oauth.generateRandomState()
      const challenge = yield* Effect.promise(() => oauth.calculatePKCECodeChallenge(verifier))
      const url = new URL(described.authorization_endpoint!)
      url.search = new URLSearchParams({
        client_id: client.client_id,
        redirect_uri: callback,
        response_type: "code",
        code_challenge: challenge,
        code_challenge_method: "S256",
        state,
        resource: resource.href
      }).toString()
      const back = yield* person(url, token)
      const params = oauth.validateAuthResponse(described, client, back, state)
      const first = yield* Effect.promise(async () =>
        oauth.processAuthorizationCodeResponse(
          described,
          client,
          await oauth.authorizationCodeGrantRequest(described, client, oauth.None(), params, callback, verifier, http)
        )
      )
      const second = yield* Effect.promise(async () =>
        oauth.processRefreshTokenResponse(
          described,
          client,
          await oauth.refreshTokenGrantRequest(described, client, oauth.None(), first.refresh_token!, http)
        )
      )
      assert.isTrue(yield* isAuthorized(second.access_token))
      yield* Effect.promise(async () =>
        oauth.processRevocationResponse(
          await oauth.revocationRequest(described, client, oauth.None(), second.refresh_token!, http)
        )
      )
      assert.deepEqual(
        [yield* isAuthorized(first.access_token), yield* isAuthorized(second.access_token)],
        [false, false]
      )
    })
  )

  it.effect("openid-client 6 signs in, refreshes and revokes", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      const client_id = yield* makeClient(service)
      const config = yield* Effect.promise(() =>
        openid.discovery(new URL(service.url), client_id, undefined, openid.None(), {
          execute: [openid.allowInsecureRequests],
          algorithm: "oauth2"
        })
      )
      const pkceCodeVerifier = openid.randomPKCECodeVerifier()
      const expectedState = openid.randomState()
      const code_challenge = yield* Effect.promise(() => openid.calculatePKCECodeChallenge(pkceCodeVerifier))
      const url = openid.buildAuthorizationUrl(config, {
        redirect_uri: callback,
        scope: "memory:write",
        code_challenge,
        code_challenge_method: "S256",
        state: expectedState,
        resource: `${service.url}/mcp`
      })
      const back = yield* person(url, token)
      const first = yield* Effect.promise(() =>
        openid.authorizationCodeGrant(config, back, { pkceCodeVerifier, expectedState })
      )
      assert.strictEqual(first.scope, "memory:read memory:write")
      const second = yield* Effect.promise(() => openid.refreshTokenGrant(config, first.refresh_token!))
      assert.isTrue(yield* isAuthorized(second.access_token))
      yield* Effect.promise(() => openid.tokenRevocation(config, second.refresh_token!))
      assert.isFalse(yield* isAuthorized(second.access_token))
    })
  )

  /** The OAuth provider that an MCP host implements, in memory. */
  const provider = (client_id: string | undefined) => {
    const state: { client?: any; tokens?: any; verifier?: string; url?: URL; discovery?: any } = {}
    if (client_id !== undefined) state.client = { client_id }
    return {
      state,
      it: {
        redirectUrl: callback,
        clientMetadata: { client_name: "An MCP host", redirect_uris: [callback], token_endpoint_auth_method: "none" },
        clientInformation: () => state.client,
        saveClientInformation: (client: unknown) => {
          state.client = client
        },
        tokens: () => state.tokens,
        saveTokens: (tokens: unknown) => {
          state.tokens = tokens
        },
        redirectToAuthorization: (url: URL) => {
          state.url = url
        },
        saveCodeVerifier: (verifier: string) => {
          state.verifier = verifier
        },
        codeVerifier: () => state.verifier!,
        saveDiscoveryState: (discovery: unknown) => {
          state.discovery = discovery
        },
        discoveryState: () => state.discovery,
        invalidateCredentials: (what: string) => {
          if (what === "tokens" || what === "all") delete state.tokens
          if (what === "client" || what === "all") delete state.client
        }
      } as any
    }
  }

  const sdks = [
    { name: "MCP SDK v1", auth: authV1, Client: ClientV1, Transport: TransportV1 },
    { name: "MCP SDK v2", auth: authV2, Client: ClientV2, Transport: TransportV2 }
  ] as ReadonlyArray<{ readonly name: string; readonly auth: any; readonly Client: any; readonly Transport: any }>

  for (const { auth, Client, name, Transport } of sdks) {
    for (const kind of ["registered by the operator", "registering itself"]) {
      it.effect(`${name}, ${kind}, signs in, calls, refreshes and is refused after revocation`, () =>
        Effect.gen(function* () {
          const service = yield* Service
          const { project_id, token, token_id } = yield* makeToken(service)
          const serverUrl = `${service.url}/mcp`
          const host = provider(kind === "registering itself" ? undefined : yield* makeClient(service))
          const authorize = (options: object = {}) =>
            Effect.promise<string>(() => auth(host.it, { serverUrl, ...options }))

          assert.strictEqual(yield* authorize(), "REDIRECT")
          const back = yield* person(host.state.url!, token)
          const authorizationCode = back.searchParams.get("code")!
          assert.strictEqual(yield* authorize({ authorizationCode, iss: back.searchParams.get("iss")! }), "AUTHORIZED")
          assert.isTrue(yield* isAuthorized(host.state.tokens.access_token))

          const call = Effect.promise(async () => {
            const client = new Client({ name: "test", version: "1" })
            await client.connect(new Transport(new URL(serverUrl), { authProvider: host.it }))
            const { content } = await client.callTool({ name: "server_identity" })
            await client.close()
            return content[0].text as string
          })
          assert.include(yield* call, project_id)

          const before = host.state.tokens
          assert.strictEqual(yield* authorize(), "AUTHORIZED")
          assert.notStrictEqual(host.state.tokens.refresh_token, before.refresh_token)
          assert.include(yield* call, project_id)

          yield* Context.get(service.services, ProjectTokens).revoke(token_id)
          assert.isFalse(yield* isAuthorized(host.state.tokens.access_token))
          assert.strictEqual(yield* authorize(), "REDIRECT")
        })
      )
    }
  }

  it.effect(
    "mcp-remote signs in, calls, refreshes, and asks for a new sign-in once revoked",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const sql = yield* SqlClient.SqlClient
        const { project_id, token } = yield* makeToken(service)
        const { call, opened } = yield* mcpRemote(service)

        const back = yield* person((yield* opened(1))[0]!, token)
        assert.strictEqual((yield* send(back.href, { method: "GET" })).status, 200)
        assert.include(yield* call, project_id)

        const grants = Context.get(service.services, Grants)
        const [grant] = yield* grants.list(project_id, firstPage)
        const { grant_id } = grant!
        const generations = sql`select 1 from oauth_refresh_token where grant_id = ${grant_id}::uuid`
        assert.lengthOf(yield* generations, 1)
        yield* sql`update oauth_access_token set expires_at = created_at where grant_id = ${grant_id}::uuid`
        assert.include(yield* call, project_id)
        assert.lengthOf(yield* generations, 2)

        yield* grants.revoke(grant_id)
        const waiting = yield* Effect.forkChild(call)
        const [, again] = yield* opened(2)
        assert.isUndefined(waiting.pollUnsafe())
        assert.lengthOf(yield* generations, 2)
        yield* send((yield* person(again!, token)).href, { method: "GET" })
        assert.include(yield* Fiber.join(waiting), project_id)
        assert.deepEqual(
          (yield* grants.list(project_id, firstPage)).map(({ status }) => status),
          ["revoked", "active"]
        )
      }),
    60_000
  )

  it.effect(
    "the official conformance runner passes: metadata and authorization code",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { token } = yield* makeToken(service)
        const port = yield* freePort
        const client_id = yield* makeClient(service, { redirect_uris: [`http://127.0.0.1:${port}/callback`] })
        const runner = join(
          dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")),
          "dist/index.js"
        )
        const args = ["--client-id", client_id, "--resource", `${service.url}/mcp`, "-p", String(port)]
        const child = yield* Effect.acquireRelease(
          Effect.sync(() =>
            spawn(process.execPath, [runner, "authorization", "--url", service.url, ...args], { cwd: tmpdir() })
          ),
          (process) => Effect.sync(() => process.kill("SIGKILL"))
        )
        let output = ""
        let asked = false
        const read = (chunk: Buffer) => {
          output += chunk.toString()
          const found = /http\S+\/authorize\?\S+/.exec(output)
          if (found === null || asked) return
          asked = true
          void Effect.runPromise(person(found[0], token)).then((back) => fetch(back))
        }
        child.stdout.on("data", read)
        child.stderr.on("data", read)
        const code = yield* Effect.promise(() => new Promise<number | null>((done) => child.on("exit", done)))
        assert.strictEqual(code, 0, output)
        assert.notMatch(output, /[1-9]\d* (failed|skipped)|SKIPPED/, output)
        assert.isTrue(asked, output)
      }),
    120_000
  )
})
