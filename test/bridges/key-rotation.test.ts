/** Key rotation: both keys prove the change, every answer can be repeated, and nothing else happens meanwhile. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Metric } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { sweeps } from "../../src/bridges/Wing.ts"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { fingerprint, generateKeyPair } from "../../src/client/Crypto.ts"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { rotations } from "../../src/platform/metrics/Metrics.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { assertRefusal } from "../support/bridges/Codes.ts"
import { ask, askProven, proofFor } from "../support/bridges/signatures/DpopProofs.ts"
import {
  abortKey,
  confirmBody,
  confirmKey,
  keyHolder,
  keyRotating,
  prepareKey
} from "../support/bridges/KeyRotations.ts"
import { revokeIdentity, withNewCredential } from "../support/bridges/Steps.ts"
import { holder, rotating } from "../support/bridges/Tokens.ts"
import type { Answer } from "../support/network/Http.ts"
import { firstPage } from "../support/database/Page.ts"
import { instance, Service } from "../support/service/Service.ts"

const expect = (answer: Answer, outcome: number | string) => {
  assert.strictEqual(answer.code ?? answer.status, outcome, answer.text)
  if (typeof outcome === "string") assertRefusal(answer)
}
const unproven = "bridge_proof_of_possession_invalid"
const minutes = (count: number) => TestClock.adjust(count * 60_000)
const shown = ({ bridge_id, project_id }: { readonly bridge_id: string; readonly project_id: string }) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Bridges).show(project_id, bridge_id))

/** Asserts that the audit log has this action of the key rotation: done once, or refused with these codes so many times. */
const recorded = Effect.fnUntraced(function* (
  on: Effect.Success<typeof keyRotating>,
  action: string,
  refused: Readonly<Record<string, number>> = {}
) {
  const { services } = yield* Service
  const { bridge_id, project_id } = on.bridge
  const events = (yield* Context.get(services, Audit).list(project_id, firstPage)).filter(
    (event) => event.action === action
  )
  const row = {
    actor: `bridge:${bridge_id}`,
    subject: { bridge_id, key_rotation_id: on.prepared.key_rotation_id as string }
  }
  const codes = Object.entries(refused)
  assert.sameDeepMembers(
    events.map(({ actor, code, count, subject }) => ({ code, count, actor, subject })),
    codes.length === 0 ? [{ code: null, count: 1, ...row }] : codes.map(([code, count]) => ({ code, count, ...row }))
  )
})

layer(Service.layer)("key rotation", (it) => {
  it.effect("puts the new key in the place of the old one, and keeps the token", () =>
    Effect.gen(function* () {
      const on = yield* keyRotating
      assert.strictEqual(Buffer.from(on.prepared.nonce_b64, "base64url").length, 32)
      expect(yield* askProven(on, "self", on.token, on.next), unproven)
      const self = yield* askProven(on, "self", on.token, on.old)
      assert.strictEqual(self.body.key.pending_rotation.key_rotation_id, on.prepared.key_rotation_id)
      assert.strictEqual(self.body.key.public_key_fingerprint, fingerprint(on.old.publicKey))
      yield* minutes(1)

      const confirmed = yield* confirmKey(on, on.token, on.old, on.next, on.prepared)
      expect(confirmed, 200)
      const { bridge_id, project_id } = on.bridge
      const public_key_fingerprint = fingerprint(on.next.publicKey)
      assert.deepStrictEqual(confirmed.body, {
        project_id,
        bridge_id,
        public_key_fingerprint,
        rotated_at: confirmed.body.rotated_at
      })
      expect(yield* askProven(on, "self", on.token, on.old), unproven)
      const after = yield* askProven(on, "self", on.token, on.next)
      assert.deepStrictEqual(after.body.key, {
        public_key_fingerprint,
        since: confirmed.body.rotated_at,
        rotation_required: false,
        pending_rotation: null
      })
      const bridge = yield* shown(on.bridge)
      assert.strictEqual(bridge.public_key_fingerprint, public_key_fingerprint)
      assert.strictEqual(bridge.key_since?.toISOString(), confirmed.body.rotated_at)
      assert.isAbove(bridge.key_since!.getTime(), bridge.enrolled_at!.getTime())

      for (const action of ["bridge.key_rotation_prepared", "bridge.key_rotated"]) yield* recorded(on, action)
    })
  )

  it.effect("an exact retry gets the same answer; another request under the same key does not", () =>
    Effect.gen(function* () {
      const on = yield* keyRotating
      const other = yield* generateKeyPair
      yield* minutes(1)
      const again = yield* prepareKey(on, on.token, on.old, on.next)
      assert.deepStrictEqual([again.status, again.text], [201, on.answer.text])
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      expect(yield* prepareKey(on, on.token, on.old, other), "idempotency_conflict")
      expect(yield* prepareKey(on, on.token, on.old, other, "k2"), "bridge_key_rotation_in_progress")

      const confirmed = yield* confirmKey(on, on.token, on.old, on.next, on.prepared)
      yield* minutes(30)
      // The answer was lost, so the Bridge still proves the old key.
      const repeated = yield* confirmKey(on, on.token, on.old, on.next, on.prepared)
      assert.deepStrictEqual([repeated.status, repeated.text], [200, confirmed.text])
      assert.strictEqual(repeated.headers.get("idempotency-replayed"), "true")
      expect(yield* confirmKey(on, on.token, on.old, on.next, on.prepared, "c2"), "bridge_key_rotation_confirmed")
      const body = yield* confirmBody(on.prepared, on.old, on.next)
      for (const field of ["nonce_b64", "public_key_b64", "signature_b64", "predecessor_signature_b64"]) {
        const changed = { ...body, [field]: "AAAA" }
        expect(
          yield* askProven(on, "confirmKey", on.token, on.old, { key: "c1", body: changed }),
          "idempotency_conflict"
        )
      }
      expect(yield* abortKey(on, on.token, on.old, on.prepared), "bridge_key_rotation_confirmed")
      expect(yield* prepareKey(on, on.token, on.old, on.next), unproven)
      expect(yield* prepareKey(on, on.token, on.next, on.next), "bridge_key_rotation_confirmed")
      // The old key proves nothing but that retry.
      const mine = { ...on.prepared, key_rotation_id: randomUUID() }
      expect(yield* confirmKey(on, on.token, on.old, on.next, mine), unproven)

      const second = yield* prepareKey(on, on.token, on.next, other, "k3")
      expect(second, 201)
      expect(yield* confirmKey(on, on.token, on.next, other, second.body), "idempotency_conflict")
    })
  )

  it.effect("abort keeps the old key, can be repeated, and frees the Bridge", () =>
    Effect.gen(function* () {
      const on = yield* keyRotating
      expect(
        yield* abortKey(on, on.token, on.old, { ...on.prepared, key_rotation_id: randomUUID() }),
        "bridge_key_rotation_not_found"
      )
      const aborted = yield* abortKey(on, on.token, on.old, on.prepared)
      expect(aborted, 200)
      assert.deepStrictEqual(aborted.body, { key_rotation_id: on.prepared.key_rotation_id, status: "aborted" })
      const again = yield* abortKey(on, on.token, on.old, on.prepared)
      assert.deepStrictEqual([again.status, again.text], [200, aborted.text])
      expect(yield* abortKey(on, on.token, on.old, on.prepared, "a2"), "bridge_key_rotation_aborted")
      expect(yield* confirmKey(on, on.token, on.old, on.next, on.prepared), "bridge_key_rotation_aborted")
      expect(yield* prepareKey(on, on.token, on.old, on.next), "bridge_key_rotation_aborted")
      expect(yield* prepareKey(on, on.token, on.old, on.next, "k2"), 201)
      yield* recorded(on, "bridge.key_rotation_aborted")
    })
  )

  it.effect("after the window the old key stays, before and after the sweep", () =>
    Effect.gen(function* () {
      const on = yield* keyRotating
      yield* minutes(6)
      expect(yield* confirmKey(on, on.token, on.old, on.next, on.prepared), "bridge_key_rotation_expired")
      expect(yield* abortKey(on, on.token, on.old, on.prepared), "bridge_key_rotation_expired")
      expect(yield* prepareKey(on, on.token, on.old, on.next), "bridge_key_rotation_expired")
      assert.isNull((yield* askProven(on, "self", on.token, on.old)).body.key.pending_rotation)
      const { services } = yield* Service
      yield* Effect.provideContext(sweepOnce(sweeps), services)
      expect(yield* confirmKey(on, on.token, on.old, on.next, on.prepared), "bridge_key_rotation_expired")
      expect(yield* prepareKey(on, on.token, on.old, on.next, "k2"), 201)
    })
  )

  it.effect("needs the signatures of both keys over this nonce and this key", () =>
    Effect.gen(function* () {
      const on = yield* keyRotating
      const other = yield* generateKeyPair
      const body = yield* confirmBody(on.prepared, on.old, on.next)
      const nonce_b64 = Buffer.alloc(32, 7).toString("base64url")
      const wrong: Record<string, readonly [object, string]> = {
        "another new key": [yield* confirmBody(on.prepared, on.old, other), "enrollment_key_mismatch"],
        "a nonce of its own": [
          yield* confirmBody({ ...on.prepared, nonce_b64 }, on.old, on.next),
          "enrollment_proof_invalid"
        ],
        "no signature by the new key": [
          { ...body, signature_b64: (yield* confirmBody(on.prepared, on.old, other)).signature_b64 },
          "enrollment_proof_invalid"
        ],
        "the old signature over another key": [
          {
            ...body,
            predecessor_signature_b64: (yield* confirmBody(on.prepared, on.old, other)).predecessor_signature_b64
          },
          "enrollment_proof_invalid"
        ],
        "no signature by the old key": [
          {
            ...body,
            predecessor_signature_b64: (yield* confirmBody(on.prepared, other, on.next)).predecessor_signature_b64
          },
          "enrollment_proof_invalid"
        ]
      }
      for (const [what, [changed, code]] of Object.entries(wrong)) {
        const answer = yield* askProven(on, "confirmKey", on.token, on.old, { body: changed })
        assert.strictEqual(answer.code, code, what)
      }
      yield* recorded(on, "bridge.key_rotation", { enrollment_key_mismatch: 1, enrollment_proof_invalid: 4 })
      expect(yield* confirmKey(on, on.token, on.old, on.next, on.prepared), 200)
    })
  )

  it.effect("the key that the Bridge has is no new key", () =>
    Effect.gen(function* () {
      const on = yield* keyHolder
      const answer = yield* prepareKey(on, on.token, on.old, on.old)
      expect(answer, "invalid_request")
      assert.include(answer.text, "make a new one")
    })
  )

  it.effect("token and key are never replaced at once", () =>
    Effect.gen(function* () {
      const on = yield* keyRotating
      const held = yield* askProven(on, "prepare", on.token, on.old)
      expect(held, "bridge_key_rotation_in_progress")
      assert.strictEqual(held.headers.get("retry-after"), "300")
      yield* minutes(6)
      const prepared = yield* askProven(on, "prepare", on.token, on.old)
      expect(prepared, 201)
      yield* minutes(1)
      const waits = yield* prepareKey(on, on.token, on.old, on.next, "k2")
      expect(waits, "bridge_rotation_in_progress")
      assert.strictEqual(waits.headers.get("retry-after"), "240")
      yield* minutes(5)
      expect(yield* prepareKey(on, on.token, on.old, on.next, "k2"), 201)
    })
  )

  it.effect("a proof by the old key comes with every request, whatever the mode", () =>
    Effect.gen(function* () {
      const on = yield* keyHolder
      const body = { public_key_fingerprint: fingerprint(on.next.publicKey) }
      const off = yield* instance({ SERVICE_BRIDGE_DPOP: "off" })
      for (const at of [on, off]) {
        expect(yield* ask(at, "prepareKey", on.token, { body }), unproven)
        expect(yield* askProven(at, "prepareKey", on.token, on.next, { body }), unproven)
        for (const endpoint of ["confirmKey", "abortKey"] as const) {
          const given = {
            key_rotation_id: randomUUID(),
            nonce_b64: "AAAA",
            public_key_b64: "AAAA",
            signature_b64: "AAAA"
          }
          const sent =
            endpoint === "abortKey"
              ? { key_rotation_id: given.key_rotation_id }
              : { ...given, predecessor_signature_b64: "AAAA" }
          expect(yield* ask(at, endpoint, on.token, { body: sent }), unproven)
        }
        const unknown = `${on.token.slice(0, -1)}!`
        expect(yield* askProven(at, "prepareKey", unknown, on.old, { body }), "bridge_token_invalid")
      }
      const proof = yield* proofFor(on.old, "prepareKey", on.token)
      expect(yield* ask(off, "prepareKey", on.token, { proof, body, key: "k1" }), 201)
      expect(yield* ask(off, "prepareKey", on.token, { proof, body, key: "k1" }), unproven)
      const prepared = (yield* prepareKey(off, on.token, on.old, on.next)).body
      expect(yield* confirmKey(off, on.token, on.old, on.next, prepared), 200)
      assert.isNull((yield* shown(on.bridge)).dpop_required_since)
    })
  )

  it.effect("re-enrollment and revocation end it", () =>
    Effect.gen(function* () {
      const reenrolled = yield* keyRotating
      const back = yield* withNewCredential(reenrolled.bridge, { reenroll: reenrolled.bridge.bridge_id })
      const { token } = yield* holder(back, "after")
      expect(
        yield* confirmKey(reenrolled, reenrolled.token, reenrolled.old, reenrolled.next, reenrolled.prepared),
        "bridge_token_revoked"
      )
      expect(
        yield* confirmKey(reenrolled, token, reenrolled.old, reenrolled.next, reenrolled.prepared),
        "bridge_key_rotation_expired"
      )
      expect(yield* askProven(reenrolled, "prepare", token, reenrolled.old), 201)

      const revoked = yield* keyRotating
      expect(yield* askProven(revoked, "revoke", revoked.token, revoked.old), 200)
      expect(
        yield* confirmKey(revoked, revoked.token, revoked.old, revoked.next, revoked.prepared),
        "bridge_token_revoked"
      )

      const banned = yield* keyRotating
      yield* revokeIdentity(banned.bridge)
      expect(yield* confirmKey(banned, banned.token, banned.old, banned.next, banned.prepared), "bridge_revoked")
    })
  )

  it.effect("a disabled project holds up a rotation of key or token, and its window goes on", () =>
    Effect.gen(function* () {
      const projects = Context.get((yield* Service).services, Projects)
      for (const [ends, key, token] of [
        [5, "bridge_key_rotation_expired", "bridge_rotation_expired"],
        [4, 200, 200]
      ] as const) {
        const ofKey = yield* keyRotating
        const ofToken = yield* rotating()
        const confirms = Effect.gen(function* () {
          const confirmed = yield* confirmKey(ofKey, ofKey.token, ofKey.old, ofKey.next, ofKey.prepared)
          return [confirmed, yield* ofToken.confirm(ofToken.successor, ofToken.rotation_id)] as const
        })
        for (const { bridge } of [ofKey, ofToken]) yield* projects.disable(bridge.project_id)
        for (const answer of yield* confirms) expect(answer, "bridge_revoked")
        yield* minutes(ends)
        for (const { bridge } of [ofKey, ofToken]) yield* projects.enable(bridge.project_id)
        const answers = yield* confirms
        expect(answers[0], key)
        expect(answers[1], token)
      }
    })
  )

  it.effect("an operator asks for a new key until the Bridge has one", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const bridges = Context.get(services, Bridges)
      const on = yield* keyHolder
      const { bridge_id, project_id } = on.bridge
      const first = yield* bridges.requireKeyRotation(project_id, bridge_id)
      yield* minutes(1)
      assert.deepStrictEqual(yield* bridges.requireKeyRotation(project_id, bridge_id), first)
      assert.strictEqual((yield* askProven(on, "self", on.token, on.old)).body.key.rotation_required, true)
      const { key_since } = yield* shown(on.bridge)
      // The same key enrolled again is as unwanted as before, and as old.
      yield* minutes(1)
      const { token } = yield* holder(yield* withNewCredential(on.bridge, { reenroll: bridge_id }), "after")
      assert.deepStrictEqual(
        (yield* shown(on.bridge)).tokens.map(({ state }) => state),
        ["active", "revoked"]
      )
      assert.deepStrictEqual((yield* shown(on.bridge)).key_since, key_since)
      assert.strictEqual((yield* askProven(on, "self", token, on.old)).body.key.rotation_required, true)
      const prepared = (yield* prepareKey(on, token, on.old, on.next)).body
      expect(yield* confirmKey(on, token, on.old, on.next, prepared), 200)
      assert.strictEqual((yield* askProven(on, "self", token, on.next)).body.key.rotation_required, false)
      assert.isNull((yield* shown(on.bridge)).key_rotation_required_since)
      yield* revokeIdentity(on.bridge)
      const refused = yield* Effect.flip(bridges.requireKeyRotation(project_id, bridge_id))
      assert.strictEqual(refused._tag, "bridge_not_active")
      assert.strictEqual((yield* Effect.flip(bridges.requireKeyRotation(project_id, "none")))._tag, "bridge_not_found")
    })
  )

  it.effect("each step is counted under its name", () =>
    Effect.gen(function* () {
      const counts = Effect.forEach(["prepare_key", "abort_key", "confirm_key"], (step) =>
        Effect.map(Metric.value(rotations(step, "ok")), (state) => (state as Metric.CounterState<number>).count)
      )
      const before = yield* counts
      const on = yield* keyRotating
      expect(yield* abortKey(on, on.token, on.old, on.prepared), 200)
      const { body } = yield* prepareKey(on, on.token, on.old, on.next, "k2")
      expect(yield* confirmKey(on, on.token, on.old, on.next, body), 200)
      assert.deepStrictEqual(
        (yield* counts).map((count, n) => count - before[n]!),
        [2, 1, 1]
      )
    })
  )

  it.effect("a Bridge may prepare 20 key rotations an hour", () =>
    Effect.gen(function* () {
      const on = { ...(yield* keyHolder), url: (yield* instance({ SERVICE_RATE_LIMITS: "on" })).url }
      for (let turn = 0; turn < 20; turn++) {
        const { body } = yield* prepareKey(on, on.token, on.old, on.next, `k${turn}`)
        expect(yield* abortKey(on, on.token, on.old, body, `a${turn}`), 200)
      }
      yield* minutes(10)
      const limited = yield* prepareKey(on, on.token, on.old, on.next, "more")
      expect(limited, "rate_limited")
      assert.strictEqual(limited.headers.get("retry-after"), "3000")
      yield* minutes(50)
      expect(yield* prepareKey(on, on.token, on.old, on.next, "more"), 201)
    })
  )
})
