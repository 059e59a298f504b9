/** Proofs at the edge cases of Ed25519, over HTTP: each is refused with its exact code and leaves its challenge open. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { b64, type Bridge } from "../support/bridges/Bridge.ts"
import { count, decode, encode, join, L, nonCanonical, smallOrder } from "../support/bridges/signatures/Ed25519Edges.ts"
import { fingerprint } from "../../src/platform/crypto/Fingerprint.ts"
import type { Answer } from "../support/network/Http.ts"
import { unchanged } from "../support/database/Rows.ts"
import { Service } from "../support/service/Service.ts"
import { ask, challenged, fresh, prove } from "../support/bridges/Steps.ts"

/** Bits flipped; wrong lengths; all zeros and all ones; S of L or more; R of small order or not canonical. */
const spoiled = (signature: Uint8Array): ReadonlyArray<Uint8Array> => {
  const [R, S] = [signature.subarray(0, 32), signature.subarray(32)]
  return [
    ...count(64).map((byte) => signature.with(byte, signature[byte]! ^ (1 << (byte % 8)))),
    ...[1, 32, 63, 65].map((length) => join(signature, signature).subarray(0, length)),
    new Uint8Array(64),
    new Uint8Array(64).fill(0xff),
    ...[1n, 7n, 14n].map((times) => join(R, encode(decode(S) + times * L))),
    ...smallOrder.map((R) => join(R, S)),
    ...nonCanonical.slice(0, 8).map((R) => join(R, S))
  ]
}

layer(Service.layer)("a proof", (it) => {
  const refused = (bridge: Bridge, challenge: Answer, body: object, code: string) =>
    Effect.map(prove(bridge, challenge, { body }), (answer) => {
      assert.deepStrictEqual([answer.status, answer.code], [401, code], answer.text)
    })

  it.effect("with an altered signature is refused, and the valid one is accepted afterwards", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const { signature_b64 } = yield* bridge.proofBody(challenge)
      const each = Effect.forEach(
        spoiled(Buffer.from(signature_b64, "base64url")),
        (signature) => refused(bridge, challenge, { signature_b64: b64(signature) }, "enrollment_proof_invalid"),
        { concurrency: 8 }
      )
      yield* unchanged(each)
      assert.strictEqual((yield* prove(bridge, challenge)).status, 200)
    })
  )

  it.effect("by another Bridge's key is refused, and the valid one is accepted afterwards", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const { keys } = yield* fresh()
      const body = yield* bridge.proofBody(challenge, keys)
      yield* unchanged(refused(bridge, challenge, body, "enrollment_key_mismatch"))
      assert.strictEqual((yield* prove(bridge, challenge)).status, 200)
    })
  )

  it.effect(
    "under a small-order key, for which anybody can sign, is refused even if its challenge named that key",
    () =>
      Effect.gen(function* () {
        for (const key of [...smallOrder, ...nonCanonical.slice(0, 8)]) {
          const bridge = yield* fresh()
          const challenge = yield* ask(bridge, { body: { public_key_fingerprint: fingerprint(key) } })
          assert.strictEqual(challenge.status, 201, challenge.text)
          // With S = 0 a lenient verifier accepts one of these for about one nonce in eight.
          const each = Effect.forEach(smallOrder, (R) => {
            const body = { public_key_b64: b64(key), signature_b64: b64(join(R, new Uint8Array(32))) }
            return refused(bridge, challenge, body, "enrollment_proof_invalid")
          })
          yield* unchanged(each)
        }
      })
  )
})
