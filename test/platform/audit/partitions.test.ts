/** The audit log has partitions a year ahead, and loses a month only as a whole (decisions.md, Evidence). */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, type Scope, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Audit } from "../../../src/platform/audit/Audit.ts"
import * as ChainStore from "../../../src/platform/audit/ChainStore.ts"
import { linkOnce, newMemory } from "../../../src/platform/audit/Linker.ts"
import { Partitions } from "../../../src/platform/audit/Partitions.ts"
import { Verification } from "../../../src/platform/audit/Verification.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { connected } from "../../../src/platform/database/Database.ts"
import { migrate, shipped } from "../../../src/platform/database/Migrations.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { Service } from "../../support/service/Service.ts"

/** Each test has a database of its own. */
const fresh = <A, E>(self: Effect.Effect<A, E, Layer.Success<typeof Service.layer> | Scope.Scope>) =>
  Effect.scoped(Effect.provide(self, Service.layer, { local: true }))

/** The log's own time: TestClock would run everything that repeats every second, up to the year after next. */
const clock = (now: number): typeof DatabaseClock.Service => {
  const date = Effect.sync(() => new Date(now))
  return { now: date, nowIfKnown: Effect.asSome(date), offset: Effect.succeed(0) }
}

/** Runs an effect of the service at an instant. */
const on = <A, E, R>(now: number, self: Effect.Effect<A, E, R>, more: Context.Context<never> = Context.empty()) =>
  Effect.flatMap(Service, ({ services }) =>
    Effect.provideContext(self, Context.merge(Context.add(services, DatabaseClock, clock(now)), more))
  )

const maintained = Effect.flatMap(
  Effect.provide(Effect.service(Partitions), Partitions.layer, { local: true }),
  ({ maintain }) => maintain
)

/** As the owner of the tables. */
const maintain = Effect.fnUntraced(function* (now: number) {
  const owner = yield* Layer.build(Layer.fresh(connected(yield* TestDatabase, { poolSize: 1, pooler: false })))
  return yield* on(now, maintained, owner)
})

const partitions = (parent: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ name: string }>`
        select relname as name
          from pg_inherits
          join pg_class on pg_class.oid = inhrelid
         where inhparent = ${parent}::regclass
         order by relname`,
      (found) => found.map(({ name }) => name.slice(parent.length + 1))
    )
  )

const insert = Effect.fnUntraced(function* (at: string) {
  const sql = yield* SqlClient.SqlClient
  const event_id = randomUUID()
  yield* sql`
    insert into audit_event (event_id, at, actor, action, outcome, subject, address, user_agent)
    values (${event_id}::uuid, ${at}::timestamptz, 'operator', 'project.created', 'done', '{}', '', '')`
  return event_id
})

const link = (now: number) =>
  on(
    now,
    Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.andThen(ChainStore.make(sql).begin, linkOnce(newMemory())))
  )

const verify = (now: number) =>
  on(
    now,
    Effect.flatMap(Effect.provide(Effect.service(Verification), Verification.layer, { local: true }), ({ verify }) =>
      verify({ project: undefined, since: undefined, heads: Stream.empty })
    )
  )

const count = (table: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(sql<{ count: number }>`select count(*)::int as count from ${sql(table)}`, ([row]) => row!.count)
  )

/** The first partition of the template ends with the month in which the tests run. */
const firstMonth = Effect.map(partitions("audit_event"), ([first]) => first!)
const at = (month: string, later: number) => Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)) - 1 + later, 1)
const monthOf = (time: number) => new Date(time).toISOString().slice(0, 7).replace("-", "_")

describe("the partitions of the audit log", () => {
  it.live("reach twelve months ahead after the migration, for rows and for links", () =>
    Effect.gen(function* () {
      const months = yield* partitions("audit_event")
      assert.lengthOf(months, 14)
      assert.strictEqual(months.at(-1), "default")
      const first = yield* firstMonth
      assert.deepStrictEqual(
        months.slice(0, -1),
        Array.from({ length: 13 }, (_, i) => monthOf(at(first, i)))
      )
      assert.deepStrictEqual(yield* partitions("audit_link"), months)
    }).pipe(fresh)
  )

  it.live("are kept twelve months ahead", () =>
    Effect.gen(function* () {
      const first = yield* firstMonth
      assert.deepStrictEqual(yield* maintain(at(first, 0)), {
        made: 0,
        dropped: [],
        months_ahead: 12,
        postponed: false
      })
      assert.deepInclude(yield* maintain(at(first, 3)), { made: 3, dropped: [], months_ahead: 12 })
      const months = yield* partitions("audit_event")
      assert.include(months, monthOf(at(first, 15)))
      assert.deepStrictEqual(yield* partitions("audit_link"), months)
    }).pipe(fresh)
  )

  it.live("never refuse a row: without a partition it is kept aside, and gets one later", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const first = yield* firstMonth
      const stray = yield* insert(new Date(at(first, 15)).toISOString())
      yield* link(at(first, 15))
      assert.deepInclude(yield* maintain(at(first, 16)), { months_ahead: 12 })
      for (const parent of ["audit_event", "audit_link"]) {
        assert.deepStrictEqual(
          yield* sql`select tableoid::regclass::text as partition from ${sql(parent)} where event_id = ${stray}::uuid`,
          [{ partition: `${parent}_${monthOf(at(first, 15))}` }]
        )
      }
      assert.strictEqual(yield* count("audit_event_default"), 0)
      assert.deepInclude(yield* verify(at(first, 16)), { ok: true })
      yield* insert(new Date(at(first, 14)).toISOString())
    }).pipe(fresh)
  )

  it.live("leave rows of times that no service writes aside, and go on; verification names them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const first = yield* firstMonth
      for (const time of ["infinity", "-infinity", "20000-01-01"]) {
        assert.strictEqual((yield* Effect.flip(insert(time))).reason._tag, "ConstraintError")
      }
      const ahead = yield* insert("2090-01-01T00:00:00Z")
      const stray = yield* insert(new Date(at(first, 14)).toISOString())
      yield* link(at(first, 14))
      assert.deepInclude(yield* maintain(at(first, 14)), { made: 13, months_ahead: 12 })
      assert.deepStrictEqual(yield* sql`select event_id from audit_event_default`, [{ event_id: ahead }])
      assert.isAbove(yield* count(`audit_event_${monthOf(at(first, 14))}`), 0)
      assert.deepInclude(yield* maintain(at(first, 15)), { made: 1, months_ahead: 12 })
      // Also after the first month was dropped, which leaves the row before the oldest head.
      const { broken } = yield* verify(at(first, 15))
      assert.deepInclude(broken[0], { problem: "misdated", event_id: ahead })
      assert.notStrictEqual(stray, ahead)
    }).pipe(fresh)
  )

  it.live("wait for a backup without stopping those who write", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const first = yield* firstMonth
      const [reading, done] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const backup = yield* sql
        .withTransaction(
          Effect.gen(function* () {
            yield* sql`lock table audit_event, audit_link in access share mode`
            yield* Deferred.succeed(reading, undefined)
            yield* Deferred.await(done)
          })
        )
        .pipe(Effect.forkChild)
      yield* Deferred.await(reading)
      yield* insert(new Date(at(first, 14)).toISOString())
      const maintaining = yield* Effect.forkChild(maintain(at(first, 14)))
      let slowest = 0
      while (maintaining.pollUnsafe() === undefined) {
        const started = performance.now()
        yield* insert(new Date(at(first, 0)).toISOString())
        slowest = Math.max(slowest, performance.now() - started)
        yield* Effect.sleep("20 millis")
      }
      assert.deepInclude(yield* Fiber.join(maintaining), { made: 0, postponed: true })
      assert.isBelow(slowest, 3000)
      yield* Deferred.succeed(done, undefined)
      yield* Fiber.join(backup)
      assert.deepInclude(yield* maintain(at(first, 14)), { postponed: false, months_ahead: 12 })
    }).pipe(fresh)
  )

  it.live("go once their last day is older than the retention, with links, heads and counts", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { services } = yield* Service
      const first = yield* firstMonth
      const audit = Context.get(services, Audit)
      const day = 86_400_000
      for (const time of [at(first, 0), at(first, 0) + day, at(first, 1), at(first, 2)]) {
        const refused = { action: "mcp.write", actor: "a", code: "c", project_id: null, subject: {} }
        yield* Effect.provideContext(audit.refused(new Date(time), refused), services)
        yield* link(time)
      }
      yield* insert(new Date(at(first, 2)).toISOString())
      yield* link(at(first, 2))
      assert.deepInclude(yield* verify(at(first, 2)), { ok: true, rows: 5 })

      const end = at(first, 1) + 400 * day
      assert.deepInclude(yield* maintain(end - 1), { dropped: [] })
      assert.deepInclude(yield* maintain(end), { dropped: [first] })
      assert.deepStrictEqual(
        yield* sql`select seq::int from audit_link order by seq`,
        [3, 4, 5].map((seq) => ({ seq }))
      )
      assert.deepStrictEqual(yield* sql`select subject, at from audit_event where action = 'audit_log.month_dropped'`, [
        { subject: { month: first }, at: new Date(end) }
      ])
      assert.strictEqual(yield* count("audit_refusal_count"), 2)
      // The head of the last row that went is where the chain begins now.
      assert.deepStrictEqual(
        yield* sql`select seq::int from audit_chain order by seq`,
        [2, 3, 4, 5].map((seq) => ({ seq }))
      )
      assert.deepInclude(yield* verify(end), { ok: true, rows: 3 })

      yield* sql`alter table audit_event disable trigger user`
      yield* sql`update audit_event set actor = 'b' where at < ${new Date(at(first, 2))}`
      assert.deepInclude((yield* verify(end)).broken[0], { problem: "changed", seq: 3 })
    }).pipe(fresh)
  )

  it.live("may be changed by their owner only", () =>
    Effect.gen(function* () {
      const first = yield* firstMonth
      assert.strictEqual((yield* Effect.flip(on(at(first, 3), maintained)))._tag, "DatabaseForbids")
    }).pipe(fresh)
  )
})

describe("the migration of the audit log", () => {
  it.live("keeps the rows and the counts of earlier releases, and lets those releases go on", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* migrate(shipped.filter(({ id }) => id < 16))
      yield* sql`
        insert into audit_event (
          event_id, at, actor, action, outcome, code, subject, address, user_agent, count, refusal_key)
        select gen_random_uuid(), now() - interval '1 month' * i, 'operator', 'a', case when i = 3 then 'refused' else 'done' end,
               case when i = 3 then 'code' end, '{}', '', '', case when i = 3 then 7 else 1 end,
               case when i = 3 then 'key' end
          from generate_series(1, 30) i`
      yield* migrate()
      assert.strictEqual(yield* count("audit_event"), 30)
      assert.deepStrictEqual(
        yield* sql`select code, count from audit_event join audit_refusal_count using (event_id)`,
        [{ code: "code", count: 7 }]
      )
      // Statements of the release before. Its refusals go without a row: a missing column counts as a passing failure.
      yield* sql`
        insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
        values (gen_random_uuid(), now(), null, 'operator', 'a', 'done', '{}', '', '')`
      const refusal = yield* Effect.flip(sql`
        insert into audit_event (event_id, at, actor, action, outcome, code, subject, address, user_agent, refusal_key)
        values (gen_random_uuid(), now(), 'operator', 'a', 'refused', 'c', '{}', '', '', 'key')
            on conflict (refusal_key) where refusal_key is not null do update set count = audit_event.count + 1`)
      assert.propertyVal(refusal.reason.cause, "code", "42703")
      const purge = yield* Effect.flip(sql`delete from audit_event where at < now() - interval '400 days'`)
      assert.strictEqual(purge.reason._tag, "AuthorizationError")
    }).pipe((self) => Effect.provide(self, TestDatabase.emptySql, { local: true }))
  )
})
