/** Races of key rotation over two replicas: exactly one request wins, and token and key exclude each other. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { fingerprint, generateKeyPair } from "../../../src/client/Crypto.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { callers, outcomeOf, race, sometime, tally } from "../../support/attacks/Race.ts"
import { askProven } from "../../support/bridges/signatures/DpopProofs.ts"
import { abortKey, confirmKey, keyHolder, keyRotating, prepareKey } from "../../support/bridges/KeyRotations.ts"
import { revokeIdentity, withNewCredential } from "../../support/bridges/Steps.ts"
import { holder } from "../../support/bridges/Tokens.ts"
import { replicas } from "../../support/service/Replicas.ts"
import { Service } from "../../support/service/Service.ts"

type Replicas = Effect.Success<ReturnType<typeof replicas>>
const rounds = <E, R>(round: (on: Replicas) => Effect.Effect<void, E, R>) =>
  Effect.flatMap(replicas(), (on) => race(round(on), invariants))

const keyOf = ({ bridge }: Effect.Success<typeof keyHolder>) =>
  Effect.flatMap(Service, ({ services }) =>
    Context.get(services, Bridges).show(bridge.project_id, bridge.bridge_id)
  ).pipe(Effect.map(({ public_key_fingerprint }) => public_key_fingerprint))

layer(Service.layer)("concurrent key rotations", (it) => {
  it.effect("fifty prepares with one Idempotency-Key: one nonce and its replays", () =>
    rounds(
      Effect.fnUntraced(function* ({ on }) {
        const held = yield* keyHolder
        const answers = yield* callers(on, 50, (at) => prepareKey(at, held.token, held.old, held.next))
        assert.deepStrictEqual(tally(answers), { "201": 1, "201 replayed": 49 })
        assert.strictEqual(new Set(answers.map(({ text }) => text)).size, 1)
      })
    )
  )

  it.effect("fifty prepares of fifty keys: one is prepared", () =>
    rounds(
      Effect.fnUntraced(function* ({ on }) {
        const held = yield* keyHolder
        const answers = yield* callers(on, 50, (at, caller) =>
          Effect.flatMap(generateKeyPair, (next) => prepareKey(at, held.token, held.old, next, `k${caller}`))
        )
        assert.deepStrictEqual(tally(answers), { "201": 1, bridge_key_rotation_in_progress: 49 })
      })
    )
  )

  it.effect("fifty confirms of one key rotation: one new key", () =>
    rounds(
      Effect.fnUntraced(function* ({ on }) {
        const held = yield* keyRotating
        const answers = yield* callers(on, 50, (at, caller) =>
          confirmKey(at, held.token, held.old, held.next, held.prepared, `c${caller % 5}`)
        )
        assert.deepStrictEqual(tally(answers), { "200": 1, "200 replayed": 9, bridge_key_rotation_confirmed: 40 })
        assert.strictEqual(yield* keyOf(held), fingerprint(held.next.publicKey))
      })
    )
  )

  it.effect("confirm beside abort: one of them", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const held = yield* keyRotating
        const [confirmed, aborted] = yield* Effect.all(
          [
            sometime(confirmKey(a, held.token, held.old, held.next, held.prepared)),
            sometime(abortKey(b, held.token, held.old, held.prepared))
          ],
          { concurrency: "unbounded" }
        )
        const outcomes = [outcomeOf(confirmed), outcomeOf(aborted)].join()
        assert.include(["200,bridge_key_rotation_confirmed", "bridge_key_rotation_aborted,200"], outcomes)
        const expected = confirmed.status === 200 ? held.next : held.old
        assert.strictEqual(yield* keyOf(held), fingerprint(expected.publicKey))
      })
    )
  )

  it.effect("prepare of a key beside prepare of a token: one of them", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const held = yield* keyHolder
        const [key, token] = yield* Effect.all(
          [
            sometime(prepareKey(a, held.token, held.old, held.next)),
            sometime(askProven(b, "prepare", held.token, held.old))
          ],
          { concurrency: "unbounded" }
        )
        assert.include(
          ["201,bridge_key_rotation_in_progress", "bridge_rotation_in_progress,201"],
          [outcomeOf(key), outcomeOf(token)].join()
        )
      })
    )
  )

  it.effect("confirm beside revocation or re-enrollment: the Bridge ends with the key of the last of them", () =>
    rounds(
      Effect.fnUntraced(function* ({ a }) {
        const revoked = yield* keyRotating
        const [confirmed] = yield* Effect.all(
          [
            sometime(confirmKey(a, revoked.token, revoked.old, revoked.next, revoked.prepared)),
            sometime(revokeIdentity(revoked.bridge))
          ],
          { concurrency: "unbounded" }
        )
        assert.include(["200", "bridge_revoked"], outcomeOf(confirmed))

        const held = yield* keyRotating
        const again = yield* withNewCredential(held.bridge, { reenroll: held.bridge.bridge_id })
        const [late] = yield* Effect.all(
          [sometime(confirmKey(a, held.token, held.old, held.next, held.prepared)), sometime(holder(again, "again"))],
          { concurrency: "unbounded" }
        )
        assert.include(["200", "bridge_token_revoked"], outcomeOf(late))
        assert.strictEqual(yield* keyOf(held), fingerprint(held.old.publicKey))
      })
    )
  )
})
