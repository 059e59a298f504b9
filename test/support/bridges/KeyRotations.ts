/** The requests of a key rotation, as a Bridge sends them. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { fingerprint, generateKeyPair, type KeyPair, sign } from "../../../src/client/Crypto.ts"
import type { Answer } from "../network/Http.ts"
import { Service } from "../service/Service.ts"
import { b64 } from "./Bridge.ts"
import { askProven } from "./signatures/DpopProofs.ts"
import { holder } from "./Tokens.ts"

export interface Prepared {
  readonly key_rotation_id: string
  readonly nonce_b64: string
}

/** The body of a confirm: the nonce signed by both keys. */
export const confirmBody = Effect.fnUntraced(function* (prepared: Prepared, old: KeyPair, next: KeyPair) {
  const nonce = Buffer.from(prepared.nonce_b64, "base64url")
  return {
    key_rotation_id: prepared.key_rotation_id,
    nonce_b64: prepared.nonce_b64,
    public_key_b64: b64(next.publicKey),
    signature_b64: b64(yield* sign(next.privateKey, nonce)),
    predecessor_signature_b64: b64(yield* sign(old.privateKey, Buffer.concat([nonce, next.publicKey])))
  }
})

interface On {
  readonly url: string
}

export const prepareKey = (on: On, token: string, old: KeyPair, next: KeyPair, key = "k1"): Effect.Effect<Answer> =>
  askProven(on, "prepareKey", token, old, { key, body: { public_key_fingerprint: fingerprint(next.publicKey) } })

export const confirmKey = Effect.fnUntraced(function* (
  on: On,
  token: string,
  old: KeyPair,
  next: KeyPair,
  prepared: Prepared,
  key = "c1"
) {
  return yield* askProven(on, "confirmKey", token, old, { key, body: yield* confirmBody(prepared, old, next) })
})

export const abortKey = (on: On, token: string, old: KeyPair, { key_rotation_id }: Prepared, key = "a1") =>
  askProven(on, "abortKey", token, old, { key, body: { key_rotation_id } })

/** An enrolled Bridge, its next key, and the service's address. */
export const keyHolder = Effect.gen(function* () {
  const { url } = yield* Service
  const held = yield* holder()
  return { ...held, url, old: held.bridge.keys, next: yield* generateKeyPair }
})

/** The same with a key rotation pending. */
export const keyRotating = Effect.gen(function* () {
  const held = yield* keyHolder
  const answer = yield* prepareKey(held, held.token, held.old, held.next)
  assert.strictEqual(answer.status, 201, answer.text)
  return { ...held, answer, prepared: answer.body as Prepared }
})
