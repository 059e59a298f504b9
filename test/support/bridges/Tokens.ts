/** The token endpoints of an instance as functions, and Bridges at some step of a rotation. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { Bridge } from "./Bridge.ts"
import { type Answer, type Ask, send } from "../network/Http.ts"
import { Service } from "../service/Service.ts"

export const tokens = ({ url }: { readonly url: string }) => {
  const at = (path: string, ask: Ask) => send(`${url}/bridge/v1/tokens/${path}`, ask)
  const end = (path: string) => (bearer: string, rotation_id: string, key: string) =>
    at(path, { bearer, key, body: { rotation_id } })
  return {
    at,
    prepare: (bearer: string, key = "bridge-rotate-1") => at("rotate/prepare", { bearer, key }),
    confirm: (bearer: string, rotation_id: string, key = "bridge-confirm-1") =>
      end("rotate/confirm")(bearer, rotation_id, key),
    abort: (bearer: string, rotation_id: string, key = "bridge-abort-1") =>
      end("rotate/abort")(bearer, rotation_id, key),
    revoke: (bearer: string) => at("revoke", { bearer }),
    self: (bearer: string) => at("self", { method: "GET", bearer })
  }
}
export type Tokens = ReturnType<typeof tokens>

/** A Bridge that holds an active token: a new one, or the given one after enrolling with its credential. */
export const holder = Effect.fnUntraced(function* (bridge?: Bridge, proofKey = "bridge-proof-1") {
  const service = yield* Service
  const enrolled = bridge ?? (yield* Bridge.make(service))
  const proof = yield* enrolled.prove(service, yield* enrolled.askChallenge(service), { key: proofKey })
  assert.strictEqual(proof.status, 200, proof.text)
  return { bridge: enrolled, token: proof.body.access_token as string, ...tokens(service) }
})

/** A Bridge whose successor is pending. */
export const rotating = Effect.fnUntraced(function* (bridge?: Bridge) {
  const held = yield* holder(bridge)
  return { ...held, ...successorOf(yield* held.prepare(held.token)) }
})

/** What a successful prepare answered. */
export const successorOf = (prepared: Answer) => {
  assert.strictEqual(prepared.status, 201, prepared.text)
  const { rotation_id, successor_token } = prepared.body
  return { prepared, rotation_id: rotation_id as string, successor: successor_token as string }
}

/** Prepares and confirms; returns the new token. */
export const rotate = Effect.fnUntraced(function* ({ confirm, prepare }: Tokens, token: string, key: string) {
  const { rotation_id, successor } = successorOf(yield* prepare(token, key))
  const confirmed = yield* confirm(successor, rotation_id, key)
  assert.strictEqual(confirmed.status, 200, confirmed.text)
  return successor
})
