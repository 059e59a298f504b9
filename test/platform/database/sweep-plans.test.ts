/**
 * What a sweep costs does not depend on how much is stored: it reads the rows that are due, by an index, and so do the
 * foreign keys that its deletes check. Counted by PostgreSQL on a filled database.
 */
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { sweeps } from "../../../src/App.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { type Sweep, sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { fill } from "../../support/database/Fill.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { environment } from "../../support/service/Service.ts"

const settings = Settings.layer.pipe(
  Layer.provide(
    ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SERVICE_AUDIT_RETENTION_DAYS: "30" }))
  )
)
const filled = Layer.effectDiscard(fill(20_000))

interface Batch {
  readonly changed: number
  /** Rows that sequential scans read. */
  readonly scanned: number
  /** Index entries that were read. */
  readonly entries: number
}

/** What the session has read and PostgreSQL has not yet added to its statistics, which it does between transactions. */
const readSoFar = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<Pick<Batch, "scanned" | "entries">>`
      select (select sum(seq_tup_read)::int from pg_stat_xact_user_tables) as scanned,
             (select sum(pg_stat_get_xact_tuples_returned(indexrelid))::int from pg_stat_user_indexes) as entries`,
    ([read]) => read!
  )

/** Runs one turn of a sweep, that many days from now, and counts what each batch reads. */
const measured = Effect.fnUntraced(function* ({ name, run }: Sweep<Settings>, days: number) {
  const batches: Array<Batch> = []
  const counting: Sweep<Settings> = {
    name,
    run: Effect.fnUntraced(function* (sql, now, limit) {
      const before = yield* readSoFar(sql)
      const changed = yield* run(sql, now, limit)
      const { entries, scanned } = yield* readSoFar(sql)
      batches.push({
        changed: changed.length,
        scanned: scanned - before.scanned,
        entries: entries - before.entries
      })
      return changed
    })
  }
  const now = Effect.succeed(new Date(Date.now() + Duration.toMillis(Duration.days(days))))
  const clock = DatabaseClock.of({ now, nowIfKnown: Effect.asSome(now), offset: Effect.succeed(0) })
  yield* Effect.provideService(sweepOnce([counting]), DatabaseClock, clock)
  return batches
})

layer(Layer.mergeAll(filled, settings).pipe(Layer.provideMerge(TestDatabase.sql)), { timeout: 120_000 })(
  "on a database with 20,000 Bridges",
  (it) => {
    it.effect("a sweep reads nothing if nothing is due", () =>
      Effect.gen(function* () {
        for (const sweep of sweeps) {
          for (const batch of yield* measured(sweep, 0)) {
            assert.deepInclude(batch, { changed: 0, scanned: 0 }, sweep.name)
            // The planner itself looks at the ends of some indexes.
            assert.isAtMost(batch.entries, 50, sweep.name)
          }
        }
      })
    )

    it.effect("a sweep reads by index what it changes, and foreign keys are checked by index", () =>
      Effect.gen(function* () {
        const idle = new Set(sweeps.map(({ name }) => name))
        // Notifications expire within a day, used refresh tokens are due after 40 days and their grants after 50.
        for (const days of [1, 40, 90]) {
          for (const sweep of sweeps) {
            for (const { changed, entries, scanned } of yield* measured(sweep, days)) {
              assert.strictEqual(scanned, 0, sweep.name)
              // A few index entries for each row that is changed or looked at, deleted or not.
              assert.isAtMost(entries, 25 * (changed + 1000), sweep.name)
              if (changed > 0) idle.delete(sweep.name)
            }
          }
        }
        assert.deepStrictEqual([...idle], [])
      })
    )
  }
)
