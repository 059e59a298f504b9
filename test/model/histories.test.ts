/**
 * Random histories of one Bridge on two instances, with faults, against the model of spec 3 (MODEL_RUNS histories, 40
 * unless told; SEED repeats a run). After every step the answer is the model's, the invariants hold, a refusal has
 * changed no row, and one name has one secret.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { type Fault, faults, faultyDatabase } from "../support/Faults.ts"
import { invariants } from "../support/Invariants.ts"
import { instance, Service } from "../support/Service.ts"
import { shapeOf } from "../support/Shape.ts"
import { apply, initial, isRefusal, type Op, type State } from "./Model.ts"
import { makeReal, type On, type Real, settings } from "./Real.ts"

const hour = 3_600_000
const runs = Number(process.env["MODEL_RUNS"] ?? 40)
const seed = process.env["SEED"]

/** What may go wrong on the way: a statement fails, or the answer does not arrive. The caller then asks again. */
interface Trouble {
  readonly fault: Fault | "answer dropped"
  readonly nth: number
}

interface Plan {
  readonly kind: Op["op"] | "replace"
  /** Chooses among what there is when the step is taken. */
  readonly which: number
  readonly key: number
  readonly on: 0 | 1
  readonly trouble: Trouble | undefined
}

const weights: Readonly<Record<Plan["kind"], number>> = {
  prepare: 40,
  confirm: 30,
  abort: 12,
  self: 8,
  revoke: 2,
  issue: 8,
  challenge: 12,
  prove: 14,
  revokeCredential: 1,
  emergency: 1,
  disable: 1,
  enable: 6,
  wait: 24,
  sweep: 6,
  replace: 1
}

const plan: fc.Arbitrary<Plan> = fc.record({
  kind: fc.oneof(
    ...Object.entries(weights).map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind as Plan["kind"]) }))
  ),
  which: fc.nat(999),
  key: fc.nat(2),
  on: fc.constantFrom(0, 1),
  trouble: fc.option(
    fc.record({ fault: fc.constantFrom(...faults, "answer dropped" as const), nth: fc.integer({ min: 1, max: 5 }) }),
    { freq: 3, nil: undefined }
  )
})

const waits = [1, 50, 100, 200, 299, 300, 300, 300, 301, 600, 1000, 3600]

/** The step as an operation on what there is; undefined where there is nothing to do it with. */
const resolve = ({ key, kind, which }: Plan, state: State, real: Real): Op | undefined => {
  const one = <A>(choices: ReadonlyArray<A>): A | undefined => choices[which % choices.length]
  const known = (names: object) => Object.keys(names).filter(real.knows)
  /** Half of the time the one that is in use, so that histories go far; else any, so that they go astray. */
  const used = (all: Readonly<Record<string, { readonly state: string }>>, as: string) =>
    one(known(all).filter((name) => which % 2 === 0 || all[name]!.state === as)) ?? one(known(all))
  const token = used(state.tokens, "active")
  const credential = one(Object.keys(state.credentials))
  switch (kind) {
    case "issue": {
      const count = Object.keys(state.credentials).length
      return count < 5 ? { op: kind, credential: `c${count}`, reenroll: which % 3 > 0 && count > 0 } : undefined
    }
    case "revokeCredential":
      return credential === undefined ? undefined : { op: kind, credential }
    case "challenge":
      return credential === undefined
        ? undefined
        : { op: kind, credential, key: `k${key}`, keys: which % 4 === 0 ? "b" : "a" }
    case "prove": {
      const challenge = one(known(state.challenges))
      return challenge === undefined ? undefined : { op: kind, challenge, key: `p${key}` }
    }
    case "prepare":
      return token === undefined ? undefined : { op: kind, token, key: prepareKey(which, state) }
    case "confirm":
    case "abort": {
      const rotation = used(state.rotations, "pending") ?? "none"
      const bearer = which % 5 === 0 || rotation === "none" ? token : rotation
      return bearer === undefined ? undefined : { op: kind, token: bearer, rotation, key: `e${key}` }
    }
    case "revoke":
    case "self":
      return token === undefined ? undefined : { op: kind, token }
    case "wait":
      return { op: kind, seconds: one(waits)! }
    case "replace":
      return undefined
    default:
      return { op: kind }
  }
}

/** A fresh key, the latest one, or any of those before. */
const prepareKey = (which: number, { rotations }: State) => {
  const keys = Object.keys(rotations)
  const [fresh, latest] = [`r${keys.length}`, keys.at(-1)]
  return [fresh, latest, keys[which % keys.length]][which % 3] ?? fresh
}

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

layer(Service.layer)("random histories", (it) => {
  it.effect(
    "are answered as the model answers them",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const first = yield* replaceable
        const second = yield* instance(settings)
        const instances = (): readonly [On, On] => [first.on(), second]
        const reached = new Set<string>()

        const once = Effect.fnUntraced(function* (real: Real, on: On, op: Op, keys: ReadonlyArray<string>) {
          const outcome = yield* real.run(on, op)
          if (op.op !== "self") return outcome
          return (yield* real.named([outcome], keys))[0]!
        })

        /** Asks once, and again where the first answer was lost; answers the state that the model is in then. */
        const take = Effect.fnUntraced(function* (state: State, real: Real, op: Op, { on, trouble }: Plan) {
          const [after, expected] = apply(state, op)
          const [again, repeated] = apply(after, op)
          const keys = Object.keys(after.rotations)
          const moves = op.op === "wait" || op.op === "sweep"
          if (trouble === undefined || moves) {
            const before = yield* shapeOf(real.project_id)
            const outcome = yield* once(real, instances()[on], op, keys)
            assert.strictEqual(outcome, expected, JSON.stringify(op))
            if (isRefusal(outcome)) assert.deepStrictEqual(yield* rows(real), withoutAudit(before), JSON.stringify(op))
            reached.add(`${op.op} ${outcome}`)
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
          reached.add(`${op.op} ${retried}`)
          const happened = dropped || retried !== expected
          assert.strictEqual(retried, happened ? repeated : expected, `${JSON.stringify(op)} after ${trouble.fault}`)
          return happened ? again : after
        })

        const withoutAudit = (shape: ReadonlyArray<string>) => shape.filter((row) => !row.startsWith("audit "))
        const rows = (real: Real) => Effect.map(shapeOf(real.project_id), withoutAudit)

        const preamble: ReadonlyArray<Plan["kind"]> = ["issue", "challenge", "prove"]
        const history = Effect.fnUntraced(function* (enrolled: boolean, plans: ReadonlyArray<Plan>) {
          yield* sql`truncate project cascade`
          const real = yield* makeReal(second)
          let state = initial
          const opening = preamble.map((kind) => ({ kind, which: 1, key: 0, on: 1 as const, trouble: undefined }))
          for (const step of [...(enrolled ? opening : []), ...plans]) {
            if (step.kind === "replace") yield* first.replace
            const op = resolve(step, state, real)
            if (op === undefined) continue
            state = yield* take(state, real, op, step)
            yield* invariants
          }
        })

        const context = yield* Effect.context<Service | SqlClient.SqlClient | Scope.Scope>()
        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(
              fc.boolean(),
              fc.array(plan, { minLength: 1, maxLength: 60, size: "max" }),
              (enrolled, plans) =>
                Effect.runPromiseWith(context as never)(history(enrolled, plans) as Effect.Effect<void>)
            ),
            { numRuns: runs, ...(seed === undefined ? {} : { seed: Number(seed) }) }
          )
        )
        if (process.env["MODEL_REACHED"] !== undefined) console.log([...reached].toSorted().join("\n"))
      }),
    hour
  )
})
