/**
 * A thief has every token of a Bridge that proves its key, and every proof that it has sent, but not the key: each request
 * gets the same refusal, in every state of token and identity and at every replica, and changes nothing.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import {
  ask,
  askProven,
  claims,
  type Endpoint,
  endpoints,
  headerOf,
  proofFor,
  signed
} from "../support/bridges/signatures/DpopProofs.ts"
import { abortKey, confirmKey, prepareKey } from "../support/bridges/KeyRotations.ts"
import { disableProject, revokeIdentity } from "../support/bridges/Steps.ts"
import { holder } from "../support/bridges/Tokens.ts"
import { unchanged } from "../support/database/Rows.ts"
import { instance, Service } from "../support/service/Service.ts"

/** A Bridge that has proved its key and has a rotation under way, and what somebody saw of it. */
const victim = Effect.gen(function* () {
  const service = yield* Service
  const { bridge, token } = yield* holder()
  const { keys } = bridge
  const proven = (endpoint: Endpoint, bearer: string, rotation_id?: string) =>
    askProven(service, endpoint, bearer, keys, rotation_id === undefined ? {} : { rotation_id })
  const seen = yield* proofFor(keys, "self", token)
  assert.strictEqual((yield* ask(service, "self", token, { proof: seen })).status, 200)
  const prepared = yield* proven("prepare", token)
  assert.strictEqual(prepared.status, 201, prepared.text)
  const { rotation_id, successor_token } = prepared.body as Record<string, string>
  return {
    bridge,
    keys,
    seen,
    tokens: [token, successor_token!] as const,
    rotation_id: rotation_id!,
    key_rotation_id: randomUUID() as string,
    proven
  }
})
type Victim = Effect.Success<typeof victim>

/** Begins a key rotation in the place of the token's. */
const beginKey = Effect.fnUntraced(function* (of: Victim) {
  const on = yield* Service
  const [token, successor] = of.tokens
  const next = yield* generateKeyPair
  yield* of.proven("abort", successor, of.rotation_id)
  const prepared = yield* prepareKey(on, token, of.keys, next)
  assert.strictEqual(prepared.status, 201, prepared.text)
  of.key_rotation_id = prepared.body.key_rotation_id
  return { on, token, next, prepared: prepared.body }
})

const states: Record<string, (of: Victim) => Effect.Effect<unknown, unknown, Service>> = {
  "while a rotation is pending": () => Effect.void,
  "after the rotation was confirmed": ({ proven, rotation_id, tokens }) => proven("confirm", tokens[1], rotation_id),
  "after the rotation was aborted": ({ proven, rotation_id, tokens }) => proven("abort", tokens[1], rotation_id),
  "while a key rotation is pending": beginKey,
  "after the key was replaced": (of) =>
    Effect.flatMap(beginKey(of), ({ next, on, prepared, token }) => confirmKey(on, token, of.keys, next, prepared)),
  "after a key rotation was aborted": (of) =>
    Effect.flatMap(beginKey(of), ({ on, prepared, token }) => abortKey(on, token, of.keys, prepared)),
  "after the window of the rotation": () => TestClock.adjust("6 minutes"),
  "after the token was revoked": ({ proven, tokens }) => proven("revoke", tokens[0]),
  "after the token has expired": () => TestClock.adjust("25 hours"),
  "after the Bridge was revoked": ({ bridge }) => revokeIdentity(bridge),
  "while the project is disabled": ({ bridge }) => disableProject(bridge)
}

const bodies = ({ key_rotation_id, rotation_id }: Victim): Partial<Record<Endpoint, object>> => {
  const [bytes, signature] = [32, 64].map((length) => Buffer.alloc(length, 1).toString("base64url"))
  const signatures = { signature_b64: signature, predecessor_signature_b64: signature }
  return {
    confirm: { rotation_id },
    abort: { rotation_id },
    prepareKey: { public_key_fingerprint: `sha256:${"1".repeat(64)}` },
    confirmKey: { key_rotation_id, nonce_b64: bytes, public_key_b64: bytes, ...signatures },
    abortKey: { key_rotation_id }
  }
}

/** What a thief can send as proof. */
const forgeries: Record<string, (of: Victim, endpoint: Endpoint, token: string) => Effect.Effect<string | undefined>> =
  {
    nothing: () => Effect.succeed(undefined),
    "a proof that the Bridge has sent": ({ seen }) => Effect.succeed(seen),
    "a proof by another key": (_, endpoint, token) =>
      Effect.flatMap(generateKeyPair, (keys) => proofFor(keys, endpoint, token)),
    "a proof that names the key of the Bridge": ({ keys }, endpoint, token) =>
      Effect.map(Effect.zip(generateKeyPair, claims(endpoint, token)), ([own, payload]) =>
        signed(own, headerOf(keys), payload)
      ),
    "a proof that the Bridge has sent, about this request": ({ seen }, endpoint, token) =>
      Effect.map(claims(endpoint, token), (payload) => {
        const [header, , signature] = seen.split(".")
        return [header, Buffer.from(JSON.stringify(payload)).toString("base64url"), signature].join(".")
      })
  }

layer(Service.layer)("with every token and without the key", (it) => {
  for (const [state, reach] of Object.entries(states)) {
    it.effect(`a thief gets nothing ${state}`, () =>
      Effect.gen(function* () {
        const replicas = [yield* Service, yield* instance()]
        const of = yield* victim
        yield* reach(of)
        const requests = (Object.keys(endpoints) as Array<Endpoint>).flatMap((endpoint) =>
          of.tokens.flatMap((token) =>
            Object.entries(forgeries).map(([forgery, forge]) => ({ endpoint, forge, forgery, token }))
          )
        )
        const steal = Effect.forEach(
          requests,
          ({ endpoint, forge, forgery, token }, index) =>
            Effect.gen(function* () {
              const proof = yield* forge(of, endpoint, token)
              const answer = yield* ask(replicas[index % 2]!, endpoint, token, { proof, body: bodies(of)[endpoint] })
              assert.strictEqual(answer.code, "bridge_proof_of_possession_invalid", `${endpoint}, ${forgery}`)
            }),
          { concurrency: 8, discard: true }
        )
        yield* unchanged(steal)
      })
    )
  }
})

layer(Service.layer)("with its token and without its key", (it) => {
  it.effect("a thief neither uses up what the Bridge may nor makes the service forget it, beside it or elsewhere", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const limiting = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { bridge, token } = yield* holder()
      const { keys } = bridge
      const seen = yield* proofFor(keys, "self", token)
      assert.strictEqual((yield* ask(limiting, "self", token, { proof: seen })).status, 200)
      const requests = Object.values(forgeries).map((forge) =>
        Effect.flatMap(forge({ keys, seen } as Victim, "self", token), (proof) =>
          ask(limiting, "self", token, { proof })
        )
      )
      const tries = Array.from({ length: 90 }, () => requests).flat()
      const refused = yield* Effect.all(tries, { concurrency: 8 })
      assert.isTrue(refused.every(({ status }) => [401, 429].includes(status)))
      for (const on of [limiting, service]) {
        const answer = yield* askProven(on, "prepare", token, keys, { key: "after" })
        assert.strictEqual(answer.status, 201, answer.text)
      }
    })
  )
})
