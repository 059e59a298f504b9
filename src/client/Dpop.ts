/** The proof that a request comes from the holder of the key (RFC 9449 4.2; docs/protocol.md, Proof of possession). */
import { Effect, Redacted } from "effect"
import { type KeyPair, sha256, sign, uuid } from "./Crypto.ts"

/** `at`: the service's time in milliseconds. Without a token: for a request that gets one. */
export const dpopProof = Effect.fnUntraced(function* (
  keys: KeyPair,
  request: { readonly method: string; readonly url: string },
  token: Redacted.Redacted<string> | undefined,
  at: number
) {
  const { origin, pathname } = new URL(request.url)
  return yield* signedJwt(keys, "dpop+jwt", {
    jti: yield* uuid,
    htm: request.method,
    htu: `${origin}${pathname}`,
    iat: Math.floor(at / 1000),
    ...(token !== undefined && { ath: sha256(Redacted.value(token), "base64url") })
  })
})

/** A JSON Web Token that names the key that signs it (RFC 7515 4.1.3). */
export const signedJwt = Effect.fnUntraced(function* ({ privateKey, publicKey }: KeyPair, typ: string, claims: object) {
  const header = { typ, alg: "EdDSA", jwk: { kty: "OKP", crv: "Ed25519", x: base64url(publicKey) } }
  const message = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
  return `${message}.${base64url(yield* sign(privateKey, Buffer.from(message)))}`
})

/** The name of a key in a request for a code (RFC 7638). */
export const thumbprint = ({ publicKey }: KeyPair): string =>
  sha256(JSON.stringify({ crv: "Ed25519", kty: "OKP", x: base64url(publicKey) }), "base64url")

const base64url = (data: string | Uint8Array) => Buffer.from(data).toString("base64url")
