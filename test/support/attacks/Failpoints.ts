/**
 * One mutation, with each of its statements failing in every way a database fails: the rows are as before or as after it,
 * never in between; the answer is correct or asks for a retry; and the retry converges.
 */
import { assert, type Vitest } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { type Fault, faults, faultyDatabase } from "../service/Faults.ts"
import type { Answer } from "../network/Http.ts"
import { invariants } from "./Invariants.ts"
import { outcomeOf } from "./Race.ts"
import { instance, Service } from "../service/Service.ts"
import type { TestDatabase } from "../database/TestDatabase.ts"

export type On = Effect.Success<ReturnType<typeof instance>>
export type Shape = ReadonlyArray<string>

type Base = Service | SqlClient.SqlClient | TestDatabase
type Needs = Base | Scope.Scope

export interface Operation<World> {
  /** Preparation, on an instance without faults. */
  readonly after?: (on: On, world: World) => Effect.Effect<unknown, unknown>
  readonly run: (on: On, world: World) => Effect.Effect<string>
  /** The retry's answer if the first attempt was committed. */
  readonly again: string
  /** The part of the rows that repetition must not change; by default all of it. */
  readonly settled?: (shape: Shape) => unknown
  /** How the answer asks for a retry without naming the failure. */
  readonly asks?: string
}

/** An operator command fails with the codes that the edge would answer. */
export const command =
  <World>() =>
  (run: (on: On["services"], world: World) => Effect.Effect<unknown, { readonly _tag: string }>): Operation<World> => ({
    run: ({ services }, world) =>
      run(services, world).pipe(
        Effect.as("done"),
        Effect.catch(({ _tag }) => Effect.succeed(_tag)),
        Effect.catchDefect(() => Effect.succeed("internal_error"))
      ),
    again: "done"
  })

/** A request, and the answer to its retry. */
export const request =
  <World>() =>
  (
    again: string,
    run: (on: On, world: World) => Effect.Effect<Answer>,
    more: Pick<Operation<World>, "after" | "asks" | "settled"> = {}
  ): Operation<World> => ({
    run: (on, world) =>
      Effect.map(run(on, world), (answer) => {
        const error: unknown = answer.body?.error
        return typeof error === "string" ? (oauthCodes[error] ?? error) : outcomeOf(answer)
      }),
    again,
    ...more
  })
/** The names of RFC 6749 and RFC 7591 for what is 503 and 500 elsewhere. */
const oauthCodes: Readonly<Record<string, string>> = {
  temporarily_unavailable: "bridge_persistence_error",
  server_error: "internal_error"
}

/** One test per operation and fault. `world` makes what the operations need. */
export const sweep = <World, E, E2, R = never>(
  it: Vitest.MethodsNonLive<Base | R>,
  world: Effect.Effect<World, E, Needs | R>,
  shapeOf: (world: World) => Effect.Effect<Shape, E2, Needs>,
  operations: Readonly<Record<string, Operation<World>>>,
  settings: Readonly<Record<string, string>> = {}
) => {
  const start = Effect.fnUntraced(function* ({ after }: Operation<World>) {
    const made = yield* world
    if (after !== undefined) yield* after(yield* Service, made)
    return made
  })

  for (const [name, operation] of Object.entries(operations)) {
    for (const fault of faults) {
      it.effect(`${name}: ${fault}, at every statement`, () =>
        Effect.gen(function* () {
          const database = faultyDatabase()
          const on = yield* instance(settings, Layer.merge(database.layer, database.dedicated))
          const twin = yield* start(operation)
          const before = yield* shapeOf(twin)
          const outcome = yield* operation.run(on, twin)
          const after = yield* shapeOf(twin)
          assert.notDeepEqual(after, before)

          for (let nth = 1; ; nth++) {
            const made = yield* start(operation)
            yield* database.fail(fault, nth)
            const answered = yield* operation.run(on, made)
            const struck = yield* database.heal
            const found = yield* shapeOf(made)
            const at = `${fault} at statement ${nth}: ${answered}`
            if (!struck) {
              assert.deepStrictEqual([answered, found], [outcome, after], at)
              assert.isAbove(nth, 1)
              break
            }
            const happened = found.length === after.length && found.every((row, i) => row === after[i])
            if (!happened) assert.deepStrictEqual(found, before, at)
            if (answered === outcome) assert.isTrue(happened, at)
            else assert.strictEqual(answered, operation.asks ?? named[fault], at)

            assert.strictEqual(yield* operation.run(on, made), happened ? operation.again : outcome, at)
            const { settled = (shape: Shape) => shape } = operation
            assert.deepStrictEqual(settled(yield* shapeOf(made)), settled(after), at)
          }
          yield* invariants
        })
      )
    }
  }
}

const named: Readonly<Record<Fault, string>> = {
  refused: "bridge_persistence_error",
  broken: "internal_error",
  "disconnected before": "bridge_persistence_error",
  "disconnected after": "bridge_persistence_error"
}
