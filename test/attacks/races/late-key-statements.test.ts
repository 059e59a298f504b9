/**
 * The statements of key rotation decide on the rows as they are when they act, whatever others committed while they waited
 * for their first lock (late-statements.test.ts does the same for tokens).
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { invariants } from "../../support/attacks/Invariants.ts"
import { isAsIfLater, overtaken, replicaAtGate, type Step as AnyStep } from "../../support/attacks/Late.ts"
import { outcomeOf } from "../../support/attacks/Race.ts"
import { askProven, type Endpoint } from "../../support/bridges/signatures/DpopProofs.ts"
import { abortKey, confirmKey, keyRotating, prepareKey } from "../../support/bridges/KeyRotations.ts"
import { revokeIdentity, withNewCredential } from "../../support/bridges/Steps.ts"
import { tokens } from "../../support/bridges/Tokens.ts"
import { Service } from "../../support/service/Service.ts"

/** A Bridge in the middle of a key rotation, and a re-enrollment of it that lacks only the proof. */
const world = Effect.gen(function* () {
  const held = yield* keyRotating
  const back = yield* withNewCredential(held.bridge, { reenroll: held.bridge.bridge_id })
  return { ...held, back, challenge: yield* back.askChallenge(yield* Service) }
})
type World = Effect.Success<typeof world>
type Step = AnyStep<World, Service>

const prepare =
  (key: string): Step =>
  ({ next, old, token }, on) =>
    Effect.map(prepareKey(on, token, old, next, key), outcomeOf)
const confirm: Step = ({ next, old, prepared, token }, on) =>
  Effect.map(confirmKey(on, token, old, next, prepared), outcomeOf)
const abort: Step = ({ old, prepared, token }, on) => Effect.map(abortKey(on, token, old, prepared), outcomeOf)
const proven =
  (endpoint: Endpoint): Step =>
  ({ old, token }, on) =>
    Effect.map(askProven(on, endpoint, token, old, { key: endpoint }), outcomeOf)
const reenroll: Step = ({ back, challenge }, on) => Effect.map(back.prove(on, challenge, { key: "after" }), outcomeOf)
const emergency: Step = ({ bridge }) => Effect.as(revokeIdentity(bridge), "done")
const windowEnds: Step = () => Effect.as(TestClock.adjust("1 millis"), "done")

const late: Readonly<Record<string, Step>> = {
  "a prepare of a key": prepare("late"),
  "a confirm of a key": confirm,
  "an abort of a key": abort,
  "a prepare of a token": proven("prepare"),
  "a revoke": proven("revoke"),
  "a proof of re-enrollment": reenroll
}

const meanwhile: Readonly<Record<string, ReadonlyArray<Step>>> = {
  "an abort": [abort],
  "an abort and a new prepare": [abort, prepare("new")],
  "an abort and a prepare with the same key": [abort, prepare("late")],
  "an abort and a prepare of a token": [abort, proven("prepare")],
  "a revoke": [proven("revoke")],
  "a re-enrollment": [reenroll],
  "an emergency revocation": [emergency]
}

/** Their proof was valid when they came, and counts for the whole request (decisions.md, Key rotation). */
const stillProven = new Set(["a prepare of a token", "a revoke"])

/** At the end of the window a statement keeps the instant of its start, unless a later one has settled it. */
const pastItsInstant: ReadonlyArray<readonly [meanwhile: ReadonlyArray<Step>, outcomes: ReadonlyArray<string>]> = [
  [[windowEnds], ["bridge_key_rotation_in_progress", "200", "200", "bridge_key_rotation_in_progress", "200", "200"]],
  [
    [windowEnds, prepare("new")],
    [
      "bridge_key_rotation_in_progress",
      "bridge_key_rotation_expired",
      "bridge_key_rotation_expired",
      "bridge_key_rotation_in_progress",
      "200",
      "200"
    ]
  ]
]

/** The key of a late statement was replaced after its proof: it is refused, as later, but not as a copied token. */
const settled = (shape: ReadonlyArray<string>) => shape.filter((row) => !row.includes("bridge.possession"))

layer(Service.layer)("a statement of a Bridge that replaces its key", (it) => {
  const direct = Effect.map(Service, (on) => ({ ...tokens(on), url: on.url }))

  for (const [at, [name, step]] of Object.entries(late).entries()) {
    it.effect(`${name}, overtaken, is answered as if it had come later`, () =>
      Effect.gen(function* () {
        const on = { on: yield* direct, slow: yield* replicaAtGate, settled }
        const all = stillProven.has(name) ? meanwhile : { ...meanwhile, "a confirm": [confirm] }
        for (const [by, steps] of Object.entries(all))
          yield* isAsIfLater([yield* world, yield* world], step, steps, { ...on, by })
      })
    )

    it.effect(
      `${name}, overtaken by the end of the window, is answered as of its own instant, unless that was settled`,
      () =>
        Effect.gen(function* () {
          const on = yield* direct
          const slow = yield* replicaAtGate
          for (const [steps, outcomes] of pastItsInstant) {
            const one = yield* world
            yield* TestClock.adjust("299999 millis")
            const outcome = yield* overtaken(
              step(one, slow),
              Effect.forEach(steps, (each) => each(one, on))
            )
            assert.strictEqual(outcome, outcomes[at])
            yield* invariants
          }
        })
    )
  }

  it.effect("a request whose proof was checked before the key was replaced is carried out", () =>
    Effect.gen(function* () {
      const on = yield* direct
      // As autovacuum does at any time: plans may change, and still nothing is looked for before the gate.
      yield* SqlClient.SqlClient.use((sql) => sql`analyze`.unprepared)
      const slow = yield* replicaAtGate
      const one = yield* world
      assert.strictEqual(yield* overtaken(proven("prepare")(one, slow), confirm(one, on)), "201")
      const another = yield* world
      assert.strictEqual(yield* overtaken(proven("revoke")(another, slow), confirm(another, on)), "200")
      yield* invariants
    })
  )
})
