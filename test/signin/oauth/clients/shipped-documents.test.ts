/** Well-known clients where their metadata documents cannot be fetched: the copies that ship with the release. */
import { assert, describe, it as test, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { createServer } from "node:https"
import { clientDocuments } from "../../../../cli/support/checks/clientDocuments.ts"
import { DocumentNetwork } from "../../../../src/signin/oauth/clients/fetchDocument.ts"
import { shippedDocuments } from "../../../../src/signin/oauth/clients/ShippedDocuments.ts"
import { authorizeQuery, Browser, signIn } from "../../../support/agents/Agent.ts"
import { throwAwayCertificate } from "../../../support/phones/ThrowAwayCertificate.ts"
import { instance, Service } from "../../../support/service/Service.ts"

const claudeCode = "https://claude.ai/oauth/claude-code-client-metadata"
const published = { client_id: claudeCode, client_name: "Claude Code", redirect_uris: ["http://localhost/callback"] }
const redirect_uri = "http://localhost:51234/callback"

interface Answer {
  readonly status: number
  readonly body?: object | string
  /** What the host serves at every other path; by default nothing. */
  readonly others?: object
}

/** claude.ai as this machine reaches it: `answer` undefined means not at all. */
const claudeAi = Effect.gen(function* () {
  const { cert, key } = throwAwayCertificate({ host: "claude.ai" })
  const host = { answer: undefined as Answer | undefined }
  const server = createServer({ cert, key }, (request, response) => {
    const { body, others, status } = host.answer!
    const document = request.url === new URL(claudeCode).pathname ? body : others
    if (typeof body !== "object") response.writeHead(status, { "content-type": "text/html" }).end(body)
    else if (document === undefined) response.writeHead(404).end()
    else response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(document))
  })
  const port = yield* Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
      })
    }),
    () => Effect.sync(() => server.close().closeAllConnections())
  )
  const network = {
    resolve: (name: string) =>
      host.answer === undefined || name !== "claude.ai"
        ? Promise.reject(new Error("ENOTFOUND"))
        : Promise.resolve(["127.0.0.1"]),
    isAllowed: () => true,
    port,
    ca: cert
  }
  return { host, network }
})

const open = (on: { readonly url: string }, client_id: string, uri = redirect_uri) =>
  new Browser(on.url).authorize(authorizeQuery({ client_id, redirect_uri: uri }))

layer(Service.layer)("a well-known client", (it) => {
  const offline = (settings: Readonly<Record<string, string>> = {}) =>
    Effect.gen(function* () {
      const { host, network } = yield* claudeAi
      return { host, service: yield* Effect.provideService(instance(settings), DocumentNetwork, network) }
    })

  it.effect("signs in by the copy of its document where the service has no way out, and the page says so", () =>
    Effect.gen(function* () {
      const { service } = yield* offline()
      for (const [client_id, document] of Object.entries(shippedDocuments)) {
        const { client_name, redirect_uris } = document as { client_name: string; redirect_uris: Array<string> }
        const page = yield* open(service, client_id, redirect_uris[0])
        assert.strictEqual(page.status, 200, client_id)
        assert.include(page.text, client_name)
        assert.include(page.text, `${new URL(client_id).host} could not be asked`)
      }
      const { access_token } = yield* signIn(service, { client_id: claudeCode, redirect_uri })
      assert.match(access_token, /^sat_/)
    })
  )

  it.effect("is sent only to the addresses that its document lists", () =>
    Effect.gen(function* () {
      const { service } = yield* offline()
      const answer = yield* open(service, claudeCode, "https://evil.example/callback")
      assert.strictEqual(answer.status, 400)
      assert.isNull(answer.headers.get("location"))
    })
  )

  it.effect("is known by its copy while its host answers without a document", () =>
    Effect.gen(function* () {
      for (const answer of [
        { status: 403, body: "Just a moment" },
        { status: 200, body: "Sign in" },
        { status: 503 }
      ]) {
        const { host, service } = yield* offline()
        host.answer = answer
        assert.include((yield* open(service, claudeCode)).text, "claude.ai could not be asked")
      }
    })
  )

  it.effect("is unknown if its host has withdrawn the document, or sends one that is not acceptable", () =>
    Effect.gen(function* () {
      const bad = { status: 200, body: { ...published, client_secret: "x" } }
      for (const answer of [{ status: 404 }, { status: 410 }, bad]) {
        const { host, service } = yield* offline()
        host.answer = answer
        assert.strictEqual((yield* open(service, claudeCode)).status, 400, `${answer.status}`)
      }
    })
  )

  it.effect("is known by what its host serves, as soon as that can be fetched again", () =>
    Effect.gen(function* () {
      const { host, service } = yield* offline()
      const elsewhere = "http://127.0.0.1:51234/callback"
      assert.strictEqual((yield* open(service, claudeCode, elsewhere)).status, 200, "which the copy lists")
      host.answer = { status: 200, body: published }
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* open(service, claudeCode, elsewhere)).status, 400, "which the host no longer lists")
      assert.include((yield* open(service, claudeCode)).text, "Identified by claude.ai")
    })
  )

  it.effect("is unknown if the operator does not list its host, or wants no documents", () =>
    Effect.gen(function* () {
      for (const settings of [{ SERVICE_OAUTH_CIMD_HOSTS: "vscode.dev" }, { SERVICE_OAUTH_CIMD: "off" }]) {
        const { service } = yield* offline(settings)
        assert.strictEqual((yield* open(service, claudeCode)).status, 400)
      }
    })
  )
})

describe("doctor", () => {
  const said = Effect.fnUntraced(function* (answer: Answer | undefined, hosts: ReadonlyArray<string>) {
    const { host, network } = yield* claudeAi
    host.answer = answer
    const checks = yield* Effect.provideService(
      clientDocuments({ oauth: { cimd: "allowlist", cimdHosts: new Set(hosts) } }),
      DocumentNetwork,
      network
    )
    return checks.map(({ message, status }) => `${status} ${message}`)
  })

  test.live("says where the copies stand in, and for which host there is none", () =>
    Effect.gen(function* () {
      assert.deepEqual(yield* said(undefined, ["claude.ai", "example.com"]), [
        "ok Metadata document at claude.ai: not fetched (name not resolved), so its copy in this release identifies Claude Code, Claude.",
        "warn example.com cannot be asked for metadata documents (name not resolved), and this release has no copy of them: allow outgoing connections to it, or make its clients known with create-oauth-client."
      ])
    })
  )

  test.live("says what is fetched, what differs from its copy, and what is refused", () =>
    Effect.gen(function* () {
      const same = { ...published, ...shippedDocuments[claudeCode] }
      assert.match(
        (yield* said({ status: 200, body: same }, ["claude.ai"]))[0]!,
        /^warn .*: fetched for Claude Code; withdrawn or not acceptable for Claude,/
      )
      assert.match(
        (yield* said({ status: 200, body: published }, ["claude.ai"]))[0]!,
        /^warn .*: fetched for Claude Code, and differs from the copy in this release: upgrade; withdrawn/
      )
      const claude = "https://claude.ai/oauth/mcp-oauth-client-metadata"
      const others = { client_id: claude, ...shippedDocuments[claude] }
      assert.deepEqual(yield* said({ status: 200, body: published, others }, ["claude.ai"]), [
        "warn Metadata document at claude.ai: fetched for Claude; fetched for Claude Code, and differs from the copy in this release: upgrade."
      ])
      assert.deepEqual(yield* said({ status: 404 }, ["claude.ai"]), [
        "warn Metadata document at claude.ai: withdrawn or not acceptable for Claude Code, Claude, which cannot sign in with it."
      ])
    })
  )

  test.live("says that documents are off", () =>
    Effect.gen(function* () {
      const checks = yield* clientDocuments({ oauth: { cimd: "off", cimdHosts: new Set(["claude.ai"]) } })
      assert.deepEqual(
        checks.map(({ status }) => status),
        ["ok"]
      )
    })
  )
})
