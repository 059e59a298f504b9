/** A key of an OAuth client and proofs by it (RFC 9449 4.2), made by jose. */
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose"
import { hash, randomUUID } from "node:crypto"
import { send } from "../network/Http.ts"
import { callback, exchange, type Instance, makeClient, obtainCode, post } from "./Agent.ts"

/** What tells it apart from proofs of an instance that listens elsewhere is the path: any loopback origin counts. */
export const origin = "http://127.0.0.1:8787"

interface About {
  readonly path: string
  readonly method?: string
  readonly token?: string
  /** Over what the proof says; undefined takes a claim away. */
  readonly claims?: Readonly<Record<string, unknown>>
  readonly header?: Readonly<Record<string, unknown>>
}

export const makeKey = (alg: "EdDSA" | "Ed25519" | "ES256" = "ES256") =>
  Effect.promise(async () => {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
    const jwk = (await exportJWK(publicKey)) as JWK
    const jkt = await calculateJwkThumbprint(jwk)
    const proof = ({ claims, header, method = "POST", path, token }: About): Effect.Effect<string> =>
      Effect.flatMap(
        TestClock.testClockWith((clock) => clock.currentTimeMillis),
        (now) =>
          Effect.promise(() =>
            new SignJWT({
              jti: randomUUID(),
              htm: method,
              htu: `${origin}${path}`,
              iat: Math.floor(now / 1000),
              ...(token !== undefined && { ath: hash("sha256", token, "base64url") }),
              ...claims
            })
              .setProtectedHeader({ typ: "dpop+jwt", alg, jwk, ...header })
              .sign(privateKey)
          )
      )
    return { alg, jwk, jkt, privateKey, proof }
  })
export type Key = Effect.Success<ReturnType<typeof makeKey>>

const list = { jsonrpc: "2.0", id: 1, method: "tools/list" }
const device = "/bridge/v1/mobile/devices/00000000-0000-7000-8000-000000000000"

/** Every kind of endpoint that takes an access token. A phone's device that is not there tells that the token was accepted. */
export const doors = {
  "/mcp": { method: "POST", path: "/mcp", body: list, accepted: 200 },
  "a phone's endpoint": { method: "GET", path: device, body: undefined, accepted: 404 },
  "a phone's change": { method: "POST", path: `${device}/revoke`, body: undefined, accepted: 404 }
} as const
export type Door = keyof typeof doors

export const knock = (
  on: { readonly url: string },
  door: Door,
  token: string,
  { proof, scheme = "DPoP" }: { readonly proof?: string | undefined; readonly scheme?: string } = {}
) => {
  const { body, method, path } = doors[door]
  return send(`${on.url}${path}`, {
    method,
    headers: {
      accept: "application/json, text/event-stream",
      authorization: `${scheme} ${token}`,
      ...(proof !== undefined && { dpop: proof })
    },
    ...(body !== undefined && { body })
  })
}

/** The same with a fresh proof. */
export const knockProven = (on: { readonly url: string }, door: Door, token: string, key: Key) =>
  Effect.flatMap(key.proof({ ...doors[door], token }), (proof) => knock(on, door, token, { proof }))

/** Asks /token with a proof, or without one. */
export const askToken = (
  on: { readonly url: string },
  fields: Readonly<Record<string, string | undefined>>,
  proof?: string
) => post(`${on.url}/token`, fields, proof === undefined ? {} : { dpop: proof })

export const tokenPath = "/token"

/** A client that is allowed everything, with a code. */
export const codeFor = Effect.fnUntraced(function* (on: Instance, query: Readonly<Record<string, string>> = {}) {
  const scope = "memory:read memory:write tasks:read mobile:devices"
  const client_id = yield* makeClient(on, {
    redirect_uris: [callback],
    scopes: ["memory:write", "tasks:read", "mobile:devices"]
  })
  const { code, verifier } = yield* obtainCode(on, { client_id, query: { scope, ...query } })
  return { grant_type: "authorization_code", client_id, code, code_verifier: verifier }
})

/** A client whose tokens are bound to the key. */
export const boundSignIn = Effect.fnUntraced(function* (on: Instance, key: Key) {
  const code = yield* codeFor(on)
  const proof = yield* key.proof({ path: tokenPath })
  const { body, status, text } = yield* askToken(on, code, proof)
  if (status !== 200) throw new Error(text)
  return { ...code, key, proof, body, access_token: body.access_token, refresh_token: body.refresh_token } as {
    readonly client_id: string
    readonly code: string
    readonly code_verifier: string
    readonly key: Key
    readonly proof: string
    readonly body: any
    readonly access_token: string
    readonly refresh_token: string
  }
})

/** The same without a proof. */
export const bearerSignIn = Effect.fnUntraced(function* (on: Instance) {
  const code = yield* codeFor(on)
  const { body } = yield* exchange(on, code)
  return { client_id: code.client_id, ...body } as {
    readonly client_id: string
    readonly access_token: string
    readonly refresh_token: string
    readonly token_type: string
  }
})
