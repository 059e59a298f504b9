/** Tokens that are bound to a key of the client (RFC 9449; decisions.md, Tokens bound to a key). */
import {
  auth,
  Client,
  DpopSession,
  type OAuthClientProvider,
  type OAuthTokens,
  StreamableHTTPClientTransport
} from "@modelcontextprotocol/client"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as oauth from "oauth4webapi"
import * as openid from "openid-client"
import { Browser, callback, makeClient, makeToken, reachable } from "../../support/agents/Agent.ts"
import {
  askToken,
  bearerSignIn,
  boundSignIn,
  codeFor,
  type Door,
  doors,
  type Key,
  knock,
  knockProven,
  makeKey,
  tokenPath
} from "../../support/agents/OAuthProofs.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { verifications } from "../../support/attacks/Verifications.ts"
import { unchanged } from "../../support/database/Rows.ts"
import { instance, Service } from "../../support/service/Service.ts"

const refreshing = ({ client_id, refresh_token }: { readonly client_id: string; readonly refresh_token: string }) => ({
  grant_type: "refresh_token",
  client_id,
  refresh_token
})

const refreshProven = (on: { readonly url: string }, fields: Parameters<typeof refreshing>[0], key: Key) =>
  Effect.flatMap(key.proof({ path: tokenPath }), (proof) => askToken(on, refreshing(fields), proof))

const challengeOf = ({ headers }: Answer) => headers.get("www-authenticate") ?? ""

layer(Service.layer)("a token that is bound to a key", (it) => {
  for (const alg of ["EdDSA", "Ed25519", "ES256"] as const)
    it.effect(`opens every endpoint with a proof of jose with ${alg}, at any replica`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const replica = yield* instance()
        const key = yield* makeKey(alg)
        const { access_token, body } = yield* boundSignIn(service, key)
        assert.strictEqual(body.token_type, "DPoP")
        for (const door of Object.keys(doors) as ReadonlyArray<Door>)
          for (const on of [service, replica]) {
            const answer = yield* knockProven(on, door, access_token, key)
            assert.strictEqual(answer.status, doors[door].accepted, answer.text)
          }
      })
    )

  it.effect("is refreshed with a proof of its key; the next token is of the same key", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const key = yield* makeKey()
      const signedIn = yield* boundSignIn(service, key)
      const { body, status } = yield* refreshProven(service, signedIn, key)
      assert.deepStrictEqual([status, body.token_type], [200, "DPoP"])
      assert.strictEqual((yield* knockProven(service, "/mcp", body.access_token, key)).status, 200)
      assert.strictEqual((yield* knock(service, "/mcp", body.access_token, { scheme: "Bearer" })).status, 401)
    })
  )

  it.effect("converges: retries of a refresh with new proofs get one successor, at two replicas at once", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      const key = yield* makeKey()
      const signedIn = yield* boundSignIn(service, key)
      const answers = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? service : replica)),
        (on) => refreshProven(on, signedIn, key),
        { concurrency: 20 }
      )
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [200])
      assert.strictEqual(new Set(answers.map(({ body }) => body.refresh_token)).size, 1)
      assert.strictEqual(new Set(answers.map(({ body }) => body.access_token)).size, 20)
    })
  )

  it.effect("ends with its grant when its refresh token is used twice with the key, and not without", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const key = yield* makeKey()
      const first = yield* boundSignIn(service, key)
      const second = (yield* refreshProven(service, first, key)).body
      yield* TestClock.adjust("11 seconds")
      const thief = yield* makeKey()
      yield* unchanged(
        Effect.gen(function* () {
          assert.strictEqual((yield* askToken(service, refreshing(first))).body.error, "invalid_grant")
          assert.strictEqual((yield* refreshProven(service, first, thief)).body.error, "invalid_grant")
        })
      )
      assert.strictEqual((yield* knockProven(service, "/mcp", second.access_token, key)).status, 200)
      assert.strictEqual((yield* refreshProven(service, first, key)).body.error, "invalid_grant")
      assert.strictEqual((yield* knockProven(service, "/mcp", second.access_token, key)).status, 401)
    })
  )

  it.effect("ends when its client revokes it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const key = yield* makeKey()
      const one = yield* boundSignIn(service, key)
      const { client_id, refresh_token } = one
      const body = new URLSearchParams({ client_id, token: refresh_token }).toString()
      const headers = { "content-type": "application/x-www-form-urlencoded" }
      assert.strictEqual((yield* send(`${service.url}/revoke`, { headers, body })).status, 200)
      const refused = yield* knockProven(service, "/mcp", one.access_token, key)
      assert.strictEqual(refused.status, 401)
      assert.match(challengeOf(refused), /^DPoP error="invalid_token", .*algs="EdDSA Ed25519 ES256"/)
      assert.strictEqual((yield* refreshProven(service, one, key)).body.error, "invalid_grant")
    })
  )

  it.effect("lacks a scope: the challenge names the scheme", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const key = yield* makeKey()
      const code = yield* codeFor(service, { scope: "memory:read" })
      const { body } = yield* askToken(service, code, yield* key.proof({ path: tokenPath }))
      const answer = yield* knockProven(service, "a phone's endpoint", body.access_token, key)
      assert.strictEqual(answer.status, 403)
      assert.match(challengeOf(answer), /^DPoP error="insufficient_scope"/)
    })
  )

  it.effect("a bearer token needs no proof, works under its scheme only, and ignores a proof", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const key = yield* makeKey()
      const { access_token, token_type } = yield* bearerSignIn(service)
      assert.strictEqual(token_type, "Bearer")
      const proof = yield* key.proof({ path: "/mcp", token: access_token })
      assert.strictEqual((yield* knock(service, "/mcp", access_token, { scheme: "Bearer" })).status, 200)
      assert.strictEqual((yield* knock(service, "/mcp", access_token, { scheme: "Bearer", proof: "x" })).status, 200)
      const refused = yield* knock(service, "/mcp", access_token, { proof })
      assert.strictEqual(refused.status, 401)
      assert.match(challengeOf(refused), /^DPoP error="invalid_token"/)
    })
  )

  it.effect(
    "of a client that begins to prove a key: the next tokens are bound, and who refreshed without is found",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const [key, other] = [yield* makeKey(), yield* makeKey()]
        const before = yield* bearerSignIn(service)
        const bound = (yield* refreshProven(service, before, key)).body
        assert.strictEqual(bound.token_type, "DPoP")
        assert.strictEqual((yield* refreshProven(service, before, key)).body.refresh_token, bound.refresh_token)
        const next = { client_id: before.client_id, refresh_token: bound.refresh_token as string }
        assert.strictEqual((yield* askToken(service, refreshing(next))).body.error, "invalid_grant")
        // Two parties have the token that was bound to nothing: the grant ends, although the time for retries is not over.
        assert.strictEqual((yield* refreshProven(service, before, other)).body.error, "invalid_grant")
        assert.strictEqual((yield* knockProven(service, "/mcp", bound.access_token, key)).status, 401)
      })
  )
})

layer(Service.layer)("a code that is for a key", (it) => {
  it.effect("is exchanged with a proof of that key only; nothing else consumes it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const [key, other] = [yield* makeKey("Ed25519"), yield* makeKey()]
      const code = yield* codeFor(service, { dpop_jkt: key.jkt })
      yield* unchanged(
        Effect.gen(function* () {
          assert.strictEqual((yield* askToken(service, code)).body.error, "invalid_grant")
          const stolen = yield* other.proof({ path: tokenPath })
          assert.strictEqual((yield* askToken(service, code, stolen)).body.error, "invalid_grant")
        })
      )
      const { status, text } = yield* askToken(service, code, yield* key.proof({ path: tokenPath }))
      assert.strictEqual(status, 200, text)
    })
  )

  it.effect("names the key by 32 bytes in base64url", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const client_id = yield* makeClient(service)
      for (const dpop_jkt of ["x", "A".repeat(42), "A".repeat(44), `${"A".repeat(42)}B`, `${"A".repeat(42)}=`]) {
        const query = new URLSearchParams({
          response_type: "code",
          client_id,
          redirect_uri: callback,
          code_challenge: "c".repeat(43),
          code_challenge_method: "S256",
          dpop_jkt
        })
        const page = yield* new Browser(service.url).get(`/authorize?${query}`)
        assert.include(decodeURIComponent(page.headers.get("location") ?? page.text), "invalid_request", dpop_jkt)
      }
    })
  )
})

layer(Service.layer)("the proof at /token is refused", (it) => {
  const rows: Record<string, (key: Key) => Effect.Effect<string>> = {
    "with alg none": (key) =>
      Effect.map(key.proof({ path: tokenPath }), (proof) => {
        const [, claims, signature] = proof.split(".")
        const header = Buffer.from(JSON.stringify({ typ: "dpop+jwt", alg: "none", jwk: key.jwk })).toString("base64url")
        return `${header}.${claims}.${signature}`
      }),
    "of another type": (key) => key.proof({ path: tokenPath, header: { typ: "JWT" } }),
    "with a key of another kind than its alg": (key) =>
      Effect.flatMap(makeKey("EdDSA"), ({ jwk }) => key.proof({ path: tokenPath, header: { jwk } })),
    "with a key that is not on the curve": (key) =>
      key.proof({ path: tokenPath, header: { jwk: { ...key.jwk, y: key.jwk.x } } }),
    "with a coordinate that is too short": (key) =>
      key.proof({ path: tokenPath, header: { jwk: { ...key.jwk, y: "AA" } } }),
    "with another curve": (key) => key.proof({ path: tokenPath, header: { jwk: { ...key.jwk, crv: "secp256k1" } } }),
    "with its private key": (key) => key.proof({ path: tokenPath, header: { jwk: { ...key.jwk, d: "AA" } } }),
    "without a key": (key) => key.proof({ path: tokenPath, header: { jwk: undefined } }),
    "signed by another key": (key) =>
      Effect.flatMap(makeKey(), (other) => other.proof({ path: tokenPath, header: { jwk: key.jwk } })),
    "for another path": (key) => key.proof({ path: "/mcp" }),
    "for another service": (key) => key.proof({ path: tokenPath, claims: { htu: "https://evil.test/token" } }),
    "for another method": (key) => key.proof({ path: tokenPath, method: "GET" }),
    "that is too old": (key) => key.proof({ path: tokenPath, claims: { iat: -121 } }),
    "that is too early": (key) => key.proof({ path: tokenPath, claims: { iat: 121 } }),
    "without an id": (key) => key.proof({ path: tokenPath, claims: { jti: undefined } }),
    "in two headers": (key) => Effect.map(key.proof({ path: tokenPath }), (proof) => `${proof}, ${proof}`),
    "that is empty": () => Effect.succeed(" ")
  }
  for (const [name, make] of Object.entries(rows))
    it.effect(name, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const key = yield* makeKey()
        const { body, status } = yield* askToken(service, yield* codeFor(service), yield* make(key))
        assert.deepStrictEqual([status, body.error], [400, "invalid_dpop_proof"], JSON.stringify(body))
      })
    )

  it.effect("a second time: one code, one proof and fifty callers at two replicas, and one of them wins", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      const at = (n: number) => (n % 2 === 0 ? service : replica)
      const key = yield* makeKey("EdDSA")
      const code = yield* codeFor(service)
      const proof = yield* key.proof({ path: tokenPath })
      const callers = Array.from({ length: 50 }, (_, n) => n)
      const first = yield* Effect.forEach(callers, (n) => askToken(at(n), code, proof), { concurrency: 50 })
      const [won] = first.filter(({ status }) => status === 200)
      const errors = (answers: ReadonlyArray<Answer>) =>
        answers.filter(({ status }) => status !== 200).map(({ body }) => body.error)
      assert.deepStrictEqual(
        errors(first),
        Array.from({ length: 49 }, () => "invalid_dpop_proof")
      )
      // Nor did the others end the grant.
      const refreshed = refreshing({ client_id: code.client_id, refresh_token: won!.body.refresh_token })
      const again = yield* key.proof({ path: tokenPath })
      const second = yield* Effect.forEach(callers, (n) => askToken(at(n), refreshed, again), { concurrency: 50 })
      assert.deepStrictEqual(
        errors(second),
        Array.from({ length: 49 }, () => "invalid_dpop_proof")
      )
      // One proof opens one code, although each of them is good.
      const codes = yield* Effect.all([codeFor(service), codeFor(service)])
      const shared = yield* key.proof({ path: tokenPath })
      const third = yield* Effect.forEach(codes, (fields, n) => askToken(at(n), fields, shared), { concurrency: 2 })
      assert.deepStrictEqual(errors(third), ["invalid_dpop_proof"])
    })
  )
})

layer(Service.layer)("a thief with every token and proof of a bound client, and without its key,", (it) => {
  /** What the thief sends as a proof for a request. */
  const forgeries: Record<
    string,
    (
      of: Key,
      about: { readonly path: string; readonly method?: string; readonly token?: string }
    ) => Effect.Effect<string | undefined>
  > = {
    "without a proof": () => Effect.succeed(undefined),
    "with a proof of another key": (_, about) => Effect.flatMap(makeKey(), (key) => key.proof(about)),
    "with a proof that names the key": ({ jwk }, about) =>
      Effect.flatMap(makeKey(), (key) => key.proof({ ...about, header: { jwk } })),
    "with a proof for another path": ({ proof }, about) => proof({ ...about, path: "/bridge/v1/mobile/web-push-key" }),
    "with a proof for another method": ({ proof }, about) => proof({ ...about, method: "PUT" }),
    "with a proof that is too old": ({ proof }, about) => proof({ ...about, claims: { iat: -121 } }),
    "with a proof that is too early": ({ proof }, about) => proof({ ...about, claims: { iat: 121 } })
  }

  for (const [name, forge] of Object.entries(forgeries))
    it.effect(`${name} gets nothing at any endpoint, and changes nothing`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const replica = yield* instance()
        const key = yield* makeKey()
        const victim = yield* boundSignIn(service, key)
        const unused = yield* codeFor(service, { dpop_jkt: key.jkt })
        yield* unchanged(
          Effect.gen(function* () {
            for (const on of [service, replica]) {
              for (const door of Object.keys(doors) as ReadonlyArray<Door>) {
                const proof = yield* forge(key, { ...doors[door], token: victim.access_token })
                for (const scheme of ["DPoP", "dpop", "Bearer"]) {
                  const answer = yield* knock(on, door, victim.access_token, { proof, scheme })
                  assert.strictEqual(answer.status, 401, `${door} ${scheme} ${answer.text}`)
                  const unknown = `${victim.access_token.slice(0, -1)}x`
                  // Nor does the answer tell a token of somebody from one of nobody.
                  const nobodys = yield* knock(on, door, unknown, {
                    scheme,
                    proof: yield* forge(key, { ...doors[door], token: unknown })
                  })
                  assert.strictEqual(challengeOf(nobodys), challengeOf(answer))
                  assert.strictEqual(nobodys.text, answer.text)
                }
              }
              const proof = yield* forge(key, { path: tokenPath })
              for (const fields of [refreshing(victim), unused]) {
                const answer = yield* askToken(on, fields, proof)
                assert.strictEqual(answer.status, 400)
                assert.include(["invalid_grant", "invalid_dpop_proof"], answer.body.error)
              }
            }
          })
        )
        assert.strictEqual((yield* knockProven(service, "/mcp", victim.access_token, key)).status, 200)
        assert.strictEqual((yield* refreshProven(replica, victim, key)).status, 200)
      })
    )

  it.effect("with a proof for another token, or the proof that the client has sent, gets nothing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      const key = yield* makeKey()
      const victim = yield* boundSignIn(service, key)
      for (const door of Object.keys(doors) as ReadonlyArray<Door>) {
        const other = yield* key.proof({ ...doors[door], token: "sat_another" })
        const without = yield* key.proof(doors[door])
        for (const proof of [other, without]) {
          const answer = yield* knock(service, door, victim.access_token, { proof })
          assert.match(challengeOf(answer), /^DPoP error="invalid_dpop_proof", error_description="[^"]*ath/)
        }
        const sent = yield* key.proof({ ...doors[door], token: victim.access_token })
        assert.strictEqual(
          (yield* knock(service, door, victim.access_token, { proof: sent })).status,
          doors[door].accepted
        )
        for (const on of [service, replica]) {
          const answer = yield* knock(on, door, victim.access_token, { proof: sent })
          assert.match(challengeOf(answer), /^DPoP error="invalid_dpop_proof", error_description="[^"]*used before/)
        }
      }
      yield* unchanged(
        Effect.gen(function* () {
          const { client_id, code, code_verifier } = victim
          const fields = { grant_type: "authorization_code", client_id, code, code_verifier }
          const replayed = yield* askToken(replica, fields, victim.proof)
          assert.strictEqual(replayed.body.error, "invalid_dpop_proof")
        })
      )
    })
  )

  it.effect("has fifty copies of one proof at two replicas: one call is let in", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      const key = yield* makeKey()
      const { access_token } = yield* boundSignIn(service, key)
      for (const door of Object.keys(doors) as ReadonlyArray<Door>) {
        const proof = yield* key.proof({ ...doors[door], token: access_token })
        const answers = yield* Effect.forEach(
          Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? service : replica)),
          (on) => knock(on, door, access_token, { proof }),
          { concurrency: 50 }
        )
        const statuses = answers.map(({ status }) => status)
        assert.strictEqual(statuses.filter((status) => status === doors[door].accepted).length, 1)
        assert.strictEqual(statuses.filter((status) => status === 401).length, 49)
      }
    })
  )
})

layer(Service.layer)("limits", (it) => {
  it.effect("a thief without the key does not use up what the holder of a token may", () =>
    Effect.gen(function* () {
      const limiting = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const key = yield* makeKey()
      const victim = yield* boundSignIn(limiting, key)
      const thief = yield* makeKey()
      const phone = "a phone's endpoint"
      const seen = yield* key.proof({ ...doors[phone], token: victim.access_token })
      assert.strictEqual(
        (yield* knock(limiting, phone, victim.access_token, { proof: seen })).status,
        doors[phone].accepted
      )
      const forgeries = [
        knock(limiting, phone, victim.access_token, { scheme: "Bearer" }),
        knock(limiting, phone, victim.access_token, { proof: seen }),
        knockProven(limiting, phone, victim.access_token, thief),
        Effect.flatMap(
          thief.proof({ ...doors[phone], token: victim.access_token, header: { jwk: key.jwk } }),
          (proof) => knock(limiting, phone, victim.access_token, { proof })
        ),
        askToken(limiting, refreshing(victim))
      ]
      const tries = Array.from({ length: 110 }, () => forgeries).flat()
      const refused = yield* Effect.all(tries, { concurrency: 20 })
      assert.isTrue(refused.every(({ status }) => [400, 401, 429].includes(status)))
      const answer = yield* knockProven(limiting, phone, victim.access_token, key)
      assert.strictEqual(answer.status, doors[phone].accepted, answer.text)
    })
  )

  it.effect("copies of a refresh and its proof do not use up what the client may refresh", () =>
    Effect.gen(function* () {
      const limiting = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const key = yield* makeKey()
      const victim = yield* boundSignIn(limiting, key)
      const proof = yield* key.proof({ path: tokenPath })
      const refreshed = yield* askToken(limiting, refreshing(victim), proof)
      assert.strictEqual(refreshed.status, 200, refreshed.text)
      const copies = yield* Effect.replicateEffect(askToken(limiting, refreshing(victim), proof), 70)
      assert.isTrue(copies.every(({ body }) => body.error === "invalid_dpop_proof"))
      const { client_id } = victim
      const next = yield* refreshProven(limiting, { client_id, refresh_token: refreshed.body.refresh_token }, key)
      assert.strictEqual(next.status, 200, next.text)
    })
  )

  for (const alg of ["EdDSA", "ES256"] as const)
    it.effect(
      `beyond the limit of their address, no signature of ${alg} is verified, except for a token issued here`,
      () =>
        Effect.gen(function* () {
          const limiting = yield* instance({ SERVICE_RATE_LIMITS: "on" })
          const key = yield* makeKey(alg)
          const holder = yield* boundSignIn(limiting, key)
          const client_id = yield* makeClient(limiting)
          let n = 0
          const mcp = Effect.suspend(() => knockProven(limiting, "/mcp", `sat_${(n += 1)}`, key))
          const token = Effect.suspend(() =>
            refreshProven(limiting, { client_id, refresh_token: `srt_${(n += 1)}` }, key)
          )
          yield* Effect.replicateEffect(mcp, 200, { concurrency: 8 })
          const verified = yield* verifications(Effect.replicateEffect(Effect.all([mcp, token]), 20))
          assert.isTrue(verified.result.flat().every(({ status }) => status === 429))
          assert.strictEqual(verified.count, 0)
          const copy = yield* knock(limiting, "/mcp", holder.access_token, { scheme: "Bearer" })
          const own = yield* knockProven(limiting, "/mcp", holder.access_token, key)
          assert.deepStrictEqual([copy.status, own.status], [429, doors["/mcp"].accepted])
        })
    )
})

layer(Service.layer, { excludeTestServices: true, timeout: 60_000 })("with a proof of its own key,", (it) => {
  const person = Effect.fnUntraced(function* (url: URL, token: string) {
    const answer = yield* new Browser(url.origin).consent(url.search.slice(1), token)
    return new URL(answer.headers.get("location")!)
  })

  it.effect("oauth4webapi signs in, calls and refreshes", () =>
    Effect.gen(function* () {
      const service = yield* reachable()
      const { token } = yield* makeToken(service)
      const client = { client_id: yield* makeClient(service) }
      const issuer = new URL(service.url)
      const http = { [oauth.allowInsecureRequests]: true }
      const server = yield* Effect.promise(async () =>
        oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { ...http, algorithm: "oauth2" }))
      )
      assert.deepStrictEqual(server.dpop_signing_alg_values_supported, ["EdDSA", "Ed25519", "ES256"])
      for (const alg of ["ES256", "Ed25519"]) {
        const keys = yield* Effect.promise(() => oauth.generateKeyPair(alg, { extractable: true }))
        const DPoP = oauth.DPoP({}, keys)
        const verifier = oauth.generateRandomCodeVerifier()
        const url = new URL(server.authorization_endpoint!)
        url.search = new URLSearchParams({
          client_id: client.client_id,
          redirect_uri: callback,
          response_type: "code",
          code_challenge: yield* Effect.promise(() => oauth.calculatePKCECodeChallenge(verifier)),
          code_challenge_method: "S256",
          dpop_jkt: yield* Effect.promise(() => DPoP.calculateThumbprint())
        }).toString()
        const params = oauth.validateAuthResponse(server, client, yield* person(url, token), oauth.expectNoState)
        const first = yield* Effect.promise(async () =>
          oauth.processAuthorizationCodeResponse(
            server,
            client,
            await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), params, callback, verifier, {
              ...http,
              DPoP
            })
          )
        )
        assert.strictEqual(first.token_type, "dpop")
        const second = yield* Effect.promise(async () =>
          oauth.processRefreshTokenResponse(
            server,
            client,
            await oauth.refreshTokenGrantRequest(server, client, oauth.None(), first.refresh_token!, { ...http, DPoP })
          )
        )
        const called = yield* Effect.promise(() =>
          oauth.protectedResourceRequest(
            second.access_token,
            "POST",
            new URL(`${service.url}/mcp`),
            new Headers({ "content-type": "application/json", accept: "application/json, text/event-stream" }),
            JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
            { ...http, DPoP }
          )
        )
        assert.strictEqual(called.status, 200)
        const other = oauth.DPoP({}, yield* Effect.promise(() => oauth.generateKeyPair(alg)))
        const refused = yield* Effect.flip(
          Effect.tryPromise({
            try: () =>
              oauth.protectedResourceRequest(
                second.access_token,
                "POST",
                new URL(`${service.url}/mcp`),
                undefined,
                undefined,
                { ...http, DPoP: other }
              ),
            catch: (error) => error as oauth.WWWAuthenticateChallengeError
          })
        )
        assert.strictEqual(refused.cause[0]?.scheme, "dpop")
        assert.strictEqual(refused.cause[0]?.parameters.error, "invalid_token")
      }
    })
  )

  it.effect("openid-client signs in, calls and refreshes", () =>
    Effect.gen(function* () {
      const service = yield* reachable()
      const { token } = yield* makeToken(service)
      const client_id = yield* makeClient(service)
      const config = yield* Effect.promise(() =>
        openid.discovery(new URL(service.url), client_id, undefined, openid.None(), {
          execute: [openid.allowInsecureRequests],
          algorithm: "oauth2"
        })
      )
      const DPoP = openid.getDPoPHandle(config, yield* Effect.promise(() => openid.randomDPoPKeyPair("ES256")))
      const pkceCodeVerifier = openid.randomPKCECodeVerifier()
      const url = openid.buildAuthorizationUrl(config, {
        redirect_uri: callback,
        code_challenge: yield* Effect.promise(() => openid.calculatePKCECodeChallenge(pkceCodeVerifier)),
        code_challenge_method: "S256",
        dpop_jkt: yield* Effect.promise(() => DPoP.calculateThumbprint())
      })
      const back = yield* person(url, token)
      const first = yield* Effect.promise(() =>
        openid.authorizationCodeGrant(config, back, { pkceCodeVerifier }, undefined, { DPoP })
      )
      const second = yield* Effect.promise(() =>
        openid.refreshTokenGrant(config, first.refresh_token!, undefined, { DPoP })
      )
      assert.strictEqual(second.token_type, "dpop")
      const called = yield* Effect.promise(() =>
        openid.fetchProtectedResource(
          config,
          second.access_token,
          new URL(`${service.url}/mcp`),
          "POST",
          JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
          new Headers({ "content-type": "application/json", accept: "application/json, text/event-stream" }),
          { DPoP }
        )
      )
      assert.strictEqual(called.status, 200)
    })
  )

  it.effect("the MCP SDK signs in, calls and refreshes", () =>
    Effect.gen(function* () {
      const service = yield* reachable()
      const { project_id, token } = yield* makeToken(service)
      const client_id = yield* makeClient(service)
      const session = yield* Effect.promise(() => DpopSession.create())
      const kept: { tokens?: OAuthTokens; verifier?: string; url?: URL } = {}
      const authProvider: OAuthClientProvider = {
        redirectUrl: callback,
        clientMetadata: { redirect_uris: [callback] },
        clientInformation: () => ({ client_id }),
        tokens: () => kept.tokens,
        saveTokens: (tokens) => void (kept.tokens = tokens),
        redirectToAuthorization: (url) => void (kept.url = url),
        saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
        codeVerifier: () => kept.verifier!,
        dpop: () => session
      }
      const serverUrl = `${service.url}/mcp`
      const authorize = (more: object = {}) => Effect.promise(() => auth(authProvider, { serverUrl, ...more }))
      assert.strictEqual(yield* authorize(), "REDIRECT")
      const { searchParams } = yield* person(kept.url!, token)
      const back = { authorizationCode: searchParams.get("code")!, iss: searchParams.get("iss")! }
      assert.strictEqual(yield* authorize(back), "AUTHORIZED")
      assert.strictEqual(kept.tokens?.token_type, "DPoP")
      const call = Effect.promise(async () => {
        const client = new Client({ name: "test", version: "1" })
        await client.connect(new StreamableHTTPClientTransport(new URL(serverUrl), { authProvider }))
        const { content } = await client.callTool({ name: "server_identity" })
        await client.close()
        return (content[0] as { readonly text: string }).text
      })
      assert.include(yield* call, project_id)
      const before = kept.tokens
      assert.strictEqual(yield* authorize(), "AUTHORIZED")
      assert.notStrictEqual(kept.tokens?.refresh_token, before?.refresh_token)
      assert.include(yield* call, project_id)
    })
  )
})
