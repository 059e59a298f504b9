import { assert, describe, it, layer } from "@effect/vitest"
import { Point } from "@noble/ed25519"
import { Context, Effect, Layer, Redacted } from "effect"
import { createHash, randomBytes, randomInt } from "node:crypto"
import { Ed25519 } from "../../../src/platform/crypto/Ed25519.ts"
import { fingerprint } from "../../../src/platform/crypto/Fingerprint.ts"
import { generateKeyPair, sign } from "../../../src/client/Crypto.ts"
import {
  bytes,
  count,
  decode,
  encode,
  hex,
  join,
  L,
  nonCanonical,
  smallOrder
} from "../../support/bridges/signatures/Ed25519Edges.ts"

interface Claim {
  readonly publicKey: Uint8Array
  readonly message: Uint8Array
  readonly signature: Uint8Array
}

const flip = (bytes: Uint8Array, bit: number) => bytes.with(bit >> 3, bytes[bit >> 3]! ^ (1 << (bit & 7)))
const flips = (bytes: Uint8Array) => count(bytes.length * 8).map((bit) => flip(bytes, bit))
const resize = (bytes: Uint8Array, length: number) => join(bytes, new Uint8Array(128)).subarray(0, length)

/** RFC 8032 7.1. */
const rfc8032 = [
  {
    name: "TEST 1",
    secret: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    publicKey: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    message: "",
    signature:
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
  },
  {
    name: "TEST 2",
    secret: "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    publicKey: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    message: "72",
    signature:
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
  },
  {
    name: "TEST 3",
    secret: "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
    publicKey: "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    message: "af82",
    signature:
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
  },
  {
    name: "TEST SHA(abc)",
    secret: "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
    publicKey: "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
    message:
      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    signature:
      "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"
  }
].map(({ name, secret, ...claim }) => ({
  name,
  privateKey: Redacted.make(bytes(secret)),
  claim: {
    publicKey: bytes(claim.publicKey),
    message: bytes(claim.message),
    signature: bytes(claim.signature)
  } satisfies Claim
}))

const claim = rfc8032[1]!.claim
const R = claim.signature.subarray(0, 32)
const S = claim.signature.subarray(32)

const identity = encode(1n)
const orderEight = smallOrder[4]!

/** No point of the curve has y = 2. */
const noPoint = encode(2n)

const challenge = (R: Uint8Array, publicKey: Uint8Array, message: Uint8Array) =>
  decode(
    createHash("sha512")
      .update(join(R, publicKey, message))
      .digest()
  ) % L

/** S = r + ka, as the holder of a signs; R and the key may differ from rB and aB by a point of small order. */
const signAs = (a: bigint, publicKey: Uint8Array, r: bigint, R: Uint8Array, message: Uint8Array): Claim => ({
  publicKey,
  message,
  signature: join(R, encode((r + challenge(R, publicKey, message) * a) % L))
})

/**
 * A signature of mixed order: tA is added to the key and tR to R. The equation then holds only if tR + [k]tA = 0; with
 * the cofactor it always holds. The scalars are derived from the message.
 */
const signMixed = (tA: Uint8Array, tR: Uint8Array, message: Uint8Array) => {
  const a = challenge(identity, identity, message)
  const r = challenge(identity, encode(a), message)
  const publicKey = Point.BASE.multiply(a).add(Point.fromBytes(tA)).toBytes()
  const R = Point.BASE.multiply(r).add(Point.fromBytes(tR)).toBytes()
  const k = challenge(R, publicKey, message)
  const holds = Point.fromBytes(tR)
    .add(Point.fromBytes(tA).multiplyUnsafe(k % 8n))
    .is0()
  return { claim: signAs(a, publicKey, r, R, message), holds }
}
const mixed = count(64).map((i) => signMixed(orderEight, smallOrder[i % 8]!, Uint8Array.of(i)))

const a = 12_345n
const A = Point.BASE.multiply(a).toBytes()

/** Forged without a private key: the equation holds where [k] or R cancels a key of small order. */
const forge = (publicKey: Uint8Array) =>
  [[a, A] as const, ...smallOrder.map((R) => [0n, R] as const)].flatMap(([r, R]) =>
    count(8).map((i) => signAs(0n, publicKey, r, R, Uint8Array.of(i)))
  )

const accepted: ReadonlyArray<readonly [name: string, claims: ReadonlyArray<Claim>]> = [
  ...rfc8032.map(({ name, claim }) => [`of RFC 8032 7.1 ${name}`, [claim]] as const),
  ["over 100,000 bytes", [signMixed(identity, identity, new Uint8Array(100_000)).claim]],
  ["with key and R of mixed order that cancel out", mixed.flatMap(({ claim, holds }) => (holds ? [claim] : []))]
]

const refused: ReadonlyArray<readonly [name: string, claims: ReadonlyArray<Claim>]> = [
  ["with any bit flipped", flips(claim.signature).map((signature) => ({ ...claim, signature }))],
  ["with any bit of its key flipped", flips(claim.publicKey).map((publicKey) => ({ ...claim, publicKey }))],
  ["with any bit of its message flipped", flips(claim.message).map((message) => ({ ...claim, message }))],
  ["over a longer or shorter message", ["", "7200", "0072"].map((hex) => ({ ...claim, message: bytes(hex) }))],
  ["by the key of another Bridge", [{ ...claim, publicKey: rfc8032[2]!.claim.publicKey }]],
  ["with R and S exchanged", [{ ...claim, signature: join(S, R) }]],
  ["of another length", [0, 1, 32, 63, 65, 128].map((n) => ({ ...claim, signature: resize(claim.signature, n) }))],
  [
    "with a key of another length",
    [0, 1, 31, 33, 64].map((n) => ({ ...claim, publicKey: resize(claim.publicKey, n) }))
  ],
  ["of zeros", [{ ...claim, signature: new Uint8Array(64) }]],
  ["of zeros under a key of zeros", [{ ...claim, publicKey: new Uint8Array(32), signature: new Uint8Array(64) }]],
  ["of ones", [{ ...claim, signature: new Uint8Array(64).fill(0xff) }]],
  [
    "with an S of L or more",
    [...count(14).map((i) => decode(S) + L * BigInt(i + 1)), L, 2n ** 256n - 1n].map((S) => ({
      ...claim,
      signature: join(R, encode(S))
    }))
  ],
  ["with a key of small order, though the equation may hold", smallOrder.flatMap(forge)],
  [
    "with an R of small order, though the equation may hold",
    smallOrder.flatMap((R) => count(8).map((i) => signAs(a, A, 0n, R, Uint8Array.of(i))))
  ],
  ["with a key that is not canonical", nonCanonical.flatMap(forge)],
  ["with an R that is not canonical", nonCanonical.map((R) => signAs(a, A, 0n, R, claim.message))],
  ["with a key that is not a point", [{ ...claim, publicKey: noPoint }]],
  ["with an R that is not a point", [signAs(a, A, 0n, noPoint, claim.message)]],
  ["with key and R of mixed order that do not cancel out", mixed.flatMap(({ claim, holds }) => (holds ? [] : [claim]))]
]

for (const [name, verifier] of [
  ["Node", Ed25519.layerNode],
  ["noble", Ed25519.layerNoble]
] as const) {
  layer(verifier)(`Ed25519 by ${name}`, (it) => {
    const answers = (claims: ReadonlyArray<Claim>) =>
      Effect.flatMap(Ed25519, (ed25519) => Effect.forEach(claims, (claim) => ed25519.verify(claim)))

    for (const [name, claims] of accepted) {
      it.effect(`accepts a signature ${name}`, () =>
        Effect.gen(function* () {
          assert.deepStrictEqual(new Set(yield* answers(claims)), new Set([true]))
        })
      )
    }

    for (const [name, claims] of refused) {
      it.effect(`refuses a signature ${name}`, () =>
        Effect.gen(function* () {
          assert.deepStrictEqual(new Set(yield* answers(claims)), new Set([false]))
        })
      )
    }
  })
}

describe("Ed25519 by Node and by noble", () => {
  /** Twenty claims for one random key, and whether each is valid. */
  const twenty = Effect.gen(function* () {
    const { privateKey, publicKey } = yield* generateKeyPair
    const message = randomBytes(32)
    const signature = yield* sign(privateKey, message)
    const claim: Claim = { publicKey, message, signature }
    const S = decode(signature.subarray(32))
    const any = (points: ReadonlyArray<Uint8Array>) => points[randomInt(points.length)]!
    const refused: ReadonlyArray<Claim> = [
      ...count(3).map(() => ({ ...claim, publicKey: flip(publicKey, randomInt(256)) })),
      ...count(3).map(() => ({ ...claim, message: flip(message, randomInt(256)) })),
      ...count(3).map(() => ({ ...claim, signature: flip(signature, randomInt(256)) })),
      ...count(3).map(() => ({ ...claim, signature: flip(signature, 256 + randomInt(256)) })),
      { ...claim, signature: join(signature.subarray(0, 32), encode(S + L)) },
      { ...claim, publicKey: rfc8032[0]!.claim.publicKey },
      { publicKey: randomBytes(32), message, signature: randomBytes(64) },
      signAs(0n, any([...smallOrder, ...nonCanonical]), 0n, any(smallOrder), message),
      signAs(a, A, 0n, any([...smallOrder, ...nonCanonical]), message)
    ]
    return [
      { claim, holds: true },
      ...refused.map((claim) => ({ claim, holds: false })),
      signMixed(any(smallOrder), identity, message),
      signMixed(any(smallOrder), any(smallOrder), message)
    ]
  })

  it.effect(
    "gives the same answer to 3,000 random claims",
    () =>
      Effect.gen(function* () {
        const node = Context.get(yield* Layer.build(Ed25519.layerNode), Ed25519)
        const noble = Context.get(yield* Layer.build(Ed25519.layerNoble), Ed25519)
        const cases = (yield* Effect.replicateEffect(twenty, 150)).flat()
        const different = yield* Effect.filter(cases, ({ claim, holds }) =>
          Effect.zipWith(node.verify(claim), noble.verify(claim), (a, b) => a !== holds || b !== holds)
        )
        assert.strictEqual(cases.length, 3000)
        assert.deepStrictEqual(different, [])
      }),
    120_000
  )
})

describe("a key pair", () => {
  for (const { claim, name, privateKey } of rfc8032) {
    it.effect(`signs as RFC 8032 7.1 ${name}`, () =>
      Effect.gen(function* () {
        assert.strictEqual(hex(yield* sign(privateKey, claim.message)), hex(claim.signature))
      })
    )
  }

  it.effect("is different every time", () =>
    Effect.gen(function* () {
      const pairs = yield* Effect.replicateEffect(generateKeyPair, 100)
      assert.strictEqual(new Set(pairs.map(({ publicKey }) => hex(publicKey))).size, 100)
    })
  )

  it.effect("shows no private key in logs and JSON", () =>
    Effect.gen(function* () {
      const { privateKey } = yield* generateKeyPair
      assert.strictEqual(`${privateKey} ${JSON.stringify(privateKey)}`, `<redacted> "<redacted>"`)
    })
  )
})

describe("the fingerprint of a public key", () => {
  it("is sha256: and 64 lowercase hex characters over its 32 bytes", () => {
    assert.strictEqual(
      fingerprint(rfc8032[0]!.claim.publicKey),
      "sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"
    )
  })
})
