/**
 * Concurrent callers over several instances on one database (ROUNDS rounds, by default 5).
 *
 * A round makes its own state, starts all callers together, and checks their answers and the rows. A deadlock or a 5xx
 * fails every race.
 */
import { assert, vi } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Answer } from "../network/Http.ts"

export const rounds = Number(process.env["ROUNDS"] ?? 5)

// All rounds together take longer than a test's usual limit.
vi.setConfig({ testTimeout: Math.max(60_000, rounds * 5000) })

/** `count` callers; caller `i` is started on instance `i mod instances.length`. */
export const callers = <I, E, R>(
  instances: ReadonlyArray<I>,
  count: number,
  call: (instance: I, caller: number) => Effect.Effect<Answer, E, R>
) => together(Array.from({ length: count }, (_, caller) => call(instances[caller % instances.length]!, caller)))

/** Runs all of them at once; none may be answered with a 5xx. */
export const together = <E, R>(calls: ReadonlyArray<Effect.Effect<Answer, E, R>>) =>
  Effect.tap(Effect.all(calls, { concurrency: "unbounded" }), (answers) =>
    Effect.sync(() => {
      for (const { status, text } of answers) assert.isBelow(status, 500, text)
    })
  )

/** Starts the call after a random delay: over the rounds it runs before, between and after the other calls. */
export const sometime = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  SqlClient.SqlClient.use((sql) => sql`select pg_sleep(random() * 0.006)`).pipe(Effect.andThen(self))

/** How often each outcome came: `{ "201": 1, "bridge_identity_conflict": 7 }`; a replay counts as `201 replayed`. */
export const tally = (answers: ReadonlyArray<Answer>): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const answer of answers) {
    const outcome = outcomeOf(answer)
    counts[outcome] = (counts[outcome] ?? 0) + 1
  }
  return counts
}

export const outcomeOf = ({ code, headers, status }: Answer) =>
  code ?? `${status}${headers.get("idempotency-replayed") === "true" ? " replayed" : ""}`

/** Repeats `round`, asserts the invariants of the rows after each, and that there was no deadlock. */
export const race = <E, R, E2, R2>(round: Effect.Effect<void, E, R>, invariants: Effect.Effect<void, E2, R2>) =>
  Effect.gen(function* () {
    const before = yield* deadlocks
    for (let i = 0; i < rounds; i++) {
      yield* round
      yield* invariants
    }
    assert.strictEqual(yield* deadlocks, before)
  })

/** PostgreSQL publishes the counter with a delay, unless the reading session forces it. */
const deadlocks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`select pg_stat_force_next_flush()`
  const [row] = yield* sql<{ deadlocks: number }>`
    select deadlocks::int as deadlocks
      from pg_stat_database
     where datname = current_database()`
  return row!.deadlocks
})
