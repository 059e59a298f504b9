/**
 * Another session locks a table that every mutation writes to, so every statement waits, with five times as many requests
 * as the pool has connections.
 *
 * A request that gets no connection is answered 503 `bridge_persistence_error` within the deadline. The service stays
 * alive and opens no more connections than it may. Afterwards it recovers, and no mutation is half done.
 */
import { Effect } from "effect"
import { relay } from "../../../support/network/Relay.ts"
import { beside, chaos, draw, ledger, percentile, scratch, server, size, sliced } from "../harness.ts"
import { watchHealth } from "../parts/Health.ts"
import { makeLoad } from "../parts/Load.ts"
import { ownPostgres } from "../parts/database/Postgres.ts"

const connections = 8
/** Of these connections, callers whose credential the process knows have three quarters. */
const known = 6
const clients = size(40, 16)
/** The deadline is five seconds; a statement waits for a lock at most two. */
const holds = size(3, 1)
const held = 6500
const deadline = sliced ? Infinity : 6000
const bound = sliced ? Infinity : 2000

const recoveries: Array<number> = []

chaos(
  "pool",
  () => ({ recoveries }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const postgres = yield* ownPostgres(folder)
    const { sql } = postgres
    const one = yield* server(folder, {
      ...postgres.over(yield* relay(postgres.socket)),
      SERVICE_DATABASE_POOL: String(connections)
    })
    const on = yield* beside(folder, one, postgres.over(yield* relay(postgres.socket)))
    const load = yield* makeLoad(on, yield* ledger(folder), { bridges: clients / 2, agents: clients / 2 })
    const health = yield* watchHealth(one)
    const violations: Array<string> = []
    const waits: Array<number> = []
    let sessions = 0

    const written = sql<{ readonly rows: string }>`
      select concat_ws(' ', (select count(*) from bridge_rotation), (select count(*) from bridge_token),
                       (select count(*) from memory_entry), (select count(*) from task), (select count(*) from receipt),
                       (select count(*) from idempotency_record)) as rows`
    const hold = sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`lock table audit_event in access exclusive mode`
        const [before] = yield* written
        const since = performance.now()
        while (performance.now() - since < held) {
          yield* Effect.sleep("500 millis")
          const [{ waiting } = { waiting: 0 }] = yield* sql<{ readonly waiting: number }>`
            select count(*)::int as waiting
              from pg_stat_activity
             where application_name = 'bridge-service'
               and wait_event_type = 'Lock'`
          sessions = Math.max(sessions, waiting)
        }
        const [after] = yield* written
        if (before!.rows !== after!.rows) violations.push(`half done: ${before!.rows} became ${after!.rows}`)
        return since
      })
    )
    yield* load.during(
      Effect.gen(function* () {
        for (let n = 0; n < holds; n++) {
          yield* Effect.sleep(500 + draw() * 500)
          const since = yield* hold
          const over = performance.now()
          yield* Effect.sleep(size(3000, 1000))
          const { exchanges } = load
          waits.push(...exchanges.flatMap(({ at, millis }) => (at > since && at + millis < over ? [millis] : [])))
          const last = exchanges.findLast(({ at, outcome }) => at > over && !/^20\d$/.test(outcome))
          recoveries.push(last === undefined ? 0 : Math.round(last.at + last.millis - over))
          const first = exchanges.find(({ at, millis, outcome }) => at + millis > over && /^20\d$/.test(outcome))
          if (first === undefined) violations.push("no request succeeded after the table was unlocked")
        }
      })
    )
    yield* load.settled(sql)

    const outcomes = load.outcomes()
    const late = waits.filter((millis) => millis > deadline).length
    if (late > 0) violations.push(`${late} answers took longer than ${deadline} ms`)
    if (Math.max(...recoveries) > bound) violations.push(`errors for ${Math.max(...recoveries)} ms after the unlock`)
    if (sessions > connections) violations.push(`${sessions} sessions for a pool of ${connections}`)
    if (sessions < known) violations.push(`the share of known callers was not exhausted: ${sessions} sessions`)
    if ((outcomes["no answer"] ?? 0) > 0) violations.push("a request had no answer")
    if ((outcomes["503 bridge_persistence_error"] ?? 0) < clients)
      violations.push("the lock made hardly any request fail")

    return {
      figures: {
        ...load.counts(),
        outcomes,
        clients,
        connections: sessions,
        holds,
        slowest_answer_while_held_ms: Math.round(Math.max(...waits)),
        median_answer_while_held_ms: Math.round(percentile(waits, 0.5)),
        slowest_recovery_ms: Math.max(...recoveries),
        ...health.figures()
      },
      violations: [...violations, ...load.violations, ...health.violations()]
    }
  })
)
