/**
 * The reference Bridge: one identity, its key, its token, and a state folder that survives every crash (spec 3.1, 3.2).
 *
 * 1. `enroll` trades a bootstrap credential for the first token (enroll.ts).
 * 2. `token` is the token for normal work. `run` rotates it in time (run.ts), or the caller does with `rotate` (rotate.ts).
 * 3. `rotateKey` replaces the key (rotateKey.ts); `run` does when the operator asks for it.
 * 4. `abort` ends a pending rotation and keeps the token; `revoke` ends the token for good.
 *
 * The folder holds everything that a retry must repeat exactly before it is sent. So every operation can be called again
 * after a crash or a lost answer, with the same outcome. wire/bridges/Reactions.ts tells what to do about a refusal.
 */
import { Context, Effect, Layer } from "effect"
import { FetchHttpClient } from "effect/http"
import { Client } from "./Client.ts"
import * as AccessToken from "./accessToken.ts"
import * as Enroll from "./enroll.ts"
import type { KeyPair } from "../Crypto.ts"
import { Journal } from "./Journal.ts"
import * as Rotate from "./rotate.ts"
import * as RotateKey from "./rotateKey.ts"
import * as Run from "./run.ts"
import { lifetimeOf } from "./State.ts"

const make = Effect.gen(function* () {
  const client = yield* Client
  const journal = yield* Journal
  const { enroll } = Enroll.make(client, journal)
  const access = yield* AccessToken.make(journal)
  const rotation = Rotate.make(client, journal)
  const { enrolled } = rotation
  const keyRotation = RotateKey.make(client, journal, rotation)
  // Token and key are never replaced at once: what is under way is finished before the other begins.
  const recover = Effect.andThen(keyRotation.recoverKey, rotation.recover)
  const rotate = Effect.andThen(keyRotation.recoverKey, rotation.rotate)
  const rotateKey = Effect.andThen(rotation.recover, keyRotation.rotateKey)

  /** Ends what is under way, of token and key. `aborted` is false if there was nothing or it was confirmed already. */
  const abort = Effect.gen(function* () {
    const isKeyAborted = yield* keyRotation.abortKey
    const { aborted, state } = yield* rotation.abort
    return { aborted: aborted || isKeyAborted, state }
  })

  /** The current token for normal work. Read it again for each request: `run` replaces it. */
  const token = Effect.map(enrolled, (state) => state.token.access_token)

  /** The service's description of this Bridge. Uses the current token and does not finish what is under way. */
  const status = Effect.gen(function* () {
    const state = yield* enrolled
    const next = yield* journal.keyRotation
    const self = (keys?: KeyPair) => client.self(state.base_url, state.token.access_token, keys)
    const answered = yield* next === undefined
      ? self()
      : Effect.catchTag(self(), "bridge_proof_of_possession_invalid", () => self(next.keys))
    const since = answered.body.key?.since
    return {
      ...answered.body,
      seconds_left: lifetimeOf(answered),
      base_url: state.base_url,
      journal: next === undefined ? state.rotation?.state : "key",
      key_age_days: since && Math.floor((answered.at.getTime() - since.getTime()) / 86_400_000)
    }
  }).pipe(Effect.withSpan("Bridge.status"))

  /** The access token for /mcp, if the operator has granted this Bridge a role. Does not finish what is under way. */
  const accessToken = Effect.flatMap(enrolled, access.token)

  /** Ends the token for good, and its pending successor with it. Also succeeds if the token has already ended. */
  const revoke = Effect.gen(function* () {
    const before = yield* enrolled
    // The service may know the new key already: then it has to prove the request.
    yield* Effect.catchTag(keyRotation.recoverKey, ended, () => Effect.void)
    // The service may have confirmed the rotation already: then the successor is the token to revoke.
    const state =
      before.rotation?.state === "stored"
        ? yield* Effect.catchTag(rotation.recover, bothEnded, () => Effect.succeed(before))
        : before
    yield* Effect.catchTag(client.revoke(state.base_url, state.token.access_token), ended, () => Effect.void)
    yield* journal.write({ ...state, token: null, rotation: null })
  }).pipe(Effect.withSpan("Bridge.revoke"))

  return {
    /** The state in the folder; undefined before the first enrollment. */
    known: journal.read,
    enroll,
    token,
    accessToken,
    status,
    rotate,
    rotateKey,
    abort,
    revoke,
    run: Run.make(client, { recover, rotate, rotateKey })
  }
})

const ended = ["bridge_token_revoked", "bridge_token_expired"] as const
/** Predecessor and successor have both ended. */
const bothEnded = ["bridge_rotation_predecessor_revoked", "bridge_rotation_predecessor_expired"] as const

export class Bridge extends Context.Service<Bridge, Effect.Success<typeof make>>()("bridge-service/client/Bridge") {
  static readonly layer = Layer.effect(Bridge, make).pipe(Layer.provide(FetchHttpClient.layer))

  /** Over HTTP, with the state in `folder`. Locks the folder for this process. */
  static readonly layerFolder = (folder: string) =>
    Bridge.layer.pipe(Layer.provide(Client.layerFetch), Layer.provide(Journal.layer(folder)))
}
