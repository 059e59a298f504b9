import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { inspect } from "node:util"
import { subkey } from "../../../src/platform/crypto/Derivation.ts"
import { type Sealed, type SealingKey, SealingRing } from "../../../src/platform/crypto/Sealed.ts"

const key = (id: string, first: number): SealingKey => ({
  id,
  key: Redacted.make(Uint8Array.from({ length: 32 }, (_, i) => first + i))
})
const k1 = key("k1", 0)
const k2 = key("k2", 100)

const ring = (...keys: [SealingKey, ...Array<SealingKey>]) => SealingRing.make({ purpose: "push-token", keys })
const plain = Redacted.make("0123abcd")
const opened = (ring: SealingRing, sealed: Sealed, subject = "device-1") =>
  Option.getOrUndefined(Option.map(ring.open(sealed, subject), Redacted.value))
const sealedBy = (ring: SealingRing) => ring.seal(plain, "device-1")

/** Computed once with another implementation. */
const vector: Sealed = {
  key_id: "k1",
  nonce: Uint8Array.from({ length: 12 }, (_, i) => i),
  ciphertext: Buffer.from("7733e428a487a17f575d5089be6d5dcf440364c440a9817b", "hex")
}

const flipped = (bytes: Uint8Array, bit: number) => bytes.with(bit >> 3, bytes[bit >> 3]! ^ (1 << (bit & 7)))

describe("sealed text", () => {
  it("has a fixed format", () => {
    assert.strictEqual(opened(ring(k1), vector), "0123abcd")
  })

  it.effect("opens for its subject", () =>
    Effect.gen(function* () {
      assert.strictEqual(opened(ring(k1), yield* sealedBy(ring(k1))), "0123abcd")
    })
  )

  it.effect("may be empty, long or not ASCII", () =>
    Effect.gen(function* () {
      for (const text of ["", "päß ✓", "x".repeat(100_000)]) {
        const sealed = yield* ring(k1).seal(Redacted.make(text), "device-1")
        assert.strictEqual(opened(ring(k1), sealed), text)
      }
    })
  )

  it.effect("has a nonce of 12 bytes, and a tag of 16 bytes after the ciphertext", () =>
    Effect.gen(function* () {
      const sealed = yield* sealedBy(ring(k1))
      assert.deepStrictEqual([sealed.nonce.length, sealed.ciphertext.length], [12, 8 + 16])
    })
  )

  it.effect("never has the same nonce twice", () =>
    Effect.gen(function* () {
      const nonces = yield* Effect.replicateEffect(sealedBy(ring(k1)), 10_000)
      assert.strictEqual(new Set(nonces.map(({ nonce }) => Buffer.from(nonce).toString("hex"))).size, 10_000)
    })
  )
})

describe("sealed text does not open", () => {
  it("with any bit flipped", () => {
    for (let bit = 0; bit < vector.ciphertext.length * 8; bit++) {
      assert.isUndefined(opened(ring(k1), { ...vector, ciphertext: flipped(vector.ciphertext, bit) }))
    }
    for (let bit = 0; bit < vector.nonce.length * 8; bit++) {
      assert.isUndefined(opened(ring(k1), { ...vector, nonce: flipped(vector.nonce, bit) }))
    }
  })

  it("if it is truncated", () => {
    for (let length = 0; length < vector.ciphertext.length; length++) {
      assert.isUndefined(opened(ring(k1), { ...vector, ciphertext: vector.ciphertext.subarray(0, length) }))
    }
    for (let length = 0; length < vector.nonce.length; length++) {
      assert.isUndefined(opened(ring(k1), { ...vector, nonce: vector.nonce.subarray(0, length) }))
    }
  })

  it("for another subject", () => {
    for (const subject of ["", "device-2", "device-1\0", "Device-1"]) {
      assert.isUndefined(opened(ring(k1), vector, subject))
    }
  })

  it("for another purpose", () => {
    assert.isUndefined(opened(SealingRing.make({ purpose: "other", keys: [k1] }), vector))
  })

  it("with another key that has the same id", () => {
    assert.isUndefined(opened(ring({ ...k2, id: "k1" }), vector))
  })

  it("under another key id, even of the same key", () => {
    assert.isUndefined(opened(ring(k1, { ...k1, id: "k9" }), { ...vector, key_id: "k9" }))
  })

  it("with a key id that the ring does not have", () => {
    assert.isUndefined(opened(ring(k2), vector))
  })
})

describe("a sealing ring", () => {
  it.effect("seals with its first key and opens with all", () =>
    Effect.gen(function* () {
      const rotated = ring(k2, k1)
      const sealed = yield* sealedBy(rotated)
      assert.strictEqual(rotated.current, "k2")
      assert.strictEqual(sealed.key_id, "k2")
      assert.strictEqual(opened(rotated, sealed), "0123abcd")
      assert.strictEqual(opened(rotated, vector), "0123abcd")
    })
  )

  it.effect("opens with the previous of two derived keys that share an id", () =>
    Effect.gen(function* () {
      const derived = (secret: string): SealingKey => ({
        id: "derived",
        key: subkey(Redacted.make(secret), "mobile/v1/push-token")
      })
      const sealed = yield* sealedBy(ring(derived("the old secret")))
      assert.strictEqual(opened(ring(derived("the new secret"), derived("the old secret")), sealed), "0123abcd")
      assert.isUndefined(opened(ring(derived("the new secret")), sealed))
    })
  )

  it.effect("dies with a key that does not have 32 bytes", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(sealedBy(ring({ id: "k1", key: Redacted.make(new Uint8Array(16)) })))
      assert.strictEqual(exit._tag, "Failure")
    })
  )

  it("shows no key in logs and JSON", () => {
    const shown = inspect(ring(k1), { depth: null, showHidden: true }) + JSON.stringify(ring(k1))
    assert.notMatch(shown, /KeyObject|Uint8Array|Buffer|00 01 02|0, 1, 2/)
  })
})
