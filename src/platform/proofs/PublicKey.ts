/** Public keys as JSON Web Keys (RFC 7517): Ed25519 (RFC 8037 2) and P-256 (RFC 7518 6.2.1). */
import { Effect } from "effect"
import type { Ed25519 } from "../crypto/Ed25519.ts"
import { verify as verifyP256 } from "../crypto/P256.ts"
import { sha256 } from "../crypto/Sha256.ts"
import { bytesIn, isObject, type Jwt } from "./Jwt.ts"

export interface PublicKey {
  readonly algorithm: "EdDSA" | "ES256"
  /** 32 bytes of Ed25519, or the two coordinates of P-256. */
  readonly bytes: Uint8Array
  /** SHA-256 over the key's members in their canonical form (RFC 7638): what a token names its key by. */
  readonly thumbprint: Uint8Array
}

/** Undefined for any other value. A private key is refused: it was sent to somebody, so it proves nothing. */
export const publicKeyIn = (jwk: unknown): PublicKey | undefined => {
  if (!isObject(jwk) || "d" in jwk) return undefined
  const x = coordinate(jwk["x"])
  if (x === undefined) return undefined
  if (jwk["kty"] === "OKP" && jwk["crv"] === "Ed25519")
    return { algorithm: "EdDSA", bytes: x, thumbprint: thumbprintOf({ crv: "Ed25519", kty: "OKP", x: jwk["x"] }) }
  const y = coordinate(jwk["y"])
  if (y === undefined || jwk["kty"] !== "EC" || jwk["crv"] !== "P-256") return undefined
  return {
    algorithm: "ES256",
    bytes: Buffer.concat([x, y]),
    thumbprint: thumbprintOf({ crv: "P-256", kty: "EC", x: jwk["x"], y: jwk["y"] })
  }
}

const coordinate = (text: unknown) => {
  const bytes = typeof text === "string" ? bytesIn(text) : undefined
  return bytes?.length === 32 ? bytes : undefined
}

const thumbprintOf = (members: object) => sha256(JSON.stringify(members))

/** The algorithm that a header names; `Ed25519` is what RFC 9864 calls EdDSA with this curve. */
export const algorithmOf = (alg: unknown): PublicKey["algorithm"] | undefined => {
  if (alg === "EdDSA" || alg === "Ed25519") return "EdDSA"
  return alg === "ES256" ? "ES256" : undefined
}

/** Whether the key has signed the token. */
export const isSignedBy = (
  { verify }: Ed25519["Service"],
  { bytes, algorithm }: PublicKey,
  { message, signature }: Jwt
): Effect.Effect<boolean> =>
  algorithm === "EdDSA"
    ? verify({ publicKey: bytes, message, signature })
    : Effect.sync(() => verifyP256(bytes, message, signature))
