/** The proof that a request comes from the holder of the key (RFC 9449 4.2; docs/protocol.md, Proof of possession). */
import { Effect, Redacted } from "effect"
import { type KeyPair, sha256, sign, uuid } from "./Crypto.ts"

/** `at`: the service's time in milliseconds. */
export const dpopProof = Effect.fnUntraced(function* (
  { privateKey, publicKey }: KeyPair,
  request: { readonly method: string; readonly url: string },
  token: Redacted.Redacted<string>,
  at: number
) {
  const { origin, pathname } = new URL(request.url)
  const header = { typ: "dpop+jwt", alg: "EdDSA", jwk: { kty: "OKP", crv: "Ed25519", x: base64url(publicKey) } }
  const claims = {
    jti: yield* uuid,
    htm: request.method,
    htu: `${origin}${pathname}`,
    iat: Math.floor(at / 1000),
    ath: sha256(Redacted.value(token), "base64url")
  }
  const message = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
  return `${message}.${base64url(yield* sign(privateKey, Buffer.from(message)))}`
})

const base64url = (data: string | Uint8Array) => Buffer.from(data).toString("base64url")
