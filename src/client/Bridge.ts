/**
 * The reference Bridge: one identity, its key, its token, and the folder that outlives every crash (spec 3, 4, 5).
 *
 * 1. `enroll` trades a bootstrap credential for the first token (Enrolling.ts).
 * 2. `token` is what normal work presents. `run` keeps it alive (Running.ts), or whoever calls `rotate` (Rotating.ts).
 * 3. `abort` gives a pending successor up; `revoke` ends the token for good.
 *
 * Everything that must be repeated exactly is kept before it is sent, so each of them may be called again after a crash
 * or a lost answer, and ends where it would have ended. Codes.ts says what to do about a refusal.
 */
import { Context, Effect, Layer } from "effect"
import { Client } from "./Client.ts"
import * as Enrolling from "./enroll.ts"
import { Journal } from "./Journal.ts"
import * as Rotating from "./rotate.ts"
import * as Running from "./run.ts"
import { lifetimeOf } from "./State.ts"

const make = Effect.gen(function* () {
  const client = yield* Client
  const journal = yield* Journal
  const { enroll } = Enrolling.make(client, journal)
  const rotating = Rotating.make(client, journal)
  const { abort, holding, recover, rotate } = rotating

  /** The token for normal work, as it is now; ask again for each request. */
  const token = Effect.map(holding, (state) => state.token.access_token)

  /** What the service says of this Bridge. It asks with the token as it is and finishes nothing. */
  const status = Effect.gen(function* () {
    const state = yield* holding
    const answered = yield* client.self(state.base_url, state.token.access_token)
    return {
      ...answered.body,
      seconds_left: lifetimeOf(answered),
      base_url: state.base_url,
      journal: state.rotation?.state
    }
  }).pipe(Effect.withSpan("Bridge.status"))

  /** Ends the token for good, and with it a pending successor. A token that has ended already is as good. */
  const revoke = Effect.gen(function* () {
    const before = yield* holding
    // The confirm may have been done: then the successor is the token that has to end.
    const state =
      before.rotation?.state === "stored" ? yield* Effect.catchTag(recover, over, () => Effect.succeed(before)) : before
    yield* Effect.catchTag(client.revoke(state.base_url, state.token.access_token), ended, () => Effect.void)
    yield* journal.write({ ...state, token: null, rotation: null })
  }).pipe(Effect.withSpan("Bridge.revoke"))

  return {
    /** What the folder holds, if anything. */
    known: journal.read,
    enroll,
    token,
    status,
    rotate,
    abort,
    revoke,
    run: Running.make(client, rotating)
  }
})

const ended = ["bridge_token_revoked", "bridge_token_expired"] as const
/** Neither of the two tokens is left. */
const over = ["bridge_rotation_predecessor_revoked", "bridge_rotation_predecessor_expired"] as const

export class Bridge extends Context.Service<Bridge, Effect.Success<typeof make>>()("bridge-service/client/Bridge") {
  static readonly layer = Layer.effect(Bridge, make)

  /** Over HTTP, with the state in `folder`, for the one process that works with it. */
  static readonly layerFolder = (folder: string) =>
    Bridge.layer.pipe(Layer.provide([Client.layerFetch, Journal.layer(folder)]))
}
