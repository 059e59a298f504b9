/**
 * Random histories of one Bridge on two instances, with faults, against the model of spec 3. After every step the answer is
 * the model's, the invariants hold, a refusal has changed no row, and every name has one secret.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { forAll, patience } from "../../support/run/Property.ts"
import { replicas } from "../../support/service/Replicas.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { shapeOf } from "../../support/attacks/Shape.ts"
import { apply, initial, isRefusal, type Op, type State } from "./Model.ts"
import { plan, type Plan, resolve } from "./Plan.ts"
import { makeReal, type On, type Real, settings } from "./Real.ts"

/** An instance that can be replaced by a new one, over a database that can be made to fail. */
const replaceable = Effect.gen(function* () {
  const { fail, heal, layer } = faultyDatabase()
  const outer = yield* Effect.scope
  const start = Effect.gen(function* () {
    const scope = yield* Scope.fork(outer)
    const on = yield* Scope.provide(instance(settings, layer), scope)
    return { on, stop: Scope.close(scope, Exit.void) }
  })
  let current = yield* start
  return {
    fail,
    heal,
    on: () => current.on,
    replace: Effect.gen(function* () {
      yield* current.stop
      current = yield* start
    })
  }
})

/** Without the audit log, which may count a refusal. */
const rowsOf = ({ project_id }: Real) =>
  Effect.map(shapeOf(project_id), (rows) => rows.filter((row) => !row.startsWith("audit ")))

/** The steps to a first token, for histories that begin with one. */
const opening = (["issue", "challenge", "prove"] as const).map((kind): Plan => ({
  kind,
  which: 1,
  key: 0,
  on: 1,
  trouble: undefined
}))

layer(Service.layer)("random histories", (it) => {
  it.effect(
    "are answered as the model answers them",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const first = yield* replaceable
        const { b: second } = yield* replicas(settings)
        const instances = (): readonly [On, On] => [first.on(), second]

        const once = Effect.fnUntraced(function* (real: Real, on: On, op: Op, keys: ReadonlyArray<string>) {
          const outcome = yield* real.run(on, op)
          if (op.op !== "self") return outcome
          return (yield* real.named([outcome], keys))[0]!
        })

        /** Runs the operation, and retries it if the answer was lost; returns the model's state afterwards. */
        const take = Effect.fnUntraced(function* (state: State, real: Real, op: Op, { on, trouble }: Plan) {
          const [after, expected] = apply(state, op)
          const [again, repeated] = apply(after, op)
          const keys = Object.keys(after.rotations)
          const moves = op.op === "wait" || op.op === "sweep"
          if (trouble === undefined || moves) {
            const before = yield* rowsOf(real)
            const outcome = yield* once(real, instances()[on], op, keys)
            assert.strictEqual(outcome, expected, JSON.stringify(op))
            if (isRefusal(outcome)) assert.deepStrictEqual(yield* rowsOf(real), before, JSON.stringify(op))
            return after
          }

          const dropped = trouble.fault === "answer dropped"
          if (trouble.fault !== "answer dropped") yield* first.fail(trouble.fault, trouble.nth)
          const outcome = yield* once(real, first.on(), op, keys).pipe(
            Effect.catchDefect(() => Effect.succeed("internal_error"))
          )
          const struck = yield* first.heal
          const lost = dropped || outcome === "internal_error" || outcome === "bridge_persistence_error"
          if (!lost) {
            assert.strictEqual(outcome, expected, JSON.stringify(op))
            return after
          }
          if (!dropped) assert.isTrue(struck, outcome)
          const retried = yield* once(real, instances()[on], op, keys)
          const happened = dropped || retried !== expected
          assert.strictEqual(retried, happened ? repeated : expected, `${JSON.stringify(op)} after ${trouble.fault}`)
          return happened ? again : after
        })

        const history = Effect.fnUntraced(function* (enrolled: boolean, plans: ReadonlyArray<Plan>) {
          yield* sql`truncate project cascade`
          const real = yield* makeReal(second)
          let state = initial
          for (const step of [...(enrolled ? opening : []), ...plans]) {
            if (step.kind === "replace") yield* first.replace
            const op = resolve(step, state, real)
            if (op === undefined) continue
            state = yield* take(state, real, op, step)
            yield* invariants
          }
        })

        const inputs = fc.tuple(fc.boolean(), fc.array(plan, { minLength: 1, maxLength: 60, size: "max" }))
        yield* forAll(inputs, ([enrolled, plans]) => history(enrolled, plans))
      }),
    patience
  )
})
