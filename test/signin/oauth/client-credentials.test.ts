/** Access tokens for Bridges by an assertion of their key (RFC 7523; decisions.md, Access of Bridges). */
import { PrivateKeyJwtProvider, Client as McpClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { importJWK, SignJWT } from "jose"
import * as oauth from "oauth4webapi"
import * as openid from "openid-client"
import { randomUUID } from "node:crypto"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { sweeps } from "../../../src/platform/proofs/Sweeps.ts"
import { post, reachable } from "../../support/agents/Agent.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { askToken, knock, knockProven, makeKey, tokenPath } from "../../support/agents/OAuthProofs.ts"
import { assertionOf, type Changes, claimsOf, clientOf, fieldsFor, issuer } from "../../support/bridges/Access.ts"
import { b64, Bridge } from "../../support/bridges/Bridge.ts"
import { jwkOf } from "../../support/bridges/signatures/DpopProofs.ts"
import { confirmKey, prepareKey } from "../../support/bridges/KeyRotations.ts"
import { fresh, withNewKey } from "../../support/bridges/Steps.ts"
import { holder, tokens } from "../../support/bridges/Tokens.ts"
import type { Answer } from "../../support/network/Http.ts"
import { unchanged } from "../../support/database/Rows.ts"
import { instance, Service } from "../../support/service/Service.ts"

const ask = (on: { readonly url: string }, bridge: Bridge, changes: Changes = {}) =>
  Effect.flatMap(assertionOf(bridge, changes), (assertion) => askToken(on, fieldsFor(assertion)))

const operate = <A, E>(work: (bridges: Bridges["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(Service, ({ services }) => work(Context.get(services, Bridges)))
const grant = ({ bridge_id, project_id }: Bridge, role: "reader" | "contributor" = "contributor") =>
  operate((bridges) => bridges.grantAccess(project_id, bridge_id, role))
const withdraw = ({ bridge_id, project_id }: Bridge) =>
  operate((bridges) => bridges.withdrawAccess(project_id, bridge_id))

/** A Bridge with a granted role, and an access token. */
const reaching = Effect.fnUntraced(function* (role: "reader" | "contributor" = "contributor") {
  const service = yield* Service
  const held = yield* holder()
  yield* grant(held.bridge, role)
  const answer = yield* ask(service, held.bridge)
  assert.strictEqual(answer.status, 200, answer.text)
  return { ...held, answer, access_token: answer.body.access_token as string }
})

const opens = (token: string) =>
  Effect.flatMap(Service, (service) =>
    Effect.map(knock(service, "/mcp", token, { scheme: "Bearer" }), ({ status }) => status === 200)
  )
/** Of the audit rows about the Bridge: the code of a refusal, or null. */
const outcomesOf = ({ bridge_id }: Bridge, action: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly code: string | null }>`
        select code from audit_event
         where action = ${action} and subject->>'bridge_id' = ${bridge_id}`,
      (rows) => rows.map(({ code }) => code)
    )
  )
const errorOf = ({ body, status }: Answer) => [status, body?.error]
const invalidClient = [401, "invalid_client"]

layer(Service.layer)("a Bridge", (it) => {
  it.effect("uses an assertion once, for as long as it is valid", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { bridge } = yield* reaching()
      const { iat } = yield* claimsOf(bridge)
      const assertion = yield* assertionOf(bridge, { claims: { exp: iat + 300 } })
      assert.strictEqual((yield* askToken(service, fieldsFor(assertion))).status, 200)
      yield* TestClock.adjust("4 minutes")
      yield* Effect.provideContext(sweepOnce(sweeps), service.services)
      assert.deepStrictEqual(errorOf(yield* askToken(service, fieldsFor(assertion))), invalidClient)
      assert.sameMembers(yield* outcomesOf(bridge, "bridge.access_token_issued"), [null, null, "invalid_client"])
    })
  )

  it.effect("with a granted role gets a token of ten minutes, and no refresh token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, answer, bridge } = yield* reaching("reader")
      assert.match(access_token, /^sba_/)
      assert.notProperty(answer.body, "refresh_token")
      assert.deepInclude(answer.body, {
        token_type: "Bearer",
        expires_in: 600,
        scope: "context:read memory:read tasks:read documents:read"
      })
      const agent = yield* Agent.connect({ url: service.url, token: access_token, project_id: bridge.project_id })
      assert.strictEqual((yield* agent.call("server_identity")).output.project.id, bridge.project_id)
      assert.include((yield* agent.write("memory_add", { body: "B" })).answer.text, "Unknown tool")
      yield* TestClock.adjust("599 seconds")
      assert.isTrue(yield* opens(access_token))
      yield* TestClock.adjust("1 second")
      assert.isFalse(yield* opens(access_token))
    })
  )

  it.effect("writes in its own name, which the audit log and provenance carry", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, bridge } = yield* reaching()
      const agent = yield* Agent.connect({ url: service.url, token: access_token, project_id: bridge.project_id })
      const { id, provenance } = yield* agent.note("otters swim")
      assert.strictEqual(provenance.actor, `bridge:${bridge.bridge_id}`)
      assert.strictEqual((yield* agent.call("memory_get", { id })).output.entry.body, "otters swim")
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly action: string; readonly actor: string }>`
        select action, split_part(actor, ':', 1) as actor
          from audit_event
         where subject->>'bridge_id' = ${bridge.bridge_id}
           and action like 'bridge.access%'
         order by at, event_id`
      assert.deepStrictEqual(
        rows.map(({ action, actor }) => [action, actor.split(":")[0]]),
        [
          ["bridge.access_granted", "operator"],
          ["bridge.access_token_issued", "bridge"]
        ]
      )
    })
  )

  it.effect("may ask for fewer scopes, and for no more than its role has", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { bridge } = yield* reaching("reader")
      const asked = (scope: string) =>
        Effect.flatMap(assertionOf(bridge), (assertion) => askToken(service, fieldsFor(assertion, { scope })))
      assert.strictEqual((yield* asked("memory:write")).body.scope, "memory:read")
      assert.strictEqual((yield* asked("tasks:read mobile:devices")).body.scope, "tasks:read")
      assert.deepStrictEqual(errorOf(yield* asked("mobile:devices")), [400, "invalid_scope"])
    })
  )

  it.effect("without a granted role is told to ask for one; that is recorded, and nobody else is told", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { bridge } = yield* holder()
      const refused = yield* ask(service, bridge)
      assert.deepStrictEqual(errorOf(refused), [400, "unauthorized_client"])
      assert.include(refused.body.error_description, "grant-bridge-access")
      const stranger = yield* ask(service, bridge, { keys: yield* generateKeyPair })
      const nobody = new Bridge({ ...bridge, bridge_id: "nobody" })
      assert.deepStrictEqual(errorOf(stranger), invalidClient)
      assert.strictEqual(stranger.text, (yield* ask(service, nobody)).text)
      assert.deepStrictEqual(yield* outcomesOf(bridge, "bridge.access_token_issued"), ["unauthorized_client"])
    })
  )

  it.effect("is shown with its role", () =>
    Effect.gen(function* () {
      const { bridge } = yield* reaching("reader")
      const shown = yield* operate(({ show }) => show(bridge.project_id, bridge.bridge_id))
      const [listed] = yield* operate(({ list }) => list(bridge.project_id, { after: undefined, limit: 9 }))
      assert.deepStrictEqual([shown.access_role, listed!.access_role], ["reader", "reader"])
      assert.isNotNull(shown.access_granted_at)
    })
  )

  it.effect("that is not enrolled gets no role", () =>
    Effect.gen(function* () {
      const { bridge } = yield* holder()
      yield* operate(({ revoke }) => revoke(bridge.project_id, bridge.bridge_id))
      assert.strictEqual((yield* Effect.flip(grant(bridge)))._tag, "bridge_not_active")
      const unknown = new Bridge({ ...bridge, bridge_id: "nobody" })
      assert.strictEqual((yield* Effect.flip(grant(unknown)))._tag, "bridge_not_found")
      assert.strictEqual((yield* Effect.flip(withdraw(unknown)))._tag, "bridge_not_found")
    })
  )

  const ends: Record<string, (of: Effect.Success<ReturnType<typeof reaching>>) => Effect.Effect<unknown, any, any>> = {
    "its access is withdrawn": Effect.fnUntraced(function* ({ bridge }) {
      for (const was_granted of [true, false]) {
        assert.deepStrictEqual(yield* withdraw(bridge), { was_granted })
        assert.deepStrictEqual(yield* outcomesOf(bridge, "bridge.access_withdrawn"), [null])
      }
    }),
    "its access is withdrawn and granted again": ({ bridge }) =>
      Effect.all([withdraw(bridge), TestClock.adjust("1 second"), grant(bridge)]),
    "its role is replaced": Effect.fnUntraced(function* ({ bridge }) {
      yield* grant(bridge, "reader")
      // Each role leaves its own row; the same role again leaves none.
      yield* grant(bridge, "reader")
      assert.deepStrictEqual(yield* outcomesOf(bridge, "bridge.access_granted"), [null, null])
    }),
    "its role is replaced and comes back": ({ bridge }) =>
      Effect.all([grant(bridge, "reader"), TestClock.adjust("1 second"), grant(bridge)]),
    "it is enrolled again with its key": Effect.fnUntraced(function* ({ bridge }) {
      const service = yield* Service
      yield* TestClock.adjust("1 second")
      const again = yield* fresh({
        project_id: bridge.project_id,
        bridge_id: bridge.bridge_id,
        keys: bridge.keys,
        reenroll: bridge.bridge_id
      })
      yield* holder(again, "again")
      // The grant was for this key, so the Bridge gets another token.
      assert.strictEqual((yield* ask(service, again)).status, 200)
    }),
    "it is revoked": ({ bridge }) => operate(({ revoke }) => revoke(bridge.project_id, bridge.bridge_id)),
    "its project is disabled": ({ bridge }) =>
      Effect.flatMap(Service, ({ services }) => Context.get(services, Projects).disable(bridge.project_id)),
    "it ends its own token": ({ revoke, token }) => revoke(token),
    "its key is replaced": Effect.fnUntraced(function* ({ bridge, token }) {
      const { url } = yield* Service
      const next = yield* generateKeyPair
      const { body } = yield* prepareKey({ url }, token, bridge.keys, next)
      assert.strictEqual((yield* confirmKey({ url }, token, bridge.keys, next, body)).status, 200)
      // The new key counts from now on, and the old one does not.
      assert.deepStrictEqual(errorOf(yield* ask({ url }, bridge)), invalidClient)
      assert.strictEqual((yield* ask({ url }, bridge, { keys: next })).status, 200)
    }),
    "it is enrolled again with another key": Effect.fnUntraced(function* ({ bridge }) {
      const service = yield* Service
      const again = yield* withNewKey(bridge, { reenroll: bridge.bridge_id })
      const proof = yield* again.prove(service, yield* again.askChallenge(service, { key: "again-1" }), {
        key: "again-2"
      })
      assert.strictEqual(proof.status, 200, proof.text)
      assert.deepStrictEqual(errorOf(yield* ask(service, bridge)), invalidClient)
      // The grant was for the old key.
      assert.deepStrictEqual(errorOf(yield* ask(service, again)), [400, "unauthorized_client"])
    })
  }
  for (const [name, end] of Object.entries(ends))
    it.effect(`has no access from the next request on when ${name}`, () =>
      Effect.gen(function* () {
        const made = yield* reaching()
        assert.isTrue(yield* opens(made.access_token))
        yield* end(made)
        assert.isFalse(yield* opens(made.access_token))
      })
    )

  it.effect("gets no token for a service at another address, or of another instance", () =>
    Effect.gen(function* () {
      const { access_token } = yield* reaching()
      const elsewhere = yield* instance({ SERVICE_BASE_URL: "http://127.0.0.1:8788" })
      const other = yield* instance({ SERVICE_INSTANCE_ID: "other" })
      for (const on of [elsewhere, other])
        assert.strictEqual((yield* knock(on, "/mcp", access_token, { scheme: "Bearer" })).status, 401)
    })
  )

  it.effect("may bind its token to a key of its own", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { bridge } = yield* reaching()
      const key = yield* makeKey()
      const proof = yield* key.proof({ path: tokenPath })
      const { body } = yield* askToken(service, fieldsFor(yield* assertionOf(bridge)), proof)
      assert.strictEqual(body.token_type, "DPoP")
      const again = yield* askToken(service, fieldsFor(yield* assertionOf(bridge)), proof)
      assert.deepStrictEqual(errorOf(again), [400, "invalid_dpop_proof"])
      assert.include(yield* outcomesOf(bridge, "bridge.access_token_issued"), "invalid_dpop_proof")
      assert.isFalse(yield* opens(body.access_token))
      assert.strictEqual((yield* knockProven(service, "/mcp", body.access_token, key)).status, 200)
    })
  )

  it.effect("opens nothing but /mcp: no phone endpoint, and no endpoint of Bridges", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, token } = yield* reaching()
      assert.strictEqual((yield* knock(service, "a phone's endpoint", access_token, { scheme: "Bearer" })).status, 401)
      assert.strictEqual((yield* tokens(service).self(access_token)).status, 401)
      assert.isFalse(yield* opens(token))
    })
  )
})

layer(Service.layer)("an assertion is refused", (it) => {
  const rows: Record<string, (bridge: Bridge) => Effect.Effect<string>> = {}
  const said = (name: string, claims: (now: number, bridge: Bridge) => Readonly<Record<string, unknown>>) => {
    rows[name] = (bridge) =>
      Effect.flatMap(claimsOf(bridge), ({ iat }) => assertionOf(bridge, { claims: claims(iat, bridge) }))
  }
  said("for another audience", () => ({ aud: "https://evil.test" }))
  said("for the resource", () => ({ aud: `${issuer}/mcp` }))
  said("for no audience", () => ({ aud: undefined }))
  said("for an empty list of audiences", () => ({ aud: [] }))
  said("for another audience beside this one", () => ({ aud: [issuer, "https://evil.test"] }))
  said("with an end more than 300 seconds ahead", (now) => ({ exp: now + 302 }))
  said("at its end", (now) => ({ exp: now }))
  said("without an end", () => ({ exp: undefined }))
  said("with an end that is text", (now) => ({ exp: String(now + 60) }))
  said("with an end that is no number", () => ({ exp: null }))
  said("that begins later", (now) => ({ nbf: now + 122 }))
  said("made later", (now) => ({ iat: now + 122 }))
  said("without an id", () => ({ jti: undefined }))
  said("with an empty id", () => ({ jti: "" }))
  said("with another issuer", () => ({ iss: "bridge:other" }))
  said("of no client", () => ({ iss: undefined, sub: undefined }))
  said("of a client that is no Bridge", () => ({ iss: "sci_x", sub: "sci_x" }))
  said("of another project", (_, bridge) => {
    const sub = clientOf(new Bridge({ ...bridge, project_id: randomUUID() }))
    return { iss: sub, sub }
  })
  const headed = (name: string, header: Readonly<Record<string, unknown>>) => {
    rows[name] = (bridge) => assertionOf(bridge, { header })
  }
  headed("with alg none", { alg: "none" })
  headed("with alg HS256", { alg: "HS256" })
  headed("with alg ES256", { alg: "ES256" })
  headed("that is a proof", { typ: "dpop+jwt" })
  headed("with a critical parameter", { crit: ["b64"], b64: true })
  headed("without its key", { jwk: undefined })
  rows["with its private key"] = (bridge) =>
    assertionOf(bridge, { header: { jwk: { ...jwkOf(bridge.keys), d: b64(Redacted.value(bridge.keys.privateKey)) } } })
  rows["by another key"] = (bridge) => Effect.flatMap(generateKeyPair, (keys) => assertionOf(bridge, { keys }))
  rows["that names the key and is signed by another"] = (bridge) =>
    Effect.flatMap(generateKeyPair, (keys) => assertionOf(bridge, { keys, header: { jwk: jwkOf(bridge.keys) } }))
  rows["that is not one"] = () => Effect.succeed("a.b.c")

  for (const [name, make] of Object.entries(rows))
    it.effect(name, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { bridge } = yield* holder()
        yield* grant(bridge)
        const assertion = yield* make(bridge)
        const answer = yield* unchanged(askToken(service, fieldsFor(assertion)))
        assert.deepStrictEqual(errorOf(answer), invalidClient)
        assert.strictEqual((yield* ask(service, bridge)).status, 200)
      })
    )

  it.effect("beside another client_id, with a secret, or for another grant", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { bridge } = yield* holder()
      yield* grant(bridge)
      for (const more of [
        { client_id: "sci_other" },
        { client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:saml2-bearer" },
        { client_assertion_type: undefined },
        { client_assertion: undefined },
        { grant_type: "refresh_token", refresh_token: "srt_x", client_id: clientOf(bridge) }
      ])
        assert.deepStrictEqual(
          errorOf(yield* askToken(service, { ...fieldsFor(yield* assertionOf(bridge)), ...more })),
          invalidClient
        )
      assert.deepStrictEqual(
        errorOf(yield* askToken(service, fieldsFor(yield* assertionOf(bridge), { resource: "https://evil.test" }))),
        [400, "invalid_target"]
      )
      const named = fieldsFor(yield* assertionOf(bridge), { client_id: clientOf(bridge), resource: `${issuer}/mcp` })
      const withPassword = yield* post(`${service.url}${tokenPath}`, named, { authorization: "Basic eDp5" })
      assert.deepStrictEqual(errorOf(withPassword), invalidClient)
      assert.match(withPassword.headers.get("www-authenticate")!, /^Basic /)
      assert.strictEqual((yield* askToken(service, named)).status, 200)
    })
  )

  it.effect("a second time: fifty callers at two replicas, and one of them wins", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      const { bridge } = yield* holder()
      yield* grant(bridge)
      const race = (askWith: (on: { readonly url: string }, n: number) => Effect.Effect<Answer>) =>
        Effect.forEach(
          Array.from({ length: 50 }, (_, n) => n),
          (n) => askWith(n % 2 === 0 ? service : replica, n),
          { concurrency: 50 }
        )
      const assertion = yield* assertionOf(bridge, { claims: { aud: [issuer, `${issuer}/token`] } })
      const first = yield* race((on) => askToken(on, fieldsFor(assertion)))
      assert.strictEqual(first.filter(({ status }) => status === 200).length, 1)
      assert.strictEqual(first.filter(({ body }) => body.error === "invalid_client").length, 49)
      // One proof for fifty assertions: one token.
      const key = yield* makeKey()
      const proof = yield* key.proof({ path: tokenPath })
      const assertions = yield* Effect.all(Array.from({ length: 50 }, () => assertionOf(bridge)))
      const second = yield* race((on, n) => askToken(on, fieldsFor(assertions[n]!), proof))
      assert.strictEqual(second.filter(({ status }) => status === 200).length, 1)
      assert.strictEqual(second.filter(({ body }) => body.error === "invalid_dpop_proof").length, 49)
      yield* TestClock.adjust("59 seconds")
      assert.deepStrictEqual(errorOf(yield* askToken(replica, fieldsFor(assertion))), invalidClient)
    })
  )
})

layer(Service.layer)("limits of Bridges", (it) => {
  it.effect("sixty tokens at once, then six a minute; neither a stranger with the name nor a copy uses them up", () =>
    Effect.gen(function* () {
      const limiting = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { bridge } = yield* holder()
      yield* grant(bridge)
      const stranger = yield* generateKeyPair
      const used = fieldsFor(yield* assertionOf(bridge))
      const first = yield* askToken(limiting, used)
      const others = Effect.all([ask(limiting, bridge, { keys: stranger }), askToken(limiting, used)])
      const answers = yield* Effect.forEach(
        Array.from({ length: 60 }, (_, n) => n),
        (n) => Effect.andThen(n % 4 === 0 ? others : Effect.void, ask(limiting, bridge))
      )
      assert.deepStrictEqual(
        [first, ...answers].map(({ status }) => status),
        [...Array.from({ length: 60 }, () => 200), 429]
      )
      const { bridge: neighbour } = yield* holder(yield* fresh({ project_id: bridge.project_id }))
      yield* grant(neighbour)
      assert.strictEqual((yield* ask(limiting, neighbour)).status, 200)
    })
  )
})

layer(Service.layer, { excludeTestServices: true, timeout: 60_000 })("with the key of its Bridge,", (it) => {
  const reachableBridge = Effect.gen(function* () {
    const service = yield* reachable()
    const bridge = yield* Bridge.make(service)
    const proof = yield* bridge.prove(service, yield* bridge.askChallenge(service))
    assert.strictEqual(proof.status, 200, proof.text)
    yield* Context.get(service.services, Bridges).grantAccess(bridge.project_id, bridge.bridge_id, "contributor")
    const jwk = { ...jwkOf(bridge.keys), d: b64(Redacted.value(bridge.keys.privateKey)) }
    return { service, bridge, jwk, client_id: clientOf(bridge) }
  })
  const privateKey = (jwk: object) =>
    Effect.promise(() => crypto.subtle.importKey("jwk", jwk as JsonWebKey, { name: "Ed25519" }, false, ["sign"]))

  it.effect("oauth4webapi gets a token and calls", () =>
    Effect.gen(function* () {
      const { bridge, client_id, jwk, service } = yield* reachableBridge
      const issuer = new URL(service.url)
      const http = { [oauth.allowInsecureRequests]: true }
      const key = yield* privateKey(jwk)
      const auth = oauth.PrivateKeyJwt(key, {
        [oauth.modifyAssertion]: (header) => {
          header["jwk"] = jwkOf(bridge.keys)
        }
      })
      const granted = yield* Effect.promise(async () => {
        const server = await oauth.processDiscoveryResponse(
          issuer,
          await oauth.discoveryRequest(issuer, { ...http, algorithm: "oauth2" })
        )
        assert.include(server.token_endpoint_auth_methods_supported!, "private_key_jwt")
        assert.include(server.token_endpoint_auth_signing_alg_values_supported as ReadonlyArray<string>, "EdDSA")
        assert.include(server.grant_types_supported!, "client_credentials")
        return oauth.processClientCredentialsResponse(
          server,
          { client_id },
          await oauth.clientCredentialsGrantRequest(
            server,
            { client_id },
            auth,
            { resource: `${service.url}/mcp` },
            http
          )
        )
      })
      assert.strictEqual(granted.expires_in, 600)
      assert.strictEqual((yield* knock(service, "/mcp", granted.access_token, { scheme: "Bearer" })).status, 200)
    })
  )

  it.effect("openid-client gets a token that is bound to a key of its own", () =>
    Effect.gen(function* () {
      const { bridge, client_id, jwk, service } = yield* reachableBridge
      const key = yield* privateKey(jwk)
      const config = yield* Effect.promise(() =>
        openid.discovery(
          new URL(service.url),
          client_id,
          undefined,
          openid.PrivateKeyJwt(key, {
            [openid.modifyAssertion]: (header) => {
              header["jwk"] = jwkOf(bridge.keys)
            }
          }),
          { execute: [openid.allowInsecureRequests], algorithm: "oauth2" }
        )
      )
      const DPoP = openid.getDPoPHandle(config, yield* Effect.promise(() => openid.randomDPoPKeyPair("Ed25519")))
      const granted = yield* Effect.promise(() =>
        openid.clientCredentialsGrant(config, { scope: "tasks:read" }, { DPoP })
      )
      assert.deepStrictEqual([granted.token_type, granted.scope], ["dpop", "tasks:read"])
    })
  )

  it.effect("the MCP SDK gets a token by its own provider, and calls a tool", () =>
    Effect.gen(function* () {
      const { bridge, client_id, jwk, service } = yield* reachableBridge
      const authProvider = new PrivateKeyJwtProvider({
        clientId: client_id,
        privateKey: jwk,
        algorithm: "EdDSA",
        jwtLifetimeSeconds: 60,
        expectedIssuer: service.url,
        claims: { cnf: { jwk: jwkOf(bridge.keys) } }
      })
      const text = yield* Effect.promise(async () => {
        const client = new McpClient({ name: "test", version: "1" })
        await client.connect(new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`), { authProvider }))
        const { content } = await client.callTool({ name: "server_identity" })
        await client.close()
        return (content[0] as { readonly text: string }).text
      })
      assert.include(text, bridge.project_id)
    })
  )

  it.effect("jose makes an assertion with alg Ed25519", () =>
    Effect.gen(function* () {
      const { bridge, client_id, jwk, service } = yield* reachableBridge
      const assertion = yield* Effect.promise(async () =>
        new SignJWT({})
          .setProtectedHeader({ alg: "Ed25519", jwk: jwkOf(bridge.keys) })
          .setIssuer(client_id)
          .setSubject(client_id)
          .setAudience(`${service.url}/token`)
          .setExpirationTime("1 minute")
          .setJti(randomUUID())
          .sign(await importJWK(jwk, "Ed25519"))
      )
      assert.strictEqual((yield* askToken(service, fieldsFor(assertion))).status, 200)
    })
  )
})
