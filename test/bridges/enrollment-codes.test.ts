/**
 * Every code of the two enrollment endpoints (spec 7.2), provoked through HTTP. A row with two faults shows which code
 * wins: first the shape of the request, then the authenticity of the caller, then the state of things
 * (decisions.md, When each code applies, and which wins).
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import { b64, type Bridge, makeProject } from "../support/bridges/Bridge.ts"
import { declared, reached, rowsFor, testEach } from "../support/bridges/Codes.ts"
import { type Ask, send } from "../support/network/Http.ts"
import { unchanged } from "../support/database/Rows.ts"
import { secondSignature } from "../support/bridges/signatures/SecondSignature.ts"
import { instance, Service } from "../support/service/Service.ts"
import {
  withNewCredential,
  ask,
  challenged,
  disableProject,
  enrolled,
  fresh,
  withNewKey,
  prove,
  revokeCredential,
  revokeIdentity
} from "../support/bridges/Steps.ts"

const hour = Duration.hours(1)
const challengeTtl = Duration.seconds(600)

const challenges = (ask: Ask, on?: { readonly url: string }) =>
  Effect.flatMap(Service, ({ url }) => send(`${on?.url ?? url}/bridge/v1/enrollment/challenges`, ask))
const proofs = (ask: Ask, on?: { readonly url: string }) =>
  Effect.flatMap(Service, ({ url }) => send(`${on?.url ?? url}/bridge/v1/enrollment/proofs`, ask))

/** An instance whose rate limit for this address is used up. */
const exhausted = Effect.gen(function* () {
  const on = yield* instance({ SERVICE_RATE_LIMITS: "on" })
  yield* Effect.all(
    Array.from({ length: 1000 }, () => proofs({}, on)),
    { concurrency: 50 }
  )
  return on
})

/** Runs `self` while another transaction locks the row, for longer than a request waits. */
const whileLocked = <A, E, R>(table: string, column: string, value: string, self: Effect.Effect<A, E, R>) =>
  SqlClient.SqlClient.use((sql) =>
    sql.withTransaction(
      sql`select 1 from ${sql(table)} where ${sql(column)}::text = ${value} for update`.pipe(Effect.andThen(self))
    )
  )

const challenge = rowsFor("createChallenge")
const proof = rowsFor("prove")

const challengeRows = [
  challenge(
    "rate limit exceeded and no credential",
    429,
    "rate_limited",
    Effect.flatMap(exhausted, (on) => challenges({}, on))
  ),
  challenge(
    "no Authorization header",
    401,
    "bridge_enrollment_credential_required",
    challenges({ key: "k", body: {} })
  ),
  challenge(
    "an empty bearer",
    401,
    "bridge_enrollment_credential_required",
    challenges({ key: "k", headers: { authorization: "Bearer " } })
  ),
  challenge(
    "another authentication scheme",
    401,
    "bridge_enrollment_credential_required",
    Effect.flatMap(fresh(), (bridge) =>
      challenges({ key: "k", headers: { authorization: `Basic ${bridge.credential}` } })
    )
  ),
  challenge(
    "no credential and no Idempotency-Key",
    401,
    "bridge_enrollment_credential_required",
    challenges({ body: {} })
  ),
  challenge("no Idempotency-Key", 400, "idempotency_key_required", challenges({ bearer: "x", body: {} })),
  challenge(
    "a blank Idempotency-Key",
    400,
    "idempotency_key_required",
    challenges({ bearer: "x", key: "  ", body: {} })
  ),
  challenge(
    "no Idempotency-Key and a wrong media type",
    400,
    "idempotency_key_required",
    challenges({ bearer: "x", body: "{", headers: { "content-type": "text/plain" } })
  ),
  challenge(
    "an Idempotency-Key of 256 characters",
    400,
    "invalid_request",
    challenges({ bearer: "x", key: "k".repeat(256), body: {} })
  ),
  ...(["bridge_id", "device_id", "display_name"] as const).map((name) =>
    challenge(
      `a secret in ${name}`,
      422,
      "secret_detected",
      Effect.flatMap(Effect.all([Service, fresh()]), ([service, bridge]) =>
        bridge.askChallenge(service, { body: { [name]: bridge.credential } })
      )
    )
  ),
  challenge(
    "a media type other than JSON and a body over 16 KiB",
    415,
    "unsupported_media_type",
    challenges({ bearer: "x", key: "k", body: "x".repeat(20_000), headers: { "content-type": "text/plain" } })
  ),
  challenge(
    "a body over 16 KiB that is not JSON",
    413,
    "payload_too_large",
    challenges({ bearer: "x", key: "k", body: "x".repeat(16 * 1024 + 1) })
  ),
  challenge("malformed JSON", 400, "invalid_request", challenges({ bearer: "x", key: "k", body: "{" })),
  challenge(
    "an unknown field and an invalid credential",
    400,
    "invalid_request",
    Effect.flatMap(fresh(), (bridge) => challenges({ bearer: "x", key: "k", body: { ...bridge.challengeBody, x: 1 } }))
  ),
  challenge(
    "a credential without the form of one",
    401,
    "bridge_enrollment_credential_invalid",
    Effect.flatMap(fresh(), (bridge) => challenges({ bearer: "x", key: "k", body: bridge.challengeBody }))
  ),
  challenge(
    "a credential with a wrong checksum",
    401,
    "bridge_enrollment_credential_invalid",
    Effect.flatMap(fresh(), (bridge) => {
      const last = bridge.credential.endsWith("0") ? "1" : "0"
      return challenges({ bearer: bridge.credential.slice(0, -1) + last, key: "k", body: bridge.challengeBody })
    })
  ),
  challenge(
    "a credential that was never issued",
    401,
    "bridge_enrollment_credential_invalid",
    Effect.flatMap(fresh(), (bridge) =>
      challenges({
        bearer: "sbe_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf4Wx8UE",
        key: "k",
        body: bridge.challengeBody
      })
    )
  ),
  challenge(
    "a Bridge token instead of a credential",
    401,
    "bridge_enrollment_credential_invalid",
    Effect.flatMap(fresh(), (bridge) =>
      challenges({
        bearer: "sbt_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf1zwMK8",
        key: "k",
        body: bridge.challengeBody
      })
    )
  ),
  challenge(
    "a revoked credential",
    401,
    "bridge_enrollment_credential_revoked",
    Effect.flatMap(Effect.tap(fresh(), revokeCredential), ask)
  ),
  challenge(
    "a revoked credential and an exact retry",
    401,
    "bridge_enrollment_credential_revoked",
    Effect.flatMap(challenged, ({ bridge }) => Effect.andThen(revokeCredential(bridge), ask(bridge)))
  ),
  challenge(
    "a revoked and expired credential",
    401,
    "bridge_enrollment_credential_revoked",
    Effect.flatMap(Effect.tap(fresh(), revokeCredential), (bridge) =>
      Effect.andThen(TestClock.adjust(hour), ask(bridge))
    )
  ),
  challenge(
    "the credential of a disabled project",
    401,
    "bridge_enrollment_credential_revoked",
    Effect.flatMap(Effect.tap(fresh(), disableProject), ask)
  ),
  challenge(
    "the Idempotency-Key of another request",
    422,
    "idempotency_conflict",
    Effect.flatMap(challenged, ({ bridge }) => ask(bridge, { body: { display_name: "Another" } }))
  ),
  challenge(
    "the Idempotency-Key of another request, with a used and expired credential",
    422,
    "idempotency_conflict",
    Effect.flatMap(challenged, ({ bridge }) =>
      Effect.andThen(TestClock.adjust(hour), ask(bridge, { body: { display_name: "Another" } }))
    )
  ),
  challenge(
    "a claimed credential whose challenge is open",
    401,
    "bridge_enrollment_credential_used",
    Effect.flatMap(challenged, ({ bridge }) => ask(bridge, { key: "another" }))
  ),
  challenge(
    "a credential claimed by another device, after its challenge expired",
    401,
    "bridge_enrollment_credential_used",
    Effect.flatMap(challenged, ({ bridge }) =>
      Effect.andThen(TestClock.adjust(challengeTtl), ask(bridge, { key: "another", body: { device_id: "device-2" } }))
    )
  ),
  challenge(
    "a claimed and expired credential",
    401,
    "bridge_enrollment_credential_used",
    Effect.flatMap(challenged, ({ bridge }) => Effect.andThen(TestClock.adjust(hour), ask(bridge, { key: "another" })))
  ),
  challenge(
    "a claimed credential and another project",
    401,
    "bridge_enrollment_credential_used",
    Effect.flatMap(challenged, ({ bridge }) => ask(bridge, { key: "another", body: { project_id: randomUUID() } }))
  ),
  challenge(
    "an expired credential",
    401,
    "bridge_enrollment_credential_expired",
    Effect.flatMap(fresh(), (bridge) => Effect.andThen(TestClock.adjust(hour), ask(bridge)))
  ),
  challenge(
    "an expired credential and another project",
    401,
    "bridge_enrollment_credential_expired",
    Effect.flatMap(fresh(), (bridge) =>
      Effect.andThen(TestClock.adjust(hour), ask(bridge, { body: { project_id: randomUUID() } }))
    )
  ),
  challenge(
    "another project, whether it exists or not",
    403,
    "project_mismatch",
    Effect.gen(function* () {
      const bridge = yield* fresh()
      const missing = yield* ask(bridge, { body: { project_id: randomUUID() } })
      const there = yield* ask(bridge, { body: { project_id: yield* makeProject(yield* Service) } })
      assert.strictEqual(there.text, missing.text)
      return there
    })
  ),
  challenge(
    "another project, after the first challenge expired",
    403,
    "project_mismatch",
    Effect.flatMap(challenged, ({ bridge }) =>
      Effect.andThen(
        TestClock.adjust(challengeTtl),
        ask(bridge, { key: "another", body: { project_id: randomUUID() } })
      )
    )
  ),
  challenge(
    "another project and a revoked identity",
    403,
    "project_mismatch",
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      yield* revokeIdentity(bridge)
      return yield* ask(yield* withNewCredential(bridge), { body: { project_id: randomUUID() } })
    })
  ),
  challenge(
    "a revoked identity",
    403,
    "bridge_revoked",
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      yield* revokeIdentity(bridge)
      return yield* ask(yield* withNewKey(bridge))
    })
  ),
  challenge(
    "an identity that was revoked before its first proof",
    403,
    "bridge_revoked",
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      yield* revokeIdentity(bridge)
      return yield* ask(yield* withNewCredential(bridge))
    })
  ),
  challenge(
    "re-enrollment of an identity that was revoked in the meantime",
    403,
    "bridge_revoked",
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      const returning = yield* withNewCredential(bridge, { reenroll: bridge.bridge_id })
      yield* revokeIdentity(bridge)
      return yield* ask(returning)
    })
  ),
  challenge(
    "an active identity with this key",
    409,
    "bridge_not_pending",
    Effect.flatMap(enrolled, ({ bridge }) => Effect.flatMap(withNewCredential(bridge), ask))
  ),
  challenge(
    "an active identity with another key",
    409,
    "bridge_identity_conflict",
    Effect.flatMap(enrolled, ({ bridge }) => Effect.flatMap(withNewKey(bridge), ask))
  ),
  challenge(
    "a pending identity with another key whose challenge is open",
    409,
    "bridge_identity_conflict",
    Effect.flatMap(challenged, ({ bridge }) => Effect.flatMap(withNewKey(bridge), ask))
  ),
  challenge(
    "a re-enrollment credential for another bridge_id",
    409,
    "bridge_identity_conflict",
    Effect.flatMap(enrolled, ({ bridge }) =>
      Effect.flatMap(withNewCredential(bridge, { reenroll: bridge.bridge_id }), (returning) =>
        ask(returning, { body: { bridge_id: `bridge-${randomUUID()}` } })
      )
    )
  ),
  challenge(
    "a row that stays locked for too long",
    503,
    "bridge_persistence_error",
    Effect.flatMap(fresh(), (bridge) =>
      whileLocked("bridge_enrollment_credential", "credential_id", bridge.credential_id, ask(bridge))
    )
  )
]

const flipBit = (text: string, bit: number) => {
  const bytes = Buffer.from(text, "base64url")
  bytes[bit >> 3]! ^= 1 << (bit & 7)
  return b64(bytes)
}
const dropFirstByte = (text: string) => b64(Buffer.from(text, "base64url").subarray(1))

/** Sends a correct proof with the given fields replaced, after running `before`. */
const alteredProof = (
  change: (body: Effect.Success<ReturnType<Bridge["proofBody"]>>, bridge: Bridge) => object,
  before: (bridge: Bridge) => Effect.Effect<unknown, unknown, Service> = () => Effect.void
) =>
  Effect.gen(function* () {
    const { bridge, challenge } = yield* challenged
    yield* before(bridge)
    const body = yield* bridge.proofBody(challenge)
    return yield* proofs({ key: "bridge-proof-1", body: { ...body, ...change(body, bridge) } })
  })

const proofRows = [
  proof(
    "rate limit exceeded, with every other fault",
    429,
    "rate_limited",
    Effect.flatMap(exhausted, (on) => proofs({}, on))
  ),
  proof("no Idempotency-Key", 400, "idempotency_key_required", proofs({ body: {} })),
  proof("an Idempotency-Key that is not visible ASCII", 400, "invalid_request", proofs({ key: "a b", body: {} })),
  proof(
    "a media type other than JSON and a body over 16 KiB",
    415,
    "unsupported_media_type",
    proofs({ key: "k", body: "x".repeat(20_000), headers: { "content-type": "application/xml" } })
  ),
  proof(
    "a body over 16 KiB that is not JSON",
    413,
    "payload_too_large",
    proofs({ key: "k", body: "x".repeat(16 * 1024 + 1) })
  ),
  proof(
    "invalid base64 and an unknown challenge",
    400,
    "invalid_request",
    alteredProof(() => ({ challenge_id: randomUUID(), signature_b64: "not base64!" }))
  ),
  proof(
    "an unknown challenge",
    404,
    "enrollment_challenge_not_found",
    alteredProof(() => ({ challenge_id: randomUUID() }))
  ),
  proof(
    "the challenge of another project",
    409,
    "enrollment_challenge_mismatch",
    alteredProof(() => ({ project_id: randomUUID() }))
  ),
  proof(
    "the challenge of another bridge_id",
    409,
    "enrollment_challenge_mismatch",
    alteredProof(() => ({ bridge_id: "another" }))
  ),
  proof(
    "another nonce, correctly signed",
    409,
    "enrollment_challenge_mismatch",
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const forged = { ...challenge, body: { ...challenge.body, nonce_b64: flipBit(challenge.body.nonce_b64, 0) } }
      return yield* prove(bridge, forged)
    })
  ),
  proof(
    "a nonce of 31 bytes",
    409,
    "enrollment_challenge_mismatch",
    alteredProof(({ nonce_b64 }) => ({ nonce_b64: dropFirstByte(nonce_b64) }))
  ),
  proof(
    "another nonce and another key",
    409,
    "enrollment_challenge_mismatch",
    alteredProof(({ nonce_b64, public_key_b64 }) => ({
      nonce_b64: flipBit(nonce_b64, 7),
      public_key_b64: dropFirstByte(public_key_b64)
    }))
  ),
  proof(
    "another key with its own valid signature",
    401,
    "enrollment_key_mismatch",
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const body = yield* bridge.proofBody(challenge, yield* generateKeyPair)
      return yield* proofs({ key: "bridge-proof-1", body })
    })
  ),
  proof(
    "a key of 31 bytes",
    401,
    "enrollment_key_mismatch",
    alteredProof(({ public_key_b64 }) => ({ public_key_b64: dropFirstByte(public_key_b64) }))
  ),
  proof(
    "another key and a bad signature",
    401,
    "enrollment_key_mismatch",
    alteredProof(({ public_key_b64, signature_b64 }) => ({
      public_key_b64: flipBit(public_key_b64, 3),
      signature_b64: flipBit(signature_b64, 3)
    }))
  ),
  proof(
    "a signature with one bit flipped",
    401,
    "enrollment_proof_invalid",
    alteredProof(({ signature_b64 }) => ({ signature_b64: flipBit(signature_b64, 100) }))
  ),
  proof(
    "a signature of 63 bytes",
    401,
    "enrollment_proof_invalid",
    alteredProof(({ signature_b64 }) => ({ signature_b64: dropFirstByte(signature_b64) }))
  ),
  proof(
    "a bad signature and a revoked identity",
    401,
    "enrollment_proof_invalid",
    alteredProof(({ signature_b64 }) => ({ signature_b64: flipBit(signature_b64, 100) }), revokeIdentity)
  ),
  proof(
    "a bad signature and an expired challenge",
    401,
    "enrollment_proof_invalid",
    alteredProof(
      ({ signature_b64 }) => ({ signature_b64: flipBit(signature_b64, 100) }),
      () => TestClock.adjust(challengeTtl)
    )
  ),
  proof(
    "a revoked identity",
    403,
    "bridge_revoked",
    alteredProof(() => ({}), revokeIdentity)
  ),
  proof(
    "a disabled project",
    403,
    "bridge_revoked",
    alteredProof(() => ({}), disableProject)
  ),
  proof(
    "a revoked identity and an exact retry",
    403,
    "bridge_revoked",
    Effect.flatMap(enrolled, ({ bridge, challenge }) =>
      Effect.andThen(revokeIdentity(bridge), prove(bridge, challenge))
    )
  ),
  proof(
    "a successful proof repeated with a new Idempotency-Key",
    409,
    "enrollment_challenge_consumed",
    Effect.flatMap(enrolled, ({ bridge, challenge }) => prove(bridge, challenge, { key: "another" }))
  ),
  proof(
    "a consumed and expired challenge",
    409,
    "enrollment_challenge_consumed",
    Effect.flatMap(enrolled, ({ bridge, challenge }) =>
      Effect.andThen(TestClock.adjust(challengeTtl), prove(bridge, challenge, { key: "another" }))
    )
  ),
  proof(
    "the Idempotency-Key of the same proof with another valid signature",
    422,
    "idempotency_conflict",
    Effect.gen(function* () {
      const { bridge, challenge } = yield* enrolled
      const signature = yield* secondSignature(bridge.keys, Buffer.from(challenge.body.nonce_b64, "base64url"))
      return yield* prove(bridge, challenge, { body: { signature_b64: b64(signature) } })
    })
  ),
  proof(
    "the Idempotency-Key of an earlier proof of this identity",
    422,
    "idempotency_conflict",
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      const returning = yield* withNewCredential(bridge, { reenroll: bridge.bridge_id })
      return yield* prove(returning, yield* ask(returning))
    })
  ),
  proof(
    "an expired challenge",
    410,
    "enrollment_challenge_expired",
    alteredProof(
      () => ({}),
      () => TestClock.adjust(challengeTtl)
    )
  ),
  proof(
    "a challenge whose credential was revoked",
    410,
    "enrollment_challenge_expired",
    alteredProof(() => ({}), revokeCredential)
  ),
  proof(
    "an expired challenge of an active Bridge",
    410,
    "enrollment_challenge_expired",
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const twin = yield* withNewCredential(bridge)
      yield* prove(twin, yield* ask(twin))
      yield* TestClock.adjust(challengeTtl)
      return yield* prove(bridge, challenge, { key: "another" })
    })
  ),
  proof(
    "a second challenge of a Bridge that has become active",
    409,
    "bridge_not_pending",
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const twin = yield* withNewCredential(bridge)
      yield* prove(twin, yield* ask(twin))
      return yield* prove(bridge, challenge, { key: "another" })
    })
  ),
  proof(
    "a row that stays locked for too long",
    503,
    "bridge_persistence_error",
    Effect.flatMap(challenged, ({ bridge, challenge }) =>
      whileLocked("bridge_identity", "bridge_id", bridge.bridge_id, unchanged(prove(bridge, challenge)))
    )
  )
]

layer(Service.layer)("the codes of enrollment", (it) => {
  const rows = [...challengeRows, ...proofRows]
  testEach(it, rows)

  it("each endpoint answers exactly the codes that it declares", () => {
    assert.deepStrictEqual(reached(rows as never), declared("enrollment"))
  })
})
