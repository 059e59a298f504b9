/** DPoP proofs as a Bridge makes them, and proofs with one thing wrong (RFC 9449 4.2). */
import { Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { createPrivateKey, hash, randomUUID, sign } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { KeyPair } from "../../../../src/client/Crypto.ts"
import { type Answer, send } from "../../network/Http.ts"
import { b64 } from "../Bridge.ts"

/** The address in the proofs of the tests: the origin of SERVICE_BASE_URL, whatever port the instance listens on. */
export const origin = "http://127.0.0.1:8787"

export const endpoints = {
  prepare: ["POST", "/bridge/v1/tokens/rotate/prepare"],
  confirm: ["POST", "/bridge/v1/tokens/rotate/confirm"],
  abort: ["POST", "/bridge/v1/tokens/rotate/abort"],
  revoke: ["POST", "/bridge/v1/tokens/revoke"],
  self: ["GET", "/bridge/v1/tokens/self"],
  prepareKey: ["POST", "/bridge/v1/keys/rotate/prepare"],
  confirmKey: ["POST", "/bridge/v1/keys/rotate/confirm"],
  abortKey: ["POST", "/bridge/v1/keys/rotate/abort"]
} as const
export type Endpoint = keyof typeof endpoints

export const jwkOf = ({ publicKey }: KeyPair) => ({ kty: "OKP", crv: "Ed25519", x: b64(publicKey) })

/** Signs the two parts as they are given: objects as JSON, texts unchanged. */
export const signed = (keys: KeyPair, header: object | string, payload: object | string) => {
  const part = (value: object | string) =>
    Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url")
  const message = `${part(header)}.${part(payload)}`
  const d = b64(Redacted.value(keys.privateKey))
  const key = createPrivateKey({ key: { ...jwkOf(keys), d }, format: "jwk" })
  return `${message}.${sign(null, Buffer.from(message), key).toString("base64url")}`
}

/** What a proof for this request says now. */
export const claims = (endpoint: Endpoint, token: string) =>
  Effect.map(
    TestClock.testClockWith((clock) => clock.currentTimeMillis),
    (now) => ({
      htm: endpoints[endpoint][0] as string,
      htu: `${origin}${endpoints[endpoint][1]}`,
      iat: Math.floor(now / 1000),
      jti: randomUUID() as string,
      ath: hash("sha256", token, "base64url")
    })
  )

export const headerOf = (keys: KeyPair) => ({ typ: "dpop+jwt", alg: "EdDSA", jwk: jwkOf(keys) })

export const proofFor = (keys: KeyPair, endpoint: Endpoint, token: string, changes: object = {}) =>
  Effect.map(claims(endpoint, token), (payload) => signed(keys, headerOf(keys), { ...payload, ...changes }))

/** The key in the state folder of a reference Bridge. */
export const keysIn = (path: string) => {
  const { private_key_b64, public_key_b64 } = JSON.parse(readFileSync(join(path, "key.json"), "utf8"))
  return {
    publicKey: Buffer.from(public_key_b64, "base64url"),
    privateKey: Redacted.make<Uint8Array>(Buffer.from(private_key_b64, "base64url"))
  }
}

interface Given {
  readonly proof?: string | undefined
  readonly key?: string
  readonly rotation_id?: string
  readonly body?: object | undefined
  readonly scheme?: "Bearer" | "DPoP"
}

/** Sends a request with a token, and with a proof if there is one. */
export const ask = (
  { url }: { readonly url: string },
  endpoint: Endpoint,
  token: string,
  { body, key = randomUUID(), proof, rotation_id, scheme = "Bearer" }: Given = {}
): Effect.Effect<Answer> =>
  send(`${url}${endpoints[endpoint][1]}`, {
    method: endpoints[endpoint][0],
    headers: {
      authorization: `${scheme} ${token}`,
      ...(endpoint === "self" || endpoint === "revoke" ? {} : { "idempotency-key": key }),
      ...(proof === undefined ? {} : { dpop: proof })
    },
    ...(body === undefined ? {} : { body }),
    ...(rotation_id === undefined ? {} : { body: { rotation_id } })
  })

/** The same with a fresh proof. */
export const askProven = (
  on: { readonly url: string },
  endpoint: Endpoint,
  token: string,
  keys: KeyPair,
  given: Given = {}
) => Effect.flatMap(proofFor(keys, endpoint, token), (proof) => ask(on, endpoint, token, { proof, ...given }))
