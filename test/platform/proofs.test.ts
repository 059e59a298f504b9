/** What a JWT and a public key in it may look like, before anybody asks who has signed (RFC 7515, 7517). */
import { assert, describe, it } from "vitest"
import { parse } from "../../src/platform/proofs/Jwt.ts"
import { publicKeyIn } from "../../src/platform/proofs/PublicKey.ts"

const signature = "A".repeat(86)
const part = (json: string) => Buffer.from(json).toString("base64url")
/** The same bytes, spelled by another last character. */
const respelled = (text: string) => text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + 1)

describe("a JWT", () => {
  it("has at most 2048 characters", () => {
    const ofLength = (length: number) => `${"A".repeat(length - 91)}.e30.${signature}`
    assert.lengthOf(ofLength(2048), 2048)
    assert.isDefined(parse(ofLength(2048)))
    assert.isUndefined(parse(ofLength(2049)))
  })

  it("consists of three parts in the one encoding of their bytes", () => {
    const [header, claims] = [part('{"a":1}'), part('{"b":[]}')]
    const jwt = parse(`${header}.${claims}.${signature}`)!
    assert.deepStrictEqual([jwt.header, jwt.claims], [{ a: 1 }, { b: [] }])
    assert.strictEqual(Buffer.from(jwt.message).toString(), `${header}.${claims}`)
    assert.deepStrictEqual(parse(`${respelled(header)}.${claims}.${signature}`)?.header, {})
    assert.deepStrictEqual(parse(`${header}.${respelled(claims)}.${signature}`)?.claims, {})
    assert.isUndefined(parse(`${header}.${claims}.${respelled(signature)}`))
  })
})

describe("a public key", () => {
  const coordinate = "A".repeat(43)
  const ed25519 = { kty: "OKP", crv: "Ed25519", x: coordinate }
  const p256 = { kty: "EC", crv: "P-256", x: coordinate, y: coordinate }

  it("is one of Ed25519 or P-256", () => {
    assert.strictEqual(publicKeyIn(ed25519)?.algorithm, "EdDSA")
    assert.strictEqual(publicKeyIn(p256)?.algorithm, "ES256")
  })

  it.each([
    ["a private one", { ...ed25519, d: coordinate }],
    ["a private one of P-256", { ...p256, d: coordinate }],
    ["of another type", { ...ed25519, kty: "EC" }],
    ["of another curve", { ...ed25519, crv: "X25519" }],
    ["of P-256 of another type", { ...p256, kty: "OKP" }],
    ["of another curve than P-256", { ...p256, crv: "secp256k1" }],
    ["with 31 bytes", { ...ed25519, x: coordinate.slice(1) }],
    ["with 33 bytes", { ...ed25519, x: `${coordinate}A` }],
    ["with x spelled otherwise", { ...ed25519, x: respelled(coordinate) }],
    ["of P-256 with x spelled otherwise", { ...p256, x: respelled(coordinate) }],
    ["with y spelled otherwise", { ...p256, y: respelled(coordinate) }],
    ["of P-256 without y", { ...p256, y: undefined }],
    ["with a number", { ...ed25519, x: 1 }],
    ["in a list", [ed25519]],
    ["that is null", null]
  ])("is none %s", (_, jwk) => {
    assert.isUndefined(publicKeyIn(jwk))
  })
})
