/** Keys on the curve P-256 (FIPS 186-5), and the tokens that they sign (ES256, RFC 7518 3.4). */
import { Option, Redacted } from "effect"
import {
  createECDH,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  type KeyObject,
  sign,
  verify as verifyWith
} from "node:crypto"

export interface P256Key {
  readonly privateKey: KeyObject
  /** The uncompressed point, 65 bytes. */
  readonly point: Uint8Array
}

/** The order of the curve's base point. */
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/**
 * The key that a secret and a salt stand for, so that the private key is stored nowhere. The 16 bytes more than the
 * order needs make the remainder uniform (FIPS 186-5 A.2.1).
 */
export const deriveKey = (secret: Redacted.Redacted<Uint8Array>, salt: Uint8Array, info: string): P256Key => {
  const bits = Buffer.from(hkdfSync("sha256", Redacted.value(secret), salt, info, 48)).toString("hex")
  const scalar = (BigInt(`0x${bits}`) % (order - 1n)) + 1n
  const curve = createECDH("prime256v1")
  curve.setPrivateKey(scalar.toString(16).padStart(64, "0"), "hex")
  const point = curve.getPublicKey()
  const key = {
    kty: "EC",
    crv: "P-256",
    x: point.toString("base64url", 1, 33),
    y: point.toString("base64url", 33),
    d: curve.getPrivateKey("base64url")
  }
  return { privateKey: createPrivateKey({ key, format: "jwk" }), point }
}

/** Whether the bytes are an uncompressed point of the curve. */
export const isPoint = (bytes: Uint8Array): boolean => {
  if (bytes.length !== 65 || bytes[0] !== 4) return false
  const curve = createECDH("prime256v1")
  curve.setPrivateKey("01".padStart(64, "0"), "hex")
  return Option.isSome(Option.liftThrowable(() => curve.computeSecret(bytes))())
}

/** A signed JSON Web Token (RFC 7519). */
export const signToken = (header: object, claims: object, key: KeyObject): string => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const content = `${part({ ...header, alg: "ES256" })}.${part(claims)}`
  return `${content}.${sign("sha256", Buffer.from(content), { key, dsaEncoding: "ieee-p1363" }).toString("base64url")}`
}

/** Whether the signature, as ES256 writes it, is by the key with these two coordinates. False for what is no key. */
export const verify = (coordinates: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean => {
  const [x, y] = [coordinates.subarray(0, 32), coordinates.subarray(32)].map((bytes) =>
    Buffer.from(bytes).toString("base64url")
  )
  const key = Option.liftThrowable(() =>
    createPublicKey({ key: { kty: "EC", crv: "P-256", x: x!, y: y! }, format: "jwk" })
  )()
  return Option.exists(key, (key) => verifyWith("sha256", message, { key, dsaEncoding: "ieee-p1363" }, signature))
}
