/** Clients that are known by their metadata document (Client ID Metadata Documents), and which hosts it is fetched from. */
import { assert, describe, it as test, layer } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Fiber, Layer, Logger, References } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { createServer } from "node:https"
import { setImmediate } from "node:timers/promises"
import { vi } from "vitest"
import { Access } from "../../../../src/signin/access/Access.ts"
import { credentialOf } from "../../../../src/platform/edge/BearerCredential.ts"
import { Settings } from "../../../../src/platform/settings/Settings.ts"
import { ClientDocuments } from "../../../../src/signin/oauth/clients/ClientDocuments.ts"
import { Clients } from "../../../../src/signin/oauth/clients/Clients.ts"
import { DocumentNetwork, isDocumentUrl } from "../../../../src/signin/oauth/clients/fetchDocument.ts"
import { isPublic } from "../../../../src/platform/network/PublicAddress.ts"
import {
  authorizeQuery,
  Browser,
  hiddenFields,
  makeClient,
  makeToken,
  refresh,
  signIn
} from "../../../support/agents/Agent.ts"
import type { Answer } from "../../../support/network/Http.ts"
import { cert, host, key } from "../../../support/phones/Certificate.ts"
import { environment, instance, Service } from "../../../support/service/Service.ts"
import { firstPage } from "../../../support/database/Page.ts"

const isAuthorized = ({ services }: Pick<Service["Service"], "services">, token: string) =>
  Effect.map(
    Effect.exit(Context.get(services, Access).authorize(credentialOf(`Bearer ${token}`))),
    (exit) => exit._tag === "Success"
  )

/** A server of metadata documents with its own certificate; the resolver returns `addresses` for every name. */
class Documents extends Context.Service<
  Documents,
  {
    /** None: the request stays without an answer. */
    answer: (path: string) => { status?: number; headers?: Record<string, string>; body: string } | undefined
    addresses: ReadonlyArray<string>
    requests: Array<string>
    network: typeof DocumentNetwork.Service
  }
>()("test/Documents") {}

const documentUrl = `https://${host}/client.json`
const document = (given: object = {}) =>
  JSON.stringify({
    client_id: documentUrl,
    client_name: "Agent",
    redirect_uris: ["http://localhost/callback"],
    ...given
  })

const WithDocuments = Layer.unwrap(
  Effect.gen(function* () {
    const documents: Omit<Documents["Service"], "network"> = {
      answer: () => ({ body: document() }),
      addresses: ["127.0.0.1"],
      requests: []
    }
    const server = createServer({ key, cert }, (request, response) => {
      documents.requests.push(request.url ?? "")
      const answer = documents.answer(request.url ?? "")
      if (answer === undefined) return
      const { body, headers = {}, status = 200 } = answer
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(body)
    })
    const port = yield* Effect.acquireRelease(
      Effect.callback<number>((resume) => {
        server.listen(0, "127.0.0.1", () => {
          const listening = server.address()
          resume(Effect.succeed(typeof listening === "object" && listening !== null ? listening.port : 0))
        })
      }),
      () => Effect.sync(() => server.close().closeAllConnections())
    )
    const network = {
      resolve: () => Promise.resolve(documents.addresses),
      // The test's own server counts as public; every other address is checked by the real rule.
      isAllowed: (ip: string) => ip === "127.0.0.1" || isPublic(ip),
      port,
      ca: cert
    }
    return Layer.mergeAll(
      Layer.succeed(Documents, Object.assign(documents, { network })),
      Layer.effect(
        Service,
        Effect.provideService(instance({ SERVICE_OAUTH_CIMD_HOSTS: host }), DocumentNetwork, network)
      )
    )
  })
).pipe(Layer.provideMerge(Service.layer))

layer(WithDocuments)("a client known by its metadata document", (it) => {
  const redirect_uri = "http://localhost:4711/callback"
  let serial = 0
  /** A new client id, so that nothing is cached. */
  const fresh = () => `https://${host}/${++serial}/client.json`
  const authorize = Effect.fnUntraced(function* (client_id: string) {
    return yield* new Browser((yield* Service).url).authorize(authorizeQuery({ client_id, redirect_uri }))
  })

  it.effect("signs in, and the page shows the host of its document", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const page = yield* authorize(documentUrl)
      assert.strictEqual(page.status, 200, page.text)
      assert.include(page.text, `Identified by ${host}`)
      assert.include(page.text, "just started this sign-in yourself")
      const { client_id, refresh_token } = yield* signIn(service, { client_id: documentUrl, redirect_uri })
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).status, 200)
    })
  )

  it.effect("is fetched once as long as Cache-Control allows", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }), headers: { "cache-control": "max-age=600" } })
      documents.requests = []
      yield* Effect.all([authorize(client_id), authorize(client_id), authorize(client_id)], { concurrency: 3 })
      assert.lengthOf(documents.requests, 1)
    })
  )

  it.effect.each([
    ["no-cache", 60],
    ["no-store", 60],
    ["max-age=59", 60],
    ["max-age=61", 61],
    ["private", 3600],
    ["max-age=999999", 86_400]
  ] as const)("is fetched again with Cache-Control %s after %i seconds", ([cacheControl, seconds]) =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }), headers: { "cache-control": cacheControl } })
      documents.requests = []
      const counts: Array<number> = []
      for (const more of [0, seconds - 1, 1]) {
        yield* TestClock.adjust(more * 1000)
        yield* authorize(client_id)
        counts.push(documents.requests.length)
      }
      assert.deepStrictEqual(counts, [1, 1, 2])
    })
  )

  it.effect("is fetched 30 times a minute from one host, by two processes 15 times each", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const one = instance({ SERVICE_OAUTH_CIMD_HOSTS: host, SERVICE_PROCESSES: "2" })
      const { url } = yield* Effect.provideService(one, DocumentNetwork, documents.network)
      documents.answer = (path) => ({ body: document({ client_id: `https://${host}${path}` }) })
      yield* TestClock.adjust(60_000)
      documents.requests = []
      for (let n = 0; n < 31; n++) yield* authorize(fresh())
      assert.lengthOf(documents.requests, 30)
      for (let n = 0; n < 16; n++)
        yield* new Browser(url).authorize(authorizeQuery({ client_id: fresh(), redirect_uri }))
      assert.lengthOf(documents.requests, 45)
      yield* TestClock.adjust(60_000)
    })
  )

  it.effect("keeps nobody else from the database while its host does not answer", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const documents = yield* Documents
      documents.answer = () => undefined
      documents.requests = []
      const unanswered = yield* Effect.forkChild(authorize(fresh()))
      yield* Effect.promise(() => vi.waitUntil(() => documents.requests.length > 0))
      const query = authorizeQuery({ client_id: yield* makeClient(service) })
      assert.strictEqual((yield* new Browser(service.url).authorize(query)).status, 200)
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual((yield* Fiber.join(unanswered)).status, 503)
    })
  )

  /** What a person does at the consent page, before and after entering a token. */
  const steps: Readonly<Record<string, (browser: Browser, page: Answer, token: string) => Effect.Effect<Answer>>> = {
    "the page is loaded": (browser, page) => browser.get(`/oauth/consent?request=${hiddenFields(page)["request"]}`),
    "a token is entered": (browser, page, project_token) => browser.submit(page, { project_token }),
    "it is allowed": (browser, page) => browser.submit(page, { decision: "allow" })
  }
  for (const [what, step] of Object.entries(steps)) {
    it.effect(`keeps nobody else from the database while its host does not answer and ${what}`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const documents = yield* Documents
        const client_id = fresh()
        documents.answer = () => ({ body: document({ client_id }), headers: { "cache-control": "no-store" } })
        const { token } = yield* makeToken(service)
        const browser = new Browser(service.url)
        const asks = yield* browser.authorize(authorizeQuery({ client_id, redirect_uri }))
        const page = what === "it is allowed" ? yield* browser.submit(asks, { project_token: token }) : asks
        yield* TestClock.adjust("1 minute")
        documents.answer = () => undefined
        documents.requests = []
        const unanswered = yield* Effect.forkChild(step(browser, page, token))
        yield* Effect.promise(() => vi.waitUntil(() => documents.requests.length > 0))
        const query = authorizeQuery({ client_id: yield* makeClient(service) })
        assert.strictEqual((yield* new Browser(service.url).authorize(query)).status, 200)
        yield* TestClock.adjust("3 seconds")
        assert.strictEqual((yield* Fiber.join(unanswered)).status, 503)
      })
    )
  }

  it.effect("returns an error only if the person follows the link", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }) })
      const query = authorizeQuery({ client_id, redirect_uri, scope: "nothing" })
      const answer = yield* new Browser((yield* Service).url).authorize(query)
      assert.deepStrictEqual([answer.status, answer.headers.get("location")], [400, null])
    })
  )

  it.effect("may list other authentication methods beside none", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      const token_endpoint_auth_methods_supported = ["none", "private_key_jwt"]
      const given = { client_id, token_endpoint_auth_method: "private_key_jwt", token_endpoint_auth_methods_supported }
      documents.answer = () => ({ body: document(given) })
      assert.strictEqual((yield* authorize(client_id)).status, 200)
    })
  )

  /** A document of so many bytes. */
  const padded = (client_id: string, bytes: number) => {
    const { length } = document({ client_id, padding: "" })
    return document({ client_id, padding: "x".repeat(bytes - length) })
  }

  it.effect("may have a document of 5 KB", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: padded(client_id, 5 * 1024) })
      assert.strictEqual((yield* authorize(client_id)).status, 200)
    })
  )

  type Response = ReturnType<Documents["Service"]["answer"]>
  const unusable: ReadonlyArray<readonly [string, (client_id: string) => Response]> = [
    ["names another client_id", () => ({ body: document() })],
    ["has no name", (client_id) => ({ body: document({ client_id, client_name: "" }) })],
    ["contains a secret", (client_id) => ({ body: document({ client_id, client_secret: "x" }) })],
    ["names the end of a secret", (client_id) => ({ body: document({ client_id, client_secret_expires_at: 0 }) })],
    [
      "requires a secret",
      (client_id) => ({ body: document({ client_id, token_endpoint_auth_method: "client_secret_post" }) })
    ],
    ["redirects", (client_id) => ({ status: 302, headers: { location: "/elsewhere" }, body: document({ client_id }) })],
    ["is missing", () => ({ status: 404, body: "" })],
    ["is not JSON", () => ({ body: "{" })],
    [
      "has another media type",
      (client_id) => ({ headers: { "content-type": "text/html" }, body: document({ client_id }) })
    ],
    ["is larger than 5 KB", (client_id) => ({ body: padded(client_id, 5 * 1024 + 1) })]
  ]
  it.effect.each(unusable)("is unknown when its document %s", ([, answer]) =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = (path) => (path === "/elsewhere" ? { body: document({ client_id }) } : answer(client_id))
      assert.strictEqual((yield* authorize(client_id)).status, 400)
      documents.answer = () => ({ body: document({ client_id }) })
      assert.strictEqual((yield* authorize(client_id)).status, 200)
    })
  )

  it.effect("is fetched again after its server failed", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ status: 503, body: "" })
      const answer = yield* authorize(client_id)
      assert.strictEqual(answer.status, 503)
      assert.isNotNull(answer.headers.get("retry-after"))
      documents.answer = () => ({ body: document({ client_id }) })
      assert.strictEqual((yield* authorize(client_id)).status, 200)
    })
  )

  it.effect("is fetched if somebody has allowed it before, however many unknown ones are asked for", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = (path) =>
        client_id.endsWith(path) ? { body: document({ client_id }) } : { status: 404, body: "" }
      yield* signIn(service, { client_id, redirect_uri })
      yield* TestClock.adjust("2 hours")
      const before = documents.requests.length
      const flood = yield* Effect.replicateEffect(
        Effect.suspend(() => authorize(fresh())),
        40
      )
      assert.isTrue(flood.every(({ status }) => status >= 400))
      assert.strictEqual(documents.requests.length - before, 30)
      assert.strictEqual((yield* authorize(client_id)).status, 200)
      yield* TestClock.adjust("1 minute")
    })
  )

  it.effect("is not fetched if any address of its host is not public", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }) })
      documents.requests = []
      for (const addresses of [["127.0.0.1", "10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"], []]) {
        documents.addresses = addresses
        assert.strictEqual((yield* authorize(client_id)).status, 400)
      }
      documents.addresses = ["127.0.0.1"]
      assert.lengthOf(documents.requests, 0)
    })
  )

  it.effect("is not fetched from a host that the operator did not list", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      documents.requests = []
      for (const client_id of [
        "https://other.example/client.json",
        `https://${host}:8443/client.json`,
        `https://${host}`,
        `https://${host}/`,
        `http://${host}/client.json`,
        `https://user@${host}/client.json`,
        `https://${host}/a/../client.json`,
        `https://${host}/%2e%2e/client.json`,
        `https://${host}/client.json#x`,
        "https://127.0.0.1/client.json"
      ]) {
        assert.strictEqual((yield* authorize(client_id)).status, 400, client_id)
      }
      assert.lengthOf(documents.requests, 0)
    })
  )

  it.effect("is read again when the person decides, once its document is no longer cached", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const documents = yield* Documents
      const { token } = yield* makeToken(service)
      for (const status of [503, 400]) {
        const client_id = fresh()
        const sound = { body: document({ client_id }), headers: { "cache-control": "max-age=60" } }
        documents.answer = () => sound
        const browser = new Browser(service.url)
        const asked = yield* browser.authorize(authorizeQuery({ client_id, redirect_uri }))
        const page = yield* browser.submit(asked, { project_token: token })
        yield* TestClock.adjust("1 minute")
        const elsewhere = { body: document({ client_id, redirect_uris: ["http://localhost/other"] }) }
        documents.answer = () => (status === 503 ? { status, body: "" } : elsewhere)
        assert.strictEqual((yield* browser.submit(page, { decision: "allow" })).status, status)
        documents.answer = () => sound
        if (status === 503) {
          assert.strictEqual((yield* browser.submit(page, { decision: "allow" })).status, 303)
        }
      }
    })
  )

  it.effect("stays disabled, whether or not it was used before", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const documents = yield* Documents
      const { disable, list } = Context.get(service.services, Clients)
      const [used, unused] = [fresh(), fresh()]
      documents.answer = (path) => ({ body: document({ client_id: `https://${host}${path}` }) })

      assert.deepEqual((yield* disable(unused)).grant_ids, [])
      yield* TestClock.adjust(1000)
      yield* disable(unused)
      const sql = yield* SqlClient.SqlClient
      assert.lengthOf(yield* sql`select 1 from audit_event where subject ->> 'client_id' = ${unused}`, 1)
      documents.requests = []
      assert.strictEqual((yield* authorize(unused)).status, 400)
      assert.lengthOf(documents.requests, 0)

      const { access_token, refresh_token } = yield* signIn(service, { client_id: used, redirect_uri })
      const { token } = yield* makeToken(service)
      const browser = new Browser(service.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id: used, redirect_uri }))
      const waiting = yield* browser.submit(page, { project_token: token })
      assert.lengthOf((yield* disable(used)).grant_ids, 1)
      assert.strictEqual((yield* browser.submit(waiting, { decision: "allow" })).status, 400)
      assert.strictEqual((yield* authorize(used)).status, 400)
      assert.isFalse(yield* isAuthorized(service, access_token))
      assert.strictEqual((yield* refresh(service, { client_id: used, refresh_token })).body.error, "invalid_client")
      const known = (yield* list(firstPage)).filter(({ client_id }) => client_id === used || client_id === unused)
      assert.deepEqual(
        known.map(({ disabled_at, kind, live_grants }) => [kind, live_grants, disabled_at === null]),
        Array.from({ length: 2 }, () => ["document", 0, false])
      )
    })
  )

  it.effect("keeps its grants if its document disappears", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }) })
      const { refresh_token } = yield* signIn(service, { client_id, redirect_uri })
      documents.answer = () => ({ status: 404, body: "" })
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).status, 200)
    })
  )
})

const quietly = Effect.provideService(References.MinimumLogLevel, "None")
const hosts = ["a", "b", "c", "d", "e"].map((name) => `${name}.example`)
/** Looks documents up at these hosts, whose names are resolved like this. */
const documentsBy = (resolve: (typeof DocumentNetwork.Service)["resolve"]) => {
  const given = { ...environment, SERVICE_OAUTH_CIMD_HOSTS: hosts.join(",") }
  const settings = Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(given))))
  return Effect.provide(
    Effect.service(ClientDocuments),
    ClientDocuments.layer.pipe(
      Layer.provide(settings),
      Layer.provide(Layer.succeed(DocumentNetwork, { resolve, isAllowed: isPublic, port: 443, ca: undefined }))
    )
  )
}

test.effect("a document is waited for three seconds", () =>
  Effect.gen(function* () {
    const asking = Promise.withResolvers<void>()
    const { find } = yield* documentsBy(() => {
      asking.resolve()
      return new Promise(() => {})
    })
    const asked = yield* Effect.forkChild(find({ client_id: "https://a.example/client", isKnown: false }))
    yield* Effect.promise(() => asking.promise)
    yield* TestClock.adjust("3 seconds")
    assert.strictEqual((yield* Effect.flip(Fiber.join(asked))).reason, "took too long")
  }).pipe(quietly)
)

test.effect("documents are fetched 120 times a minute, from all hosts together", () =>
  Effect.gen(function* () {
    let fetches = 0
    const { find } = yield* documentsBy(() => {
      fetches += 1
      return Promise.reject(new Error("nobody is there"))
    })
    const ids = Array.from({ length: 30 }, (_, n) => hosts.map((name) => `https://${name}/${n}`)).flat()
    yield* Effect.forEach(ids, (client_id) => Effect.exit(find({ client_id, isKnown: false })))
    assert.strictEqual(fetches, 120)
  }).pipe(quietly)
)

test.effect("unusable documents have one log line a second for each host and reason, with their number", () => {
  const lines: Array<readonly [unknown, object]> = []
  const logger = Logger.make(({ fiber, message }) => {
    lines.push([[message].flat()[0], fiber.getRef(References.CurrentLogAnnotations)])
  })
  return Effect.gen(function* () {
    // The log's own times are not of Effect's clock.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    yield* Effect.addFinalizer(() => Effect.sync(() => vi.useRealTimers()))
    const { find } = yield* documentsBy(() => Promise.resolve(["10.0.0.1"]))
    for (let n = 0; n < 20; n++) yield* find({ client_id: `https://a.example/${n}`, isKnown: false })
    yield* find({ client_id: "https://b.example/0", isKnown: false })
    const turn = Effect.promise(() => setImmediate())
    yield* turn
    vi.advanceTimersByTime(1000)
    yield* turn
    const line = (host: string, count: number): readonly [unknown, object] => [
      "A client's metadata document is unusable",
      { host, reason: "address not public", count }
    ]
    assert.deepStrictEqual(lines, [line("a.example", 1), line("b.example", 1), line("a.example", 19)])
  }).pipe(Effect.provide(Logger.layer([logger])))
})

describe("the host of a metadata document", () => {
  const denied = [
    "127.0.0.1",
    "127.1.2.3",
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "169.254.169.254",
    "172.31.0.1",
    "192.168.1.1",
    "192.0.0.8",
    "198.18.0.1",
    "203.0.113.5",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:1::1",
    "2001:db8::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd12::1",
    "ff02::1",
    "100::1",
    "5f00::1",
    "3fff::1",
    "example",
    ""
  ]
  test.each(denied)("must not have the address %s", (ip) => assert.isFalse(isPublic(ip)))
  test.each(["1.1.1.1", "8.8.8.8", "2606:4700::1111"])("may have the address %s", (ip) => assert.isTrue(isPublic(ip)))
  test.each([
    "https://0x7f000001/x",
    "https://2130706433/x",
    "https://127.1/x",
    "https://[::1]/x",
    "https://localhost/x",
    "https://localhost./x"
  ])("is a name in the URL, not as in %s", (url) => assert.isFalse(isDocumentUrl(url)))
})
