/**
 * Delays a statement at will: it has taken its snapshot and waits, before its first lock, until others have finished. A
 * queue for a lock does the same now and then; here it happens every time.
 */
import { assert } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { instance } from "../service/Service.ts"
import { faultyDatabase } from "../service/Faults.ts"
import { type Tokens, tokens } from "../bridges/Tokens.ts"
import { invariants } from "./Invariants.ts"
import { shapeOf } from "./Shape.ts"

const gate = 4711

/**
 * A condition that waits for the gate, for as long as what overtakes it takes. It is about no row, so PostgreSQL checks it
 * before it looks for any, whatever its statistics say.
 */
const passed = `(select pg_advisory_xact_lock_shared(${gate}) from set_config('lock_timeout', '0', true)) is not null`

/** For an instance: makes each of its locking statements wait at the gate. */
export const waitsAtGate = (statement: string) =>
  !/for (no key )?update/.test(statement)
    ? statement
    : statement.replace(
        /((?:as materialized|cross join lateral) \(\s+select [^()]*?from )(bridge_\w+|enrollment_challenge) (\w)\b/,
        `$1(select) gate join $2 $3 on ${passed}`
      )

/** The same for a statement that takes no locks. */
export const readsAtGate = (statement: string) => `select gated.* from (${statement}) gated where ${passed}`

/** Starts `late`, runs `meanwhile` once it waits at the gate, then opens the gate. */
export const overtaken = <A, E, R, B, E2, R2>(late: Effect.Effect<A, E, R>, meanwhile: Effect.Effect<B, E2, R2>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const fiber = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`select pg_advisory_xact_lock(${gate})`
        const started = yield* Effect.forkDetach(late)
        yield* Effect.repeat(Effect.tap(waiting, unlessEnded(started)), { until: (count) => count > 0 })
        yield* meanwhile
        return started
      })
    )
    return yield* Fiber.join(fiber)
  })

/** Nothing will ever wait at the gate if `late` ended before it: the test says how, instead of waiting for its own limit. */
const unlessEnded = (late: Fiber.Fiber<unknown, unknown>) => (count: number) =>
  Effect.sync(() => {
    const ended = late.pollUnsafe()
    if (count === 0 && ended !== undefined) assert.fail(`It ended before the gate: ${inspect(ended)}`)
  })

/** An instance whose locking statements wait at the gate. */
export const replicaAtGate = Effect.gen(function* () {
  const errors: Array<string> = []
  const { layer } = faultyDatabase(waitsAtGate, (error) => errors.push(error))
  const on = yield* instance({}, layer)
  return { ...tokens(on), url: on.url, errors }
})

/** A request of a Bridge, or something that happens to it; what came of it. */
export type Step<World, R> = (world: World, on: Tokens & { readonly url: string }) => Effect.Effect<string, unknown, R>

interface Made {
  readonly bridge: { readonly project_id: string }
}

/**
 * The late step at `slow`, overtaken by the others at `on`, gets the answer and leaves the rows that it does in a second
 * world in which it comes after them.
 */
export const isAsIfLater = Effect.fnUntraced(function* <World extends Made, R>(
  worlds: readonly [World, World],
  late: Step<World, R>,
  steps: ReadonlyArray<Step<World, R>>,
  {
    by = "",
    expected = [],
    on,
    settled = (shape) => shape,
    slow
  }: {
    readonly on: Tokens & { readonly url: string }
    readonly slow: Effect.Success<typeof replicaAtGate>
    /** What overtakes it, for messages. */
    readonly by?: string
    /** Errors of the database that the service retries. */
    readonly expected?: ReadonlyArray<string>
    /** The part of the rows that is compared. */
    readonly settled?: (shape: ReadonlyArray<string>) => ReadonlyArray<string>
  }
) {
  const [one, other] = worlds
  const outcome = yield* overtaken(
    late(one, slow),
    Effect.forEach(steps, (each) => each(one, on))
  )
  yield* Effect.forEach(steps, (each) => each(other, on))
  assert.strictEqual(outcome, yield* late(other, on), by)
  const [found, right] = [yield* shapeOf(one.bridge.project_id), yield* shapeOf(other.bridge.project_id)]
  assert.deepStrictEqual(settled(found), settled(right), by)
  assert.deepStrictEqual(
    slow.errors.filter((error) => !expected.includes(error)),
    []
  )
  yield* invariants
})

const waiting = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ count: number }>`
      select count(*)::int as count
        from pg_locks
       where locktype = 'advisory'
         and objid = ${gate}
         and not granted
         and database = (select oid from pg_database where datname = current_database())`,
    ([row]) => row!.count
  )
)
