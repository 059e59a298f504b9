/** Metadata, dynamic registration and revocation (RFC 8414, 9728, 7591, 7009). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Access } from "../../../../src/signin/access/Access.ts"
import { credentialOf } from "../../../../src/platform/edge/BearerCredential.ts"
import * as Tokens from "../../../../src/platform/crypto/Tokens.ts"
import { exchange, makeClient, makeToken, obtainCode, post, refresh, signIn } from "../../../support/agents/Agent.ts"
import { send } from "../../../support/network/Http.ts"
import { instance, Service } from "../../../support/service/Service.ts"

const base = "http://127.0.0.1:8787"
const get = (url: string, headers = {}) => send(url, { method: "GET", headers })
const isAuthorized = ({ services }: Pick<Service["Service"], "services">, token: string) =>
  Effect.map(
    Effect.exit(Context.get(services, Access).authorize(credentialOf(`Bearer ${token}`))),
    (exit) => exit._tag === "Success"
  )

layer(Service.layer)("metadata", (it) => {
  it.effect("of the resource names exactly the configured address", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      for (const path of ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]) {
        const { body, headers, status } = yield* get(`${url}${path}`, { host: "evil.test" })
        assert.strictEqual(status, 200)
        assert.strictEqual(headers.get("access-control-allow-origin"), "*")
        assert.deepEqual(body, {
          resource: `${base}/mcp`,
          authorization_servers: [base],
          scopes_supported: [
            "context:read",
            "memory:read",
            "memory:write",
            "tasks:read",
            "tasks:write",
            "documents:read"
          ],
          bearer_methods_supported: ["header"],
          dpop_signing_alg_values_supported: ["EdDSA", "Ed25519", "ES256"],
          resource_documentation: `${base}/docs`
        })
      }
    })
  )

  it.effect("of the authorization server is the same at every well-known path that clients try", () =>
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
      assert.deepEqual(document.token_endpoint_auth_methods_supported, ["none", "private_key_jwt"])
      assert.deepEqual(document.token_endpoint_auth_signing_alg_values_supported, ["EdDSA", "Ed25519"])
      assert.deepEqual(document.dpop_signing_alg_values_supported, ["EdDSA", "Ed25519", "ES256"])
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

  it.effect("names the configured authorization server", () =>
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

  it.effect("lists /register and /revoke only if they are enabled; otherwise they answer 404", () =>
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

const WithRegistration = Layer.effect(Service, instance({ SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" })).pipe(
  Layer.provideMerge(Service.layer)
)

layer(WithRegistration)("dynamic registration", (it) => {
  const register = Effect.fnUntraced(function* (body: unknown) {
    return yield* send(`${(yield* Service).url}/register`, { body })
  })

  it.effect("answers 201 with the registered metadata, and ignores unknown members", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 hour")
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
      const sql = yield* SqlClient.SqlClient
      const [row] =
        yield* sql`select floor(extract(epoch from created_at))::int as at from oauth_client where client_id = ${client_id}`
      assert.strictEqual(client_id_issued_at, row!["at"])
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

  it.effect("registers clients that can sign in, without refresh tokens if they want none", () =>
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

  it.effect("treats null as omitted", () =>
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

  it.effect("shows a name without what hides text, of at most 64 characters, and none that is invisible", () =>
    Effect.gen(function* () {
      const names = {
        ["\u{1f600}".repeat(64)]: "\u{1f600}".repeat(64),
        ["\u{1f600}".repeat(65)]: `${"\u{1f600}".repeat(63)}…`,
        "An\ufe0f\u{e0100} ed\u3164itor ❤\ufe0f": "An editor ❤\ufe0f",
        "\u3164 \ufe0f\u0301": "Unnamed client"
      }
      for (const [client_name, shown] of Object.entries(names)) {
        const { body } = yield* register({ redirect_uris: ["http://localhost/cb"], client_name })
        assert.strictEqual(body.client_name, shown)
      }
    })
  )

  it.effect("keeps the usable redirect URIs of a mixed list", () =>
    Effect.gen(function* () {
      const { body } = yield* register({ redirect_uris: ["http://localhost/cb", "odd:thing", "http://example.com/cb"] })
      assert.deepEqual(body.redirect_uris, ["http://localhost/cb"])
    })
  )

  it.effect("registers ten redirect URIs", () =>
    Effect.gen(function* () {
      const redirect_uris = Array.from({ length: 10 }, (_, n) => `https://a.test/${n}`)
      assert.deepEqual((yield* register({ redirect_uris })).body.redirect_uris, redirect_uris)
    })
  )

  const token = Redacted.value(Tokens.format("spt", new Uint8Array(32)))
  const refused: ReadonlyArray<readonly [string, unknown, string]> = [
    ["no redirect URIs", {}, "invalid_redirect_uri"],
    ["an empty list", { redirect_uris: [] }, "invalid_redirect_uri"],
    ["plain http", { redirect_uris: ["http://example.com/cb"] }, "invalid_redirect_uri"],
    ["a script", { redirect_uris: ["https://a.test/cb", "javascript:alert(1)"] }, "invalid_redirect_uri"],
    [
      "a loopback URI of a web client",
      { redirect_uris: ["http://localhost/"], application_type: "web" },
      "invalid_redirect_uri"
    ],
    [
      "another application_type",
      { redirect_uris: ["https://a.test/"], application_type: "tv" },
      "invalid_client_metadata"
    ],
    [
      "authentication with a secret",
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
    ["a name that is not text", { redirect_uris: ["https://a.test/"], client_name: 5 }, "invalid_client_metadata"],
    [
      "a software statement",
      { redirect_uris: ["https://a.test/"], software_statement: "x" },
      "unapproved_software_statement"
    ],
    [
      "a token in the name",
      { redirect_uris: ["https://a.test/"], client_name: `with ${token}` },
      "invalid_client_metadata"
    ],
    ["a token in a redirect URI", { redirect_uris: [`https://a.test/${token}`] }, "invalid_client_metadata"],
    ["a body that is not an object", "[]", "invalid_redirect_uri"],
    ["a body that is not JSON", "{", "invalid_client_metadata"]
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

  it.effect("of an access token ends only that token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, client_id, refresh_token } = yield* signIn(service)
      for (let repeat = 0; repeat < 2; repeat++) {
        const answer = yield* revoke({ client_id, token: access_token })
        assert.deepEqual([answer.status, answer.text], [200, ""])
      }
      assert.isFalse(yield* isAuthorized(service, access_token))
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).status, 200)
    })
  )

  it.effect("of a refresh token ends the whole grant", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, client_id, refresh_token } = yield* signIn(service)
      assert.strictEqual((yield* revoke({ client_id, token: refresh_token })).status, 200)
      assert.isFalse(yield* isAuthorized(service, access_token))
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).body.error, "invalid_grant")
    })
  )

  it.effect("of another client's token succeeds without effect", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, refresh_token } = yield* signIn(service)
      const client_id = yield* makeClient(service)
      for (const token of [access_token, refresh_token, "sat_unknown", "nonsense"]) {
        const answer = yield* revoke({ client_id, token })
        assert.deepEqual([answer.status, answer.text], [200, ""])
      }
      assert.isTrue(yield* isAuthorized(service, access_token))
    })
  )

  it.effect("rejects other kinds of tokens, a missing token, and a missing or unknown client", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const client_id = yield* makeClient(service)
      const { token } = yield* makeToken(service)
      assert.strictEqual((yield* revoke({ client_id, token })).body.error, "unsupported_token_type")
      assert.isTrue(yield* isAuthorized(service, token))
      assert.strictEqual((yield* revoke({ client_id })).body.error, "invalid_request")
      assert.strictEqual((yield* revoke({ token })).body.error, "invalid_request")
      const unknown = yield* revoke({ client_id: "nobody", token })
      assert.deepEqual([unknown.status, unknown.body.error], [401, "invalid_client"])
    })
  )
})
