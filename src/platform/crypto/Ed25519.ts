/**
 * Strict Ed25519 verification: proves that a Bridge holds the key it declared (spec 4.2, 5; decisions.md, Signature
 * verification).
 *
 * A signature R || S of a message M is valid under a public key A if
 *   1. A and R are canonical encodings (y < p) of points that are not of small order,
 *   2. S < L,
 *   3. [S]B = R + [k]A, where k = SHA-512(R || A || M) mod L.
 *
 * RFC 8032 5.1.7 requires less: it accepts points of small order, and allows 3 to be multiplied by the cofactor. Under a
 * key of small order anyone can forge signatures, so a Bridge could pass without holding any key.
 * Both layers give the same answer for every input.
 */
import { hashes, Point, verifyAsync } from "@noble/ed25519"
import { Context, Effect, Layer } from "effect"
import { createPublicKey, type KeyObject, verify } from "node:crypto"

export class Ed25519 extends Context.Service<
  Ed25519,
  {
    /** False for malformed input of any length; never fails. */
    readonly verify: (claim: {
      readonly publicKey: Uint8Array
      readonly message: Uint8Array
      readonly signature: Uint8Array
    }) => Effect.Effect<boolean>
  }
>()("bridge-service/crypto/Ed25519") {
  /** OpenSSL, for the server: about twenty times as fast as noble. */
  static readonly layerNode = Layer.sync(Ed25519, () => {
    const imported = importer()
    return {
      verify: ({ publicKey, message, signature }) =>
        Effect.sync(
          () =>
            publicKey.length === 32 &&
            signature.length === 64 &&
            isStrict(publicKey) &&
            isStrict(signature.subarray(0, 32)) &&
            littleEndian(signature.subarray(32)) < L &&
            verify(null, message, imported(publicKey), signature)
        )
    }
  })

  /** An independent implementation, which the tests compare with OpenSSL's. */
  static readonly layerNoble = Layer.succeed(Ed25519, {
    verify: Effect.fnUntraced(function* ({ publicKey, message, signature }) {
      if (publicKey.length !== 32 || signature.length !== 64) return false
      if (!(yield* Effect.promise(() => verifyAsync(signature, message, publicKey, { zip215: false })))) return false
      // noble multiplies by the cofactor and accepts an R of small order, so both are checked here.
      const A = Point.fromBytes(publicKey)
      const R = Point.fromBytes(signature.subarray(0, 32))
      const S = littleEndian(signature.subarray(32))
      const challenge = Buffer.concat([signature.subarray(0, 32), publicKey, message])
      const k = littleEndian(yield* Effect.promise(() => hashes.sha512Async(challenge))) % L
      return !R.isSmallOrder() && R.add(A.multiplyUnsafe(k)).equals(Point.BASE.multiplyUnsafe(S))
    })
  })
}

const p = 2n ** 255n - 19n
const L = 2n ** 252n + 27742317777372353535851937790883648493n

/** The points of order 8 are (±x, ±y8); points of lower order have y = 0, 1 or -1. */
const y8 = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n
const smallOrder = new Set([0n, 1n, p - 1n, y8, p - y8])

/** Ignores the sign of x. That also rejects a negative x = 0, the only non-canonical encoding with y < p. */
const isStrict = (point: Uint8Array) => {
  const y = BigInt.asUintN(255, littleEndian(point))
  return y < p && !smallOrder.has(y)
}

const littleEndian = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes.toReversed()).toString("hex")}`)

/** An import costs a third of a verification, and most Bridges come again: the last thousand keys stay imported. */
const importer = () => {
  const known = new Map<string, KeyObject>()
  return (publicKey: Uint8Array): KeyObject => {
    const x = Buffer.from(publicKey).toString("base64url")
    // RFC 8037 2.
    const key = known.get(x) ?? createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" })
    known.delete(x)
    known.set(x, key)
    if (known.size > 1000) known.delete(known.keys().next().value!)
    return key
  }
}
