/**
 * Concurrent histories of one Bridge on two instances, one of which loses an answer now and then: for each history some
 * order of its calls makes the model of spec 3 give the same answers.
 */
import { assert, it as plain, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { type Call, linearizable } from "../../support/attacks/Linearizability.ts"
import { forAll, patience } from "../../support/run/Property.ts"
import { sometime } from "../../support/attacks/Race.ts"
import { replicas } from "../../support/service/Replicas.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { apply, initial, type Op, type State } from "./Model.ts"
import { makeReal, type Real, settings } from "./Real.ts"

const opening: ReadonlyArray<Op> = [
  { op: "issue", credential: "c0", reenroll: false },
  { op: "challenge", credential: "c0", key: "k", keys: "a" },
  { op: "prove", challenge: "c0/k", key: "p0" },
  { op: "issue", credential: "c1", reenroll: true },
  { op: "challenge", credential: "c1", key: "k", keys: "b" }
]

const keys = ["r0", "r1", "r2", "r3", "r4", "r5"]
const names = ["c0/k", "c0/k", ...keys]
const rotation = fc.constantFrom(...keys)
const endKey = fc.constantFrom("e0", "e1")

/** What a client tries next; steps that use a name it does not know yet are skipped. */
const attempt: fc.Arbitrary<Op> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ op: fc.constant("prepare" as const), token: fc.constantFrom(...names), key: rotation })
  },
  {
    weight: 8,
    arbitrary: fc
      .tuple(fc.constantFrom("confirm", "confirm", "abort"), rotation, endKey)
      .map(([op, rotation, key]) => ({ op: op as "confirm" | "abort", token: rotation, rotation, key }))
  },
  { weight: 6, arbitrary: fc.record({ op: fc.constant("self" as const), token: fc.constantFrom(...names) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("revoke" as const), token: fc.constantFrom(...names) }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: "prove", challenge: "c1/k", key: "p1" }) },
  { weight: 1, arbitrary: fc.constant<Op>({ op: "emergency" }) }
)

const clients = fc.array(fc.array(attempt, { minLength: 4, maxLength: 8, size: "max" }), {
  minLength: 3,
  maxLength: 5,
  size: "max"
})

const tokenOf = (op: Op) => ("token" in op ? op.token : undefined)

layer(Service.layer)("concurrent histories", (it) => {
  it.effect(
    "are linearizable",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { fail, heal, layer } = faultyDatabase()
        const losing = yield* instance(settings, layer)
        const { b: sound } = yield* replicas(settings)

        const history = Effect.fnUntraced(function* (plan: ReadonlyArray<ReadonlyArray<Op>>, losesNth: number) {
          yield* sql`truncate project cascade`
          const real = yield* makeReal(sound)
          let state = initial
          for (const op of opening) {
            const [after, expected] = apply(state, op)
            assert.strictEqual(yield* real.run(sound, op), expected)
            state = after
          }

          yield* fail("disconnected after", losesNth)
          const calls = yield* concurrently(real, plan, (client) => (client % 2 === 0 ? losing : sound))
          yield* heal
          yield* invariants
          assert.isTrue(linearizable(calls, state, apply), JSON.stringify(calls))
        })

        // The same plan may run differently the next time, so shrinking is useless.
        const inputs = fc.tuple(clients, fc.integer({ min: 1, max: 40 }))
        yield* forAll(inputs, ([plan, losesNth]) => history(plan, losesNth), { endOnFailure: true })
      }),
    patience
  )

  /** Every client takes its steps one after the other; all clients run at once. */
  const concurrently = Effect.fnUntraced(function* (
    real: Real,
    plan: ReadonlyArray<ReadonlyArray<Op>>,
    on: (client: number) => Parameters<Real["run"]>[0]
  ) {
    let instant = 0
    const client = (ops: ReadonlyArray<Op>, i: number) =>
      Effect.forEach(ops, (op) =>
        Effect.gen(function* () {
          const token = tokenOf(op)
          if (token !== undefined && !real.knows(token)) return []
          const started = instant++
          const outcome = yield* real.run(on(i), op)
          return [{ op, started, ended: instant++, outcome }]
        })
      )
    const calls = (yield* Effect.all(
      plan.map((ops, i) => sometime(client(ops, i))),
      { concurrency: "unbounded" }
    )).flat(2)
    const outcomes = yield* real.named(
      calls.map(({ outcome }) => outcome),
      keys
    )
    return calls.map((call, i): Call<Op> =>
      outcomes[i] === "bridge_persistence_error"
        ? { ...call, ended: Infinity, outcome: undefined }
        : { ...call, outcome: outcomes[i] }
    )
  })
})

/** A store with its state in memory; `careless` reads first and writes later without reading again. */
const store = (state: State, careless: boolean) => {
  let current = state
  return async (op: Op) => {
    const [after, outcome] = apply(current, op)
    if (careless) await Promise.resolve()
    current = careless ? { ...current, ...after } : after
    return outcome
  }
}

const twoPrepares = async (careless: boolean) => {
  const state = opening.reduce((state, op) => apply(state, op)[0], initial)
  const perform = store(state, careless)
  const ops = ["r0", "r1"].map((key): Op => ({ op: "prepare", token: "c0/k", key }))
  const outcomes = await Promise.all(ops.map(perform))
  const calls = ops.map((op, i) => ({ op, started: i, ended: 2 + i, outcome: outcomes[i] }))
  return { outcomes, accepted: linearizable(calls, state, apply) }
}

plain("a store that allows two pending successors is rejected", async () => {
  assert.deepStrictEqual(await twoPrepares(true), { outcomes: ["201", "201"], accepted: false })
})

plain("a store that reads and writes atomically is accepted", async () => {
  assert.deepStrictEqual(await twoPrepares(false), {
    outcomes: ["201", "bridge_rotation_in_progress"],
    accepted: true
  })
})

plain("a call whose answer was lost may or may not have taken effect", () => {
  const state = opening.reduce((state, op) => apply(state, op)[0], initial)
  const lost = {
    op: { op: "prepare", token: "c0/k", key: "r0" } as Op,
    started: 0,
    ended: Infinity,
    outcome: undefined
  }
  const next = (outcome: string) => [
    lost,
    { op: { op: "prepare", token: "c0/k", key: "r1" } as Op, started: 1, ended: 2, outcome }
  ]
  assert.isTrue(linearizable(next("201"), state, apply))
  assert.isTrue(linearizable(next("bridge_rotation_in_progress"), state, apply))
  assert.isFalse(linearizable(next("bridge_rotation_aborted"), state, apply))
})

plain("a call that ended before another began precedes it", () => {
  const state = opening.reduce((state, op) => apply(state, op)[0], initial)
  const prepare = { op: { op: "prepare", token: "c0/k", key: "r0" } as Op, started: 0, ended: 1, outcome: "201" }
  const self = (started: number) => ({
    op: { op: "self", token: "c0/k" } as Op,
    started,
    ended: 3,
    outcome: "200 nothing pending"
  })
  assert.isTrue(linearizable([{ ...prepare, ended: 2 }, self(1)], state, apply))
  assert.isFalse(linearizable([prepare, self(2)], state, apply))
})
