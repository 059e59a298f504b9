/** Metadata, registration, documents and revocation (RFC 8414, 9728, 7591, 7009; Client ID Metadata Documents). */
import { assert, describe, it as test, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import * as FastCheck from "fast-check"
import { createServer } from "node:https"
import { Access } from "../../../src/signin/access/Access.ts"
import { credentialOf } from "../../../src/signin/access/BearerCredential.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { DocumentNetwork, isDocumentUrl } from "../../../src/signin/oauth/clients/fetchDocument.ts"
import { isPublic } from "../../../src/signin/oauth/clients/PublicAddress.ts"
import { isAcceptable, matches } from "../../../src/signin/oauth/clients/RedirectUri.ts"
import {
  authorizeQuery,
  Browser,
  exchange,
  makeClient,
  makeToken,
  obtainCode,
  post,
  refresh,
  signIn
} from "../../support/agents/Agent.ts"
import { cert, host, key } from "../../support/phones/Certificate.ts"
import { send } from "../../support/network/Http.ts"
import { instance, Service } from "../../support/service/Service.ts"

const base = "http://127.0.0.1:8787"
const get = (url: string, headers = {}) => send(url, { method: "GET", headers })
const opens = ({ services }: Pick<Service["Service"], "services">, token: string) =>
  Effect.map(
    Effect.exit(Context.get(services, Access).authorize(credentialOf(`Bearer ${token}`))),
    (exit) => exit._tag === "Success"
  )

layer(Service.layer)("metadata", (it) => {
  it.effect("of the resource names exactly the address that people type", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      for (const path of ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]) {
        const { body, headers, status } = yield* get(`${url}${path}`, { host: "evil.test" })
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("access-control-allow-origin"), "*")
        assert.deepEqual(body, {
          resource: `${base}/mcp`,
          authorization_servers: [base],
          scopes_supported: ["context:read", "memory:read", "tasks:read", "documents:read"],
          bearer_methods_supported: ["header"],
          resource_documentation: `${base}/docs`
        })
      }
    })
  )

  it.effect("of the authorization server is the same under all names that clients try", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const texts = yield* Effect.forEach(
        ["oauth-authorization-server", "oauth-authorization-server/mcp", "openid-configuration"],
        (name) => Effect.map(get(`${url}/.well-known/${name}`), ({ text }) => text)
      )
      assert.strictEqual(new Set(texts).size, 1)
      const document = JSON.parse(texts[0]!)
      assert.strictEqual(document.issuer, base)
      assert.deepEqual(document.code_challenge_methods_supported, ["S256"])
      assert.deepEqual(document.token_endpoint_auth_methods_supported, ["none"])
      assert.include(document.scopes_supported, "offline_access")
      assert.isTrue(document.authorization_response_iss_parameter_supported)
      assert.isTrue(document.client_id_metadata_document_supported)
      assert.notProperty(document, "registration_endpoint")
      assert.strictEqual(document.revocation_endpoint, `${base}/revoke`)
    })
  )

  it.effect("elsewhere under /.well-known is a JSON 404", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      for (const path of ["oauth-authorization-server/other", "openid-configuration/mcp", "mcp.json", "jwks.json"]) {
        const answer = yield* get(`${url}/.well-known/${path}`)
        assert.deepEqual([answer.status, answer.code], [404, "not_found"])
      }
    })
  )

  it.effect("names an authorization server of its own where one is configured", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_BASE_URL: "https://api.test", SERVICE_AUTH_URL: "https://auth.test" })
      const resource = (yield* get(`${url}/.well-known/oauth-protected-resource/mcp`)).body
      const server = (yield* get(`${url}/.well-known/oauth-authorization-server`)).body
      assert.deepEqual(
        [resource.resource, resource.authorization_servers],
        ["https://api.test/mcp", ["https://auth.test"]]
      )
      assert.deepEqual([server.issuer, server.token_endpoint], ["https://auth.test", "https://auth.test/token"])
    }).pipe(Effect.scoped)
  )

  it.effect("names register and revoke only where they are enabled, and they are 404 elsewhere", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({
        SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on",
        SERVICE_OAUTH_REVOCATION: "off",
        SERVICE_OAUTH_CIMD: "off"
      })
      const { body } = yield* get(`${url}/.well-known/oauth-authorization-server`)
      assert.strictEqual(body.registration_endpoint, `${base}/register`)
      assert.notProperty(body, "revocation_endpoint")
      assert.isFalse(body.client_id_metadata_document_supported)
      assert.strictEqual((yield* post(`${url}/revoke`, { token: "x" })).status, 404)
      const service = yield* Service
      assert.strictEqual((yield* send(`${service.url}/register`, { body: {} })).status, 404)
    }).pipe(Effect.scoped)
  )
})

const Registering = Layer.effect(Service, instance({ SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })).pipe(
  Layer.provideMerge(Service.layer)
)

layer(Registering)("dynamic registration", (it) => {
  const register = Effect.fnUntraced(function* (body: unknown) {
    return yield* send(`${(yield* Service).url}/register`, { body })
  })

  it.effect("answers 201 with all that holds, and ignores what it does not know", () =>
    Effect.gen(function* () {
      const redirect_uris = [
        "http://127.0.0.1/",
        "http://127.0.0.1:33418/",
        "https://vscode.dev/redirect",
        "cursor://anysphere.cursor-mcp/oauth/callback"
      ]
      const answer = yield* register({
        client_name: "An editor",
        redirect_uris,
        application_type: "native",
        token_endpoint_auth_method: "none",
        resource: "https://x.test",
        logo_uri: "https://x.test/logo"
      })
      assert.strictEqual(answer.status, 201, answer.text)
      const { client_id, client_id_issued_at, scope, ...rest } = answer.body
      assert.match(client_id, /^sci_/)
      assert.isTrue(Number.isInteger(client_id_issued_at))
      assert.notInclude(scope, "mobile:devices")
      assert.deepEqual(rest, {
        client_name: "An editor",
        redirect_uris,
        application_type: "native",
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none"
      })
      assert.strictEqual(answer.headers.get("cache-control"), "no-store")
    })
  )

  it.effect("makes clients that sign in, without refresh tokens where they want none", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const redirect_uri = "http://localhost:3000/callback"
      const { body } = yield* register({ redirect_uris: [redirect_uri], grant_types: ["authorization_code"] })
      const { client_id } = body
      const { code, verifier } = yield* obtainCode(service, { client_id, redirect_uri })
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(tokens.status, 200, tokens.text)
      assert.notProperty(tokens.body, "refresh_token")
      const other = yield* signIn(service)
      const refused = yield* refresh(service, { client_id, refresh_token: other.refresh_token })
      assert.strictEqual(refused.body.error, "invalid_grant")
    })
  )

  it.effect("takes null for nothing", () =>
    Effect.gen(function* () {
      const nothing = Object.fromEntries(
        [
          "client_name",
          "application_type",
          "grant_types",
          "response_types",
          "token_endpoint_auth_method",
          "software_statement"
        ].map((name) => [name, null])
      )
      const { body, status } = yield* register({ redirect_uris: ["http://localhost/cb"], ...nothing })
      assert.strictEqual(status, 201)
      assert.deepEqual(
        [body.client_name, body.token_endpoint_auth_method, body.grant_types],
        ["Unnamed client", "none", ["authorization_code", "refresh_token"]]
      )
      assert.notProperty(body, "application_type")
    })
  )

  it.effect("keeps the usable redirect URIs of a mixed list", () =>
    Effect.gen(function* () {
      const { body } = yield* register({ redirect_uris: ["http://localhost/cb", "odd:thing", "http://example.com/cb"] })
      assert.deepEqual(body.redirect_uris, ["http://localhost/cb"])
    })
  )

  const token = Redacted.value(Tokens.format("spt", new Uint8Array(32)))
  const refused: ReadonlyArray<readonly [string, unknown, string]> = [
    ["no redirect URIs", {}, "invalid_redirect_uri"],
    ["an empty list", { redirect_uris: [] }, "invalid_redirect_uri"],
    ["plain http", { redirect_uris: ["http://example.com/cb"] }, "invalid_redirect_uri"],
    ["a script", { redirect_uris: ["https://a.test/cb", "javascript:alert(1)"] }, "invalid_redirect_uri"],
    [
      "a loopback of a web client",
      { redirect_uris: ["http://localhost/"], application_type: "web" },
      "invalid_redirect_uri"
    ],
    [
      "another application_type",
      { redirect_uris: ["https://a.test/"], application_type: "tv" },
      "invalid_client_metadata"
    ],
    [
      "a secret",
      { redirect_uris: ["https://a.test/"], token_endpoint_auth_method: "client_secret_basic" },
      "invalid_client_metadata"
    ],
    [
      "another grant",
      { redirect_uris: ["https://a.test/"], grant_types: ["client_credentials"] },
      "invalid_client_metadata"
    ],
    ["the implicit flow", { redirect_uris: ["https://a.test/"], response_types: ["token"] }, "invalid_client_metadata"],
    [
      "eleven redirect URIs",
      { redirect_uris: Array.from({ length: 11 }, (_, n) => `https://a.test/${n}`) },
      "invalid_client_metadata"
    ],
    ["a name that is no text", { redirect_uris: ["https://a.test/"], client_name: 5 }, "invalid_client_metadata"],
    [
      "a software statement",
      { redirect_uris: ["https://a.test/"], software_statement: "x" },
      "unapproved_software_statement"
    ],
    [
      "a token for a name",
      { redirect_uris: ["https://a.test/"], client_name: `with ${token}` },
      "invalid_client_metadata"
    ],
    ["a token in a redirect URI", { redirect_uris: [`https://a.test/${token}`] }, "invalid_client_metadata"],
    ["no object", "[]", "invalid_redirect_uri"],
    ["no JSON", "{", "invalid_client_metadata"]
  ]
  it.effect.each(refused)("refuses %s", ([, body, error]) =>
    Effect.gen(function* () {
      const answer = yield* register(body)
      assert.strictEqual(answer.status, 400)
      assert.strictEqual(answer.body.error, error)
      assert.deepEqual(Object.keys(answer.body), ["error", "error_description"])
    })
  )
})

layer(Service.layer)("revocation", (it) => {
  const revoke = Effect.fnUntraced(function* (fields: Readonly<Record<string, string | undefined>>) {
    return yield* post(`${(yield* Service).url}/revoke`, fields)
  })

  it.effect("of an access token ends it alone", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, client_id, refresh_token } = yield* signIn(service)
      for (let repeat = 0; repeat < 2; repeat++) {
        const answer = yield* revoke({ client_id, token: access_token })
        assert.deepEqual([answer.status, answer.text], [200, ""])
      }
      assert.isFalse(yield* opens(service, access_token))
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).status, 200)
    })
  )

  it.effect("of a refresh token ends the whole family", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, client_id, refresh_token } = yield* signIn(service)
      assert.strictEqual((yield* revoke({ client_id, token: refresh_token })).status, 200)
      assert.isFalse(yield* opens(service, access_token))
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).body.error, "invalid_grant")
    })
  )

  it.effect("of another client's token does nothing, and does not tell", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, refresh_token } = yield* signIn(service)
      const client_id = yield* makeClient(service)
      for (const token of [access_token, refresh_token, "sat_unknown", "nonsense"]) {
        const answer = yield* revoke({ client_id, token })
        assert.deepEqual([answer.status, answer.text], [200, ""])
      }
      assert.isTrue(yield* opens(service, access_token))
    })
  )

  it.effect("refuses what is none of its tokens, no token and no client", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const client_id = yield* makeClient(service)
      const { token } = yield* makeToken(service)
      assert.strictEqual((yield* revoke({ client_id, token })).body.error, "unsupported_token_type")
      assert.isTrue(yield* opens(service, token))
      assert.strictEqual((yield* revoke({ client_id })).body.error, "invalid_request")
      assert.strictEqual((yield* revoke({ token })).body.error, "invalid_request")
      const unknown = yield* revoke({ client_id: "nobody", token })
      assert.deepEqual([unknown.status, unknown.body.error], [401, "invalid_client"])
    })
  )
})

/** A metadata document server under a certificate of its own, and a resolver that says it is the named host. */
class Documents extends Context.Service<
  Documents,
  {
    answer: (path: string) => { status?: number; headers?: Record<string, string>; body: string }
    addresses: ReadonlyArray<string>
    asked: Array<string>
  }
>()("test/Documents") {}

const address = `https://${host}/client.json`
const document = (given: object = {}) =>
  JSON.stringify({ client_id: address, client_name: "Agent", redirect_uris: ["http://localhost/callback"], ...given })

const WithDocuments = Layer.unwrap(
  Effect.gen(function* () {
    const documents: Documents["Service"] = {
      answer: () => ({ body: document() }),
      addresses: ["127.0.0.1"],
      asked: []
    }
    const server = createServer({ key, cert }, (request, response) => {
      documents.asked.push(request.url ?? "")
      const { body, headers = {}, status = 200 } = documents.answer(request.url ?? "")
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
      // The test's own server counts as public; for all others the rule is the real one.
      isAllowed: (ip: string) => ip === "127.0.0.1" || isPublic(ip),
      port,
      ca: cert
    }
    return Layer.mergeAll(
      Layer.succeed(Documents, documents),
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
  /** A fresh address, so that nothing is cached. */
  const fresh = () => `https://${host}/${++serial}/client.json`
  const authorize = Effect.fnUntraced(function* (client_id: string) {
    return yield* new Browser((yield* Service).url).authorize(authorizeQuery({ client_id, redirect_uri }))
  })

  it.effect("signs in, and is shown with the host that vouches for it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const page = yield* authorize(address)
      assert.strictEqual(page.status, 200, page.text)
      assert.include(page.text, `Identified by ${host}`)
      assert.include(page.text, "just started this sign-in yourself")
      const { client_id, refresh_token } = yield* signIn(service, { client_id: address, redirect_uri })
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).status, 200)
    })
  )

  it.effect("is fetched once while its server lets it be kept", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }), headers: { "cache-control": "max-age=600" } })
      documents.asked = []
      yield* Effect.all([authorize(client_id), authorize(client_id), authorize(client_id)], { concurrency: 3 })
      assert.lengthOf(documents.asked, 1)
    })
  )

  it.effect("is taken at its choice of authentication", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      const token_endpoint_auth_methods_supported = ["none", "private_key_jwt"]
      const given = { client_id, token_endpoint_auth_method: "private_key_jwt", token_endpoint_auth_methods_supported }
      documents.answer = () => ({ body: document(given) })
      assert.strictEqual((yield* authorize(client_id)).status, 200)
    })
  )

  type Answered = ReturnType<Documents["Service"]["answer"]>
  const unusable: ReadonlyArray<readonly [string, (client_id: string) => Answered]> = [
    ["names another client_id", () => ({ body: document() })],
    ["has no name", (client_id) => ({ body: document({ client_id, client_name: "" }) })],
    ["carries a secret", (client_id) => ({ body: document({ client_id, client_secret: "x" }) })],
    [
      "wants a secret",
      (client_id) => ({ body: document({ client_id, token_endpoint_auth_method: "client_secret_post" }) })
    ],
    ["redirects", (client_id) => ({ status: 302, headers: { location: address }, body: document({ client_id }) })],
    ["is missing", () => ({ status: 404, body: "" })],
    ["is no JSON", () => ({ body: "{" })],
    [
      "is no JSON by type",
      (client_id) => ({ headers: { "content-type": "text/html" }, body: document({ client_id }) })
    ],
    ["is larger than 5 KB", (client_id) => ({ body: document({ client_id, padding: "x".repeat(6000) }) })]
  ]
  it.effect.each(unusable)("is unknown when its document %s", ([, answer]) =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => answer(client_id)
      assert.strictEqual((yield* authorize(client_id)).status, 400)
      documents.answer = () => ({ body: document({ client_id }) })
      assert.strictEqual((yield* authorize(client_id)).status, 200)
    })
  )

  it.effect("can be asked for again when its server fails", () =>
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

  it.effect("is never looked for inside: one address that is not public is enough", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      const client_id = fresh()
      documents.answer = () => ({ body: document({ client_id }) })
      documents.asked = []
      for (const addresses of [["127.0.0.1", "10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"], []]) {
        documents.addresses = addresses
        assert.strictEqual((yield* authorize(client_id)).status, 400)
      }
      documents.addresses = ["127.0.0.1"]
      assert.lengthOf(documents.asked, 0)
    })
  )

  it.effect("of a host that nobody named is not fetched", () =>
    Effect.gen(function* () {
      const documents = yield* Documents
      documents.asked = []
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
      assert.lengthOf(documents.asked, 0)
    })
  )

  it.effect("is kept out once it was disabled, whether anybody had met it or not", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const documents = yield* Documents
      const { disable, list } = Context.get(service.services, Clients)
      const [met, unmet] = [fresh(), fresh()]
      documents.answer = (path) => ({ body: document({ client_id: `https://${host}${path}` }) })

      assert.deepEqual((yield* disable(unmet)).grant_ids, [])
      documents.asked = []
      assert.strictEqual((yield* authorize(unmet)).status, 400)
      assert.lengthOf(documents.asked, 0)

      const { access_token, refresh_token } = yield* signIn(service, { client_id: met, redirect_uri })
      const { token } = yield* makeToken(service)
      const browser = new Browser(service.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id: met, redirect_uri }))
      const waiting = yield* browser.submit(page, { project_token: token })
      assert.lengthOf((yield* disable(met)).grant_ids, 1)
      assert.strictEqual((yield* browser.submit(waiting, { decision: "allow" })).status, 404)
      assert.strictEqual((yield* authorize(met)).status, 400)
      assert.isFalse(yield* opens(service, access_token))
      assert.strictEqual((yield* refresh(service, { client_id: met, refresh_token })).body.error, "invalid_client")
      const known = (yield* list).filter(({ client_id }) => client_id === met || client_id === unmet)
      assert.deepEqual(
        known.map(({ disabled_at, kind, live_grants }) => [kind, live_grants, disabled_at === null]),
        Array.from({ length: 2 }, () => ["document", 0, false])
      )
    })
  )

  it.effect("keeps its grants when its document is gone", () =>
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

describe("an address that strangers may name", () => {
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
  test.each(denied)("is not %s", (ip) => assert.isFalse(isPublic(ip)))
  test.each(["1.1.1.1", "8.8.8.8", "2606:4700::1111"])("may be %s", (ip) => assert.isTrue(isPublic(ip)))
  test.each([
    "https://0x7f000001/x",
    "https://2130706433/x",
    "https://127.1/x",
    "https://[::1]/x",
    "https://localhost/x",
    "https://localhost./x"
  ])("is written as a name, not as %s", (url) => assert.isFalse(isDocumentUrl(url)))
})

describe("redirect URIs", () => {
  const registered = ["http://127.0.0.1/callback?a=1", "http://localhost:8080/callback", "https://app.test/cb"]

  test("match as text, but for the port of a loopback URI that names none", () => {
    const port = FastCheck.integer({ min: 1, max: 65_535 })
    FastCheck.assert(FastCheck.property(port, (n) => matches(`http://127.0.0.1:${n}/callback?a=1`, registered)))
    FastCheck.assert(
      FastCheck.property(port, (n) => n === 8080 || !matches(`http://localhost:${n}/callback`, registered))
    )
    FastCheck.assert(FastCheck.property(port, (n) => !matches(`https://app.test:${n}/cb`, registered)))
    assert.isFalse(matches("http://127.0.0.1:0/callback?a=1", registered))
    assert.isFalse(matches("http://127.0.0.1:04711/callback?a=1", registered))
    assert.isFalse(matches("http://127.0.0.1:65536/callback?a=1", registered))
    assert.isFalse(matches("http://[::1]:80/callback?a=1", registered))
  })

  test("match no longer or shorter one at any port", () => {
    for (const uri of [
      "http://127.0.0.1:4711/callback?a=",
      "http://127.0.0.1:4711/callback",
      "http://127.0.0.1:4711"
    ]) {
      assert.isFalse(matches(uri, registered), uri)
      assert.isFalse(matches(`${uri}x`, registered), uri)
    }
  })

  test("match no mutation of a registered one", () => {
    const mutation = FastCheck.tuple(
      FastCheck.constantFrom(...registered, "http://127.0.0.1:4711/callback?a=1"),
      FastCheck.nat(),
      FastCheck.string({ minLength: 1, maxLength: 3 }),
      FastCheck.constantFrom("insert", "replace", "delete")
    )
    FastCheck.assert(
      FastCheck.property(mutation, ([uri, place, text, how]) => {
        const at = place % (uri.length + 1)
        const mutated =
          how === "insert"
            ? uri.slice(0, at) + text + uri.slice(at)
            : uri.slice(0, at) + (how === "replace" ? text : "") + uri.slice(at + 1)
        const samePlace = /^http:\/\/127\.0\.0\.1:[1-9]\d{0,4}\/callback\?a=1$/.test(mutated)
        assert.isTrue(registered.includes(mutated) || samePlace || !matches(mutated, registered), mutated)
      }),
      { numRuns: 5000 }
    )
  })

  test.each([
    "https://a.test/cb",
    "https://a.test",
    "http://127.0.0.1/",
    "http://[::1]:8080/cb",
    "http://localhost",
    "com.example.app:/cb",
    "cursor://x/cb"
  ])("may be %s", (uri) => assert.isTrue(isAcceptable(uri, undefined)))
  test.each([
    "http://example.com/cb",
    "http://127.0.0.2/",
    "http://localhost.evil.test/",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "myapp:/cb",
    "https://a.test/#x",
    "https://u@a.test/",
    "https:///x",
    "/cb",
    "",
    "https://a.test/ x",
    "https://a.test/?code=1",
    "https://a.test/?error_description=1",
    "http://127.0.0.1@evil.test/",
    "https://a.test\\@b.test/"
  ])("may not be %s", (uri) => assert.isFalse(isAcceptable(uri, undefined)))
  test("of web clients are https", () => {
    assert.isTrue(isAcceptable("https://a.test/cb", "web"))
    assert.isFalse(isAcceptable("http://localhost/cb", "web"))
    assert.isFalse(isAcceptable("com.example.app:/cb", "web"))
  })
})
