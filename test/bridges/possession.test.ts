/** Proof of possession (RFC 9449): who has to send a proof, and what a proof has to say. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { EmbeddedJWK, importJWK, jwtVerify, SignJWT } from "jose"
import { spawnSync } from "node:child_process"
import { createHmac, hash, randomUUID } from "node:crypto"
import { sweeps } from "../../src/platform/proofs/Sweeps.ts"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { verifyWith } from "../../src/platform/proofs/DpopProof.ts"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import { dpopProof } from "../../src/client/Dpop.ts"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { Ed25519 } from "../../src/platform/crypto/Ed25519.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { b64, type Bridge } from "../support/bridges/Bridge.ts"
import { assertRefusal } from "../support/bridges/Codes.ts"
import {
  ask,
  askProven,
  claims,
  type Endpoint,
  headerOf,
  jwkOf,
  origin,
  proofFor,
  signed
} from "../support/bridges/signatures/DpopProofs.ts"
import type { Answer } from "../support/network/Http.ts"
import * as raw from "../support/network/Raw.ts"
import { callers, tally } from "../support/attacks/Race.ts"
import { blocks, read } from "../support/run/Markdown.ts"
import { firstPage } from "../support/database/Page.ts"
import { instance, Service } from "../support/service/Service.ts"
import { revokeIdentity, withNewCredential, withNewKey } from "../support/bridges/Steps.ts"
import { holder, rotating } from "../support/bridges/Tokens.ts"

const refused = "bridge_proof_of_possession_invalid"
const expect = (answer: Answer, outcome: number | string) => {
  assert.strictEqual(answer.code ?? answer.status, outcome, answer.text)
  if (outcome === refused) assertRefusal(answer)
}

/** An active Bridge that has shown a proof, and is held to it. */
const held = Effect.gen(function* () {
  const service = yield* Service
  const on = { ...(yield* holder()), url: service.url }
  expect(yield* askProven(on, "self", on.token, on.bridge.keys), 200)
  return on
})

const lift = ({ bridge_id, project_id }: Bridge) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Bridges).liftDpop(project_id, bridge_id))
const shown = ({ bridge_id, project_id }: Bridge) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Bridges).show(project_id, bridge_id))
const auditOf = ({ bridge_id, project_id }: Bridge, action: string) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Audit).list(project_id, firstPage)).pipe(
    Effect.map((events) =>
      events.filter((event) => event.action === action && event.subject["bridge_id"] === bridge_id)
    )
  )

layer(Service.layer)("who has to prove the key", (it) => {
  it.effect("a Bridge that never sends a proof works without one", () =>
    Effect.gen(function* () {
      const on = { ...(yield* rotating()), url: (yield* Service).url }
      expect(yield* ask(on, "confirm", on.successor, { rotation_id: on.rotation_id }), 200)
      expect(yield* ask(on, "self", on.successor), 200)
      assert.isNull((yield* shown(on.bridge)).dpop_required_since)
    })
  )

  it.effect("a Bridge that has sent one valid proof has to send one with every request, and it is recorded once", () =>
    Effect.gen(function* () {
      const on = yield* held
      assert.isNotNull((yield* shown(on.bridge)).dpop_required_since)
      for (const endpoint of ["self", "prepare", "revoke"] as const) expect(yield* ask(on, endpoint, on.token), refused)
      for (const endpoint of ["confirm", "abort"] as const)
        expect(yield* ask(on, endpoint, on.token, { rotation_id: randomUUID() }), refused)
      expect(yield* askProven(on, "self", on.token, on.bridge.keys), 200)
      assert.strictEqual((yield* auditOf(on.bridge, "bridge.dpop_required")).length, 1)
      const [event] = yield* auditOf(on.bridge, "bridge.possession")
      assert.deepInclude(event, { outcome: "refused", code: refused, count: 5 })
    })
  )

  it.effect("a proof that is refused holds nobody to anything", () =>
    Effect.gen(function* () {
      const on = { ...(yield* holder()), url: (yield* Service).url }
      expect(yield* ask(on, "self", on.token, { proof: "x" }), refused)
      expect(yield* askProven(on, "self", on.token, yield* generateKeyPair), refused)
      expect(yield* ask(on, "self", on.token), 200)
    })
  )

  it.effect("the whole rotation works with proofs, and the successor needs one by the same key", () =>
    Effect.gen(function* () {
      const on = yield* held
      const { keys } = on.bridge
      const prepared = yield* askProven(on, "prepare", on.token, keys, { key: "r1" })
      expect(prepared, 201)
      const { rotation_id, successor_token } = prepared.body
      expect(yield* ask(on, "confirm", successor_token, { rotation_id }), refused)
      const again = yield* askProven(on, "prepare", on.token, keys, { key: "r1" })
      assert.deepStrictEqual([again.status, again.text], [201, prepared.text])
      expect(yield* askProven(on, "confirm", successor_token, keys, { rotation_id }), 200)
      const second = yield* askProven(on, "prepare", successor_token, keys)
      const { rotation_id: other, successor_token: unwanted } = second.body
      expect(yield* askProven(on, "abort", unwanted, keys, { rotation_id: other }), 200)
      expect(yield* askProven(on, "revoke", successor_token, keys), 200)
      expect(yield* askProven(on, "self", successor_token, keys), "bridge_token_revoked")
    })
  )

  it.effect("re-enrollment with another key asks for proofs by that key", () =>
    Effect.gen(function* () {
      const on = yield* held
      const again = yield* withNewKey(on.bridge, { reenroll: on.bridge.bridge_id })
      const { token } = yield* holder(again, "after")
      expect(yield* ask(on, "self", token), refused)
      expect(yield* askProven(on, "self", token, on.bridge.keys), refused)
      expect(yield* askProven(on, "self", token, again.keys), 200)
    })
  )

  it.effect("an operator can lift it until the next proof; lifting again changes nothing", () =>
    Effect.gen(function* () {
      const on = yield* held
      assert.deepStrictEqual(yield* lift(on.bridge), { was_required: true })
      assert.deepStrictEqual(yield* lift(on.bridge), { was_required: false })
      assert.strictEqual((yield* auditOf(on.bridge, "bridge.dpop_lifted")).length, 1)
      expect(yield* ask(on, "self", on.token), 200)
      expect(yield* askProven(on, "self", on.token, on.bridge.keys), 200)
      expect(yield* ask(on, "self", on.token), refused)
      assert.strictEqual(
        (yield* Effect.flip(lift({ ...on.bridge, bridge_id: "none" } as Bridge)))._tag,
        "bridge_not_found"
      )
    })
  )

  it.effect("SERVICE_BRIDGE_DPOP=required asks everybody, =off nobody", () =>
    Effect.gen(function* () {
      const on = yield* holder()
      const required = yield* instance({ SERVICE_BRIDGE_DPOP: "required" })
      expect(yield* ask(required, "self", on.token), refused)
      expect(yield* askProven(required, "self", on.token, on.bridge.keys), 200)
      expect(yield* ask(required, "self", `${on.token.slice(0, -1)}!`), "bridge_token_invalid")
      const off = yield* instance({ SERVICE_BRIDGE_DPOP: "off" })
      expect(yield* ask(off, "self", on.token), 200)
      expect(yield* ask(off, "self", on.token, { proof: "x" }), 200)
    })
  )

  it.effect("the scheme DPoP is accepted with a proof and refused without; a bootstrap credential has none", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const on = { ...(yield* holder()), url }
      expect(yield* ask(on, "self", on.token, { scheme: "DPoP" }), refused)
      expect(yield* askProven(on, "self", on.token, on.bridge.keys, { scheme: "DPoP" }), 200)
      const unclaimed = yield* withNewCredential(on.bridge, { bridge_id: "another" })
      const asked = yield* Effect.promise(() =>
        fetch(`${url}/bridge/v1/enrollment/challenges`, {
          method: "POST",
          headers: {
            authorization: `DPoP ${unclaimed.credential}`,
            "idempotency-key": "k",
            "content-type": "application/json"
          },
          body: JSON.stringify(unclaimed.challengeBody)
        })
      )
      assert.strictEqual(asked.status, 401)
    })
  )

  it.effect("the proof comes after the token and before its state", () =>
    Effect.gen(function* () {
      const on = yield* held
      const { keys } = on.bridge
      const unknown = `${on.token.slice(0, 10)}${"0".repeat(on.token.length - 10)}`
      expect(yield* askProven(on, "self", unknown, keys), "bridge_token_invalid")
      yield* revokeIdentity(on.bridge)
      expect(yield* ask(on, "self", on.token), refused)
      expect(yield* askProven(on, "self", on.token, keys), "bridge_revoked")
    })
  )
})

layer(Service.layer)("a proof is refused", (it) => {
  const rows: Record<string, (on: Effect.Success<typeof held>) => Effect.Effect<string>> = {}
  const changed = (name: string, changes: object) =>
    void (rows[name] = ({ bridge, token }) => proofFor(bridge.keys, "self", token, changes))
  changed("for another method", { htm: "POST" })
  changed("for a method in another case", { htm: "get" })
  changed("without a method", { htm: undefined })
  for (const htu of [
    "http://127.0.0.1:8787/bridge/v1/tokens/revoke",
    "http://127.0.0.1:8787/bridge/v1/tokens/self/",
    "http://127.0.0.1:8787/bridge/v1/tokens/self?x=1",
    "http://127.0.0.1:8787//bridge/v1/tokens/self",
    "http://127.0.0.1:8787/x/../bridge/v1/tokens/self",
    "http://user@127.0.0.1:8787/bridge/v1/tokens/self",
    "https://127.0.0.1.example.com/bridge/v1/tokens/self",
    "https://bridge.example.com/bridge/v1/tokens/self",
    "/bridge/v1/tokens/self",
    "http:\\\\127.0.0.1:8787/bridge/v1/tokens/self"
  ])
    changed(`for ${htu}`, { htu })
  changed("without an address", { htu: undefined })
  changed("for another token", { ath: Buffer.alloc(32, 7).toString("base64url") })
  changed("without a token", { ath: undefined })
  changed("121 seconds old", { iat: -121 })
  changed("121 seconds early", { iat: 121 })
  changed("with a time that is text", { iat: "0" })
  changed("with no time", { iat: undefined })
  changed("without a jti", { jti: undefined })
  changed("with an empty jti", { jti: "" })
  changed("with a jti of 257 characters", { jti: "j".repeat(257) })

  const header = (name: string, changes: object) =>
    void (rows[name] = ({ bridge, token }) =>
      Effect.map(claims("self", token), (payload) =>
        signed(bridge.keys, { ...headerOf(bridge.keys), ...changes }, payload)
      ))
  header("of another type", { typ: "JWT" })
  header("with alg none", { alg: "none" })
  header("with alg ES256", { alg: "ES256" })
  header("with a critical parameter", { crit: ["b64"], b64: true })
  header("without a key", { jwk: undefined })
  header("with another curve", { jwk: { kty: "OKP", crv: "X25519", x: "A".repeat(43) } })
  rows["with its private key"] = ({ bridge, token }) =>
    Effect.map(claims("self", token), (payload) =>
      signed(
        bridge.keys,
        { ...headerOf(bridge.keys), jwk: { ...jwkOf(bridge.keys), d: b64(Redacted.value(bridge.keys.privateKey)) } },
        payload
      )
    )

  /** With the public key as a shared secret, which a library that trusts `alg` verifies. */
  const shared = (name: string, jwkOfSecret?: (x: string) => object) =>
    void (rows[name] = ({ bridge: { keys }, token }) =>
      Effect.map(claims("self", token), (payload) => {
        const { x } = jwkOf(keys)
        const jwk = jwkOfSecret?.(x) ?? jwkOf(keys)
        const header = { ...headerOf(keys), alg: "HS512", jwk }
        const message = [header, payload].map((part) => b64(Buffer.from(JSON.stringify(part)))).join(".")
        return `${message}.${createHmac("sha512", keys.publicKey).update(message).digest("base64url")}`
      }))
  shared("with alg HS512 and the public key as its secret")
  shared("with alg HS512 and a key of kind oct", (x) => ({ kty: "oct", k: x }))

  const text = (name: string, change: (json: string) => string) =>
    void (rows[name] = ({ bridge, token }) =>
      Effect.map(claims("self", token), (payload) =>
        signed(bridge.keys, headerOf(bridge.keys), change(JSON.stringify(payload)))
      ))
  text("with a claim twice", (json) => json.replace("{", '{"htm":"POST",'))
  text("with a claim twice in other letters", (json) => json.replace("{", '{"h\\u0074m":"POST",'))
  text("that is a list", (json) => `[${json}]`)
  text("that is not JSON", (json) => json.slice(1))

  const spoiled = (name: string, change: (proof: string) => string) =>
    void (rows[name] = ({ bridge, token }) => Effect.map(proofFor(bridge.keys, "self", token), change))
  spoiled("without a signature", (proof) => proof.slice(0, proof.lastIndexOf(".")))
  spoiled("with an empty signature", (proof) => proof.slice(0, proof.lastIndexOf(".") + 1))
  spoiled("with another signature", (proof) => proof.slice(0, -86) + Buffer.alloc(64, 1).toString("base64url"))
  spoiled("with padding", (proof) => `${proof}==`)
  spoiled(
    "with a signature in another encoding",
    (proof) => proof.slice(0, -1) + proof.slice(-1).replace(/[AQgw]/, "B")
  )
  spoiled("in two headers", (proof) => `${proof}, ${proof}`)
  spoiled("that is empty", () => "")
  rows["by another key"] = ({ token }) => Effect.flatMap(generateKeyPair, (keys) => proofFor(keys, "self", token))
  rows["that names the key of the Bridge and is signed by another"] = ({ bridge, token }) =>
    Effect.flatMap(Effect.zip(generateKeyPair, claims("self", token)), ([keys, payload]) =>
      Effect.succeed(signed(keys, headerOf(bridge.keys), payload))
    )

  for (const [name, make] of Object.entries(rows)) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const on = { ...(yield* holder()), url: (yield* Service).url }
        expect(yield* ask(on, "self", on.token, { proof: yield* make(on) }), refused)
      })
    )
  }

  it.effect("if the request spells the path otherwise", () =>
    Effect.gen(function* () {
      const on = yield* held
      for (const [path, outcome] of [
        ["/bridge/v1/tokens/sel%66", 401],
        ["/bridge/v1/tokens/self;x", 401],
        ["/bridge/v1/tokens/self/", 404],
        ["//bridge/v1/tokens/self", 404],
        ["/bridge/v1/tokens/SELF", 404],
        // The query is not part of it, nor the host that an absolute address names (RFC 9449 4.2).
        ["/bridge/v1/tokens/self?x=1", 200],
        ["http://elsewhere.example/bridge/v1/tokens/self", 200]
      ] as const) {
        const dpop = yield* proofFor(on.bridge.keys, "self", on.token)
        const { status } = yield* raw.request(on.url, "GET", path, { authorization: `Bearer ${on.token}`, dpop })
        assert.strictEqual(status, outcome, path)
      }
    })
  )

  it.effect("a second time, at any replica and endpoint with the same jti, until it is too old", () =>
    Effect.gen(function* () {
      const on = yield* held
      const replica = yield* instance()
      const proof = yield* proofFor(on.bridge.keys, "self", on.token)
      const answers = yield* callers([on, replica], 40, (at) => ask(at, "self", on.token, { proof }))
      assert.deepStrictEqual(tally(answers), { "200": 1, [refused]: 39 })
      yield* TestClock.adjust("119 seconds")
      expect(yield* ask(replica, "self", on.token, { proof }), refused)
      const jti = randomUUID()
      expect(
        yield* ask(on, "self", on.token, { proof: yield* proofFor(on.bridge.keys, "self", on.token, { jti }) }),
        200
      )
      expect(
        yield* ask(replica, "prepare", on.token, {
          proof: yield* proofFor(on.bridge.keys, "prepare", on.token, { jti })
        }),
        refused
      )
    })
  )

  it.effect("a proof is forgotten only after nobody accepts it any more", () =>
    Effect.gen(function* () {
      const on = yield* held
      const sql = yield* SqlClient.SqlClient
      const now = yield* TestClock.testClockWith((clock) => clock.currentTimeMillis)
      // Two minutes early, it is accepted for four minutes.
      const proof = yield* proofFor(on.bridge.keys, "self", on.token, { iat: Math.floor(now / 1000) + 120 })
      expect(yield* ask(on, "self", on.token, { proof }), 200)
      const services = (yield* Service).services
      const sweep = Effect.provideContext(sweepOnce(sweeps), services)
      yield* TestClock.adjust("239 seconds")
      yield* sweep
      expect(yield* ask(on, "self", on.token, { proof }), refused)
      yield* TestClock.adjust("62 seconds")
      yield* sweep
      assert.deepStrictEqual(
        yield* sql`select 1 from bridge_dpop_proof where forget_at <= ${new Date(now + 300_000)}`,
        []
      )
      expect(yield* ask(on, "self", on.token, { proof }), refused)
    })
  )
})

layer(Service.layer)("a proof is accepted", (it) => {
  it.effect("beside those of other Bridges, each for its own", () =>
    Effect.gen(function* () {
      const held = yield* Effect.replicateEffect(holder(), 12)
      const { url } = yield* Service
      const asked = [...held, ...held, ...held].map(({ bridge, token }) =>
        Effect.map(askProven({ url }, "self", token, bridge.keys), ({ body }) => [body.bridge_id, bridge.bridge_id])
      )
      for (const [found, own] of yield* Effect.all(asked, { concurrency: "unbounded" })) assert.strictEqual(found, own)
    })
  )

  const accepted = (name: string, changes: object) =>
    it.effect(name, () =>
      Effect.gen(function* () {
        const on = { ...(yield* holder()), url: (yield* Service).url }
        expect(
          yield* ask(on, "self", on.token, { proof: yield* proofFor(on.bridge.keys, "self", on.token, changes) }),
          200
        )
      })
    )
  accepted("120 seconds old", { iat: -120 })
  accepted("120 seconds early", { iat: 120 })
  accepted("with claims that it does not need", { exp: 1, nonce: "n", more: { a: ['"', "{:}", "\\"] } })
  for (const name of ["localhost:8787", "[::1]:8787", "127.0.0.2", "LOCALHOST:1234"])
    accepted(`for http://${name}, as the service is on loopback`, { htu: `http://${name}/bridge/v1/tokens/self` })

  it.effect("for the origin of the base URL in any spelling", () =>
    Effect.gen(function* () {
      const on = yield* holder()
      const behind = yield* instance({ SERVICE_BASE_URL: "https://bridge.example.com" })
      const at = (htu: string) =>
        Effect.flatMap(proofFor(on.bridge.keys, "self", on.token, { htu }), (proof) =>
          ask(behind, "self", on.token, { proof })
        )
      expect(yield* at("https://bridge.example.com/bridge/v1/tokens/self"), 200)
      expect(yield* at("https://Bridge.Example.com:443/bridge/v1/tokens/self"), 200)
      expect(yield* at("http://bridge.example.com/bridge/v1/tokens/self"), refused)
      expect(yield* at("http://127.0.0.1:8787/bridge/v1/tokens/self"), refused)
    })
  )

  it.effect("if it is the example of docs/protocol.md", () =>
    Effect.gen(function* () {
      const [header, payload, , example] = blocks(read("docs/protocol.md"), "text")
        .find((block) => block.includes("dpop+jwt"))!
        .split("\n")
      const privateKey = Redacted.make<Uint8Array>(Buffer.from(Array.from({ length: 32 }, (_, index) => index)))
      const publicKey = Buffer.from(JSON.parse(header!).jwk.x, "base64url")
      assert.strictEqual(signed({ publicKey, privateKey }, header!, payload!), example)
      const tokenHash = Buffer.from(JSON.parse(payload!).ath, "base64url")
      const ed25519 = yield* Effect.provide(Ed25519, Ed25519.layerNode)
      const verified = yield* verifyWith(ed25519, { algorithms: ["EdDSA"], named: "EdDSA", keys: "Ed25519" })(
        example!,
        {
          method: "GET",
          path: "/bridge/v1/tokens/self",
          baseUrl: new URL("https://bridge.example.com"),
          tokenHash,
          now: new Date("2026-11-21T12:00:00Z")
        }
      )
      assert.deepInclude(verified, { jti: "bridge-proof-0001" })
    })
  )

  it.effect("if jose made it, with EdDSA and with Ed25519, at every endpoint", () =>
    Effect.gen(function* () {
      const on = { ...(yield* rotating()), url: (yield* Service).url }
      const { keys } = on.bridge
      const jwk = { ...jwkOf(keys), d: b64(Redacted.value(keys.privateKey)) }
      const made = (endpoint: Endpoint, token: string, alg: string) =>
        Effect.flatMap(claims(endpoint, token), (payload) =>
          Effect.promise(async () =>
            new SignJWT(payload)
              .setProtectedHeader({ typ: "dpop+jwt", alg, jwk: jwkOf(keys) })
              .sign(await importJWK(jwk, alg))
          )
        )
      for (const alg of ["EdDSA", "Ed25519"]) {
        const proof = yield* made("self", on.token, alg)
        expect(yield* ask(on, "self", on.token, { proof }), 200)
      }
      const { rotation_id, successor } = on
      const aborting = yield* made("abort", successor, "EdDSA")
      expect(yield* ask(on, "abort", successor, { proof: aborting, rotation_id }), 200)
      const prepared = yield* ask(on, "prepare", on.token, { proof: yield* made("prepare", on.token, "EdDSA") })
      expect(prepared, 201)
      const next = prepared.body.successor_token
      const confirming = yield* made("confirm", next, "EdDSA")
      expect(yield* ask(on, "confirm", next, { proof: confirming, rotation_id: prepared.body.rotation_id }), 200)
      expect(yield* ask(on, "revoke", next, { proof: yield* made("revoke", next, "EdDSA") }), 200)
    })
  )
})

describe("the proof of the reference Bridge", () => {
  const token = "sbt_00000000000000000000000000000000000000000023Bl4S4"
  const made = Effect.gen(function* () {
    const keys = yield* generateKeyPair
    const request = { method: "POST", url: `${origin}/bridge/v1/tokens/revoke` }
    return { keys, proof: yield* dpopProof(keys, request, Redacted.make(token), 1_795_262_400_999) }
  })
  const expected = {
    htm: "POST",
    htu: `${origin}/bridge/v1/tokens/revoke`,
    iat: 1_795_262_400,
    ath: hash("sha256", token, "base64url")
  }

  it.effect("is valid to jose", () =>
    Effect.gen(function* () {
      const { keys, proof } = yield* made
      const { payload, protectedHeader } = yield* Effect.promise(() =>
        jwtVerify(proof, EmbeddedJWK, { typ: "dpop+jwt", algorithms: ["EdDSA"] })
      )
      assert.deepStrictEqual(protectedHeader.jwk, jwkOf(keys))
      assert.deepStrictEqual(payload, { ...expected, jti: payload.jti! })
      assert.match(payload.jti!, /^[0-9a-f-]{36}$/)
    })
  )

  it.effect("is valid to Python's cryptography", (context) =>
    Effect.gen(function* () {
      const python = ["/usr/bin/python3", "python3"].find(
        (path) => spawnSync(path, ["-c", "import cryptography"]).status === 0
      )
      if (python === undefined) return context.skip("needs python3 with the package cryptography")
      const program = [
        "import base64, json, sys",
        "from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey",
        "header, claims, signature = sys.argv[1].split('.')",
        "b64 = lambda text: base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))",
        "key = Ed25519PublicKey.from_public_bytes(b64(json.loads(b64(header))['jwk']['x']))",
        "key.verify(b64(signature), f'{header}.{claims}'.encode())",
        "print(b64(claims).decode())"
      ].join("\n")
      const { proof } = yield* made
      const { status, stderr, stdout } = spawnSync(python, ["-c", program, proof], { encoding: "utf8" })
      assert.strictEqual(status, 0, stderr)
      assert.deepInclude(JSON.parse(stdout), expected)
      const spoiled = proof.replace(/\.[^.]+\./, ".e30.")
      assert.strictEqual(spawnSync(python, ["-c", program, spoiled]).status, 1)
    })
  )
})
