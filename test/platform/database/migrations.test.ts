/** Migrations run forward, once, in one process at a time, each completely or not at all (decisions.md, Migrations). */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import {
  type Migration,
  migrate,
  MigrationError,
  review,
  shipped,
  statementsOf
} from "../../../src/platform/database/Migrations.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { waitingForLock } from "../../support/database/Locks.ts"

describe("a migration file", () => {
  const files: ReadonlyArray<readonly [name: string, text: string, statements: ReadonlyArray<string>]> = [
    ["splits at semicolons", "select 1; select 2;\n", ["select 1", "select 2"]],
    ["needs no semicolon at its end", "select 1; select 2", ["select 1", "select 2"]],
    ["may end in comments", "select 1; -- done; really\n/* over; */", ["select 1"]],
    ["may be empty", " \n -- nothing;\n", []],
    ["keeps a semicolon in text", "select ';', 'it''s;'; select 2", ["select ';', 'it''s;'", "select 2"]],
    ["keeps a semicolon in a name", 'select 1 as "a;""b;"; select 2', ['select 1 as "a;""b;"', "select 2"]],
    ["keeps a semicolon in a comment", "select 1 -- a; b\n, 2; select 3", ["select 1 -- a; b\n, 2", "select 3"]],
    ["keeps a quote in a comment", "select 1 -- it's\n; select 2", ["select 1 -- it's", "select 2"]],
    ["keeps a comment in text", "select '--'; select 2", ["select '--'", "select 2"]],
    [
      "keeps a function body",
      "create function f() returns void language sql as $$ select 1; select 2; $$; select 3",
      ["create function f() returns void language sql as $$ select 1; select 2; $$", "select 3"]
    ],
    [
      "keeps a dollar quote within another",
      "do $a$ begin execute $b$ select 1; $b$; end $a$; select 2",
      ["do $a$ begin execute $b$ select 1; $b$; end $a$", "select 2"]
    ],
    [
      "does not mistake a parameter for a dollar quote",
      "prepare p as select $1; select 2",
      ["prepare p as select $1", "select 2"]
    ]
  ]
  for (const [name, text, statements] of files) {
    it(`${name}`, () => assert.deepStrictEqual(statementsOf(text), statements))
  }
})

const file = (id: number, text: string): Migration => ({
  id,
  name: `000${id}_test.sql`,
  checksum: `checksum of ${text}`,
  statements: statementsOf(text)
})

/** How a migration names the one that a release must have. */
const requiring = (id: number) =>
  `create or replace function schema_requires() returns int language sql immutable as 'select ${id}'`

/** What an earlier release would miss, or what would refuse its rows. */
const takesAway = (statement: string) => {
  const text = statement.replaceAll(/--[^\n]*/g, "").replaceAll(/(\$\w*\$)[\s\S]*?\1/g, "")
  const added = text.split(/(?=\badd column\b)/i).slice(1)
  return (
    /\bdrop (?:table|view|column|function|sequence|default)\b|\brename\b|\bset not null\b|\btype \w/i.test(text) ||
    added.some((column) => /\bnot null\b/i.test(column) && !/\bdefault\b/i.test(column))
  )
}

describe("a migration that takes something away", () => {
  const examples: ReadonlyArray<readonly [statement: string, takes: boolean]> = [
    ["alter table one drop column a", true],
    ["alter table one rename column a to b", true],
    ["alter table one alter column a set not null", true],
    ["alter table one alter column a type bigint", true],
    ["alter table one add column a int, add column b int not null", true],
    ["drop table one", true],
    ["alter table one add column a int not null default 0, add column b text", false],
    ["alter table one alter column a drop not null", false],
    ["drop index one", false],
    ["create table one (a int not null) -- drop table one", false],
    ["create function f() returns void language sql as $$ drop table one $$", false]
  ]
  for (const [statement, takes] of examples)
    it(`${statement}: ${takes}`, () => assert.strictEqual(takesAway(statement), takes))

  it("says which migration a release must have to do without it (docs/run.md, Upgrade)", () => {
    // Up to 0049, 0.1.0 was the only release.
    const silent = shipped
      .filter(({ id, statements }) => {
        if (id <= 49 || !statements.some(takesAway)) return false
        const [, needed] = /schema_requires\(\)[^']*'select (\d+)'/.exec(statements.join(";")) ?? []
        return needed === undefined || Number(needed) >= id
      })
      .map(({ name }) => name)
    assert.deepStrictEqual(silent, [])
  })
})

const names = shipped.map(({ name }) => name)

const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ name: string }>`
    select table_name as name
      from information_schema.tables
     where table_schema = 'public'
     order by table_name`
  return found.map(({ name }) => name)
})

/** Each test has an empty database of its own. */
const inEmpty = <A, E>(self: Effect.Effect<A, E, SqlClient.SqlClient | TestDatabase>) =>
  Effect.provide(self, TestDatabase.emptySql, { local: true })

describe("migrations", () => {
  it.effect("run in order, and a second run does nothing", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* review(), { pending: names, changed: [], newer: [], works: true })
      assert.deepStrictEqual(yield* migrate(), names)
      assert.deepStrictEqual(yield* review(), { pending: [], changed: [], newer: [], works: true })
      assert.deepStrictEqual(yield* migrate(), [])
    }).pipe(inEmpty)
  )

  it.effect("stop at a file that was changed after it ran, and name it", () =>
    Effect.gen(function* () {
      yield* migrate([file(1, "create table one ()")])
      assert.deepStrictEqual(yield* review([file(1, "create table other ()")]), {
        pending: [],
        changed: ["0001_test.sql"],
        newer: [],
        works: true
      })
      const error = yield* Effect.flip(migrate([file(1, "create table other ()"), file(2, "create table two ()")]))
      assert.instanceOf(error, MigrationError)
      assert.match((error as MigrationError).message, /migrations\/0001_test\.sql/)
      assert.deepStrictEqual(yield* tables, ["one", "schema_migration"])
    }).pipe(inEmpty)
  )

  it.effect("leave a schema newer than this release alone", () =>
    Effect.gen(function* () {
      const [one, two] = [file(1, "create table one ()"), file(2, "create table two ()")]
      yield* migrate([one, two])
      assert.deepStrictEqual(yield* migrate([one]), [])
      assert.deepStrictEqual(yield* review([one]), { pending: [], changed: [], newer: [two.name], works: true })
    }).pipe(inEmpty)
  )

  it.effect("stop a release that lacks the migration which the schema requires, and name the file to look for", () =>
    Effect.gen(function* () {
      const [one, two] = [file(1, "create table one ()"), file(2, "create table two ()")]
      const three = file(3, `drop table one; ${requiring(2)}`)
      yield* migrate([one, two, three])
      assert.deepStrictEqual(yield* migrate([one, two]), [])
      const error = yield* Effect.flip(migrate([one]))
      assert.instanceOf(error, MigrationError)
      assert.match((error as MigrationError).message, /newer release.*migrations\/0003_test\.sql/)
      const { works } = yield* review([one])
      assert.isFalse(works)
    }).pipe(inEmpty)
  )

  it.effect("run once when several processes start at the same time", () =>
    Effect.gen(function* () {
      const address = yield* TestDatabase
      const starter = Effect.provide(migrate(), PgClient.layer({ ...address, maxConnections: 1 }), { local: true })
      const ran = yield* Effect.all(
        Array.from({ length: 6 }, () => starter),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(ran.flat().toSorted(), names)
    }).pipe(inEmpty)
  )

  it.effect("run again when they lose a deadlock with a request of the old release", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const address = yield* TestDatabase
      yield* migrate([file(1, "create table one (); create table two ()")])
      const altering = file(2, "alter table one add column a int; alter table two add column b int")
      const [hasTwo, wantsOne] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      // The request locks in the other order and looks for no deadlock, so the migration finds it and is its victim.
      const request = Effect.gen(function* () {
        yield* sql`set local deadlock_timeout = '1min'`
        yield* sql`lock table two`
        yield* Deferred.succeed(hasTwo, undefined)
        yield* Deferred.await(wantsOne)
        yield* sql`lock table one`
      }).pipe(sql.withTransaction)
      const requested = yield* Effect.forkChild(request)
      yield* Deferred.await(hasTwo)
      const migrated = yield* Effect.forkChild(
        Effect.provide(migrate([altering]), PgClient.layer({ ...address, maxConnections: 1 }), { local: true })
      )
      yield* waitingForLock
      yield* Deferred.succeed(wantsOne, undefined)
      yield* Fiber.join(requested)
      assert.deepStrictEqual(yield* Fiber.join(migrated), [altering.name])
    }).pipe(inEmpty)
  )

  it.effect("that fail midway leave the schema as it was before the file", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        migrate([file(1, "create table one ()"), file(2, "create table two (); select 1/0; create table three ()")])
      )
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(yield* tables, ["one", "schema_migration"])
      assert.deepStrictEqual(yield* migrate([file(1, "create table one ()"), file(2, "create table two ()")]), [
        "0002_test.sql"
      ])
    }).pipe(inEmpty)
  )

  it.effect("whose process is killed midway leave the schema as it was before the file", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const address = yield* TestDatabase
      const slow = file(1, "create table one (); select pg_sleep(60); create table two ()")
      const other = PgClient.layer({ ...address, maxConnections: 1, applicationName: "to be killed" })
      const running = yield* Effect.forkChild(Effect.exit(Effect.provide(migrate([slow]), other, { local: true })))
      yield* Effect.repeat(
        sql<{ asleep: number }>`
          select count(*)::int as asleep
            from pg_stat_activity
           where application_name = 'to be killed'
             and wait_event = 'PgSleep'`,
        { until: ([row]) => row!.asleep === 1 }
      )
      yield* sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'to be killed'`
      assert.isTrue(Exit.isFailure(yield* Fiber.join(running)))
      assert.deepStrictEqual(yield* tables, [])
      const quick = { ...slow, statements: statementsOf("create table one (); create table two ()") }
      assert.deepStrictEqual(yield* migrate([quick]), ["0001_test.sql"])
      assert.deepStrictEqual(yield* tables, ["one", "schema_migration", "two"])
    }).pipe(inEmpty)
  )
})

describe("the migration of budgets", () => {
  it.effect("counts what projects have stored, and gives one that outgrew a default twice its use", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const before = shipped.filter(({ id }) => id < 12)
      const [large, small] = ["00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002"]
      yield* migrate(before)
      yield* sql`
        insert into project (project_id, name, created_at)
        values (${large}::uuid, 'large', now()), (${small}::uuid, 'small', now())`
      yield* sql`
        insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
        select ${large}::uuid, gen_random_uuid(), 'title', 'äö', 'open', 2, '{tag,x}', 1, 'a', now(), now()
          from generate_series(1, 30000)`
      yield* sql`
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        values (${small}::uuid, gen_random_uuid(), 'note', 'four', 'body', '{}', 'a', 'contributor', now())`
      yield* sql`
        insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
        values (${small}::uuid, 'lexeme', gen_random_uuid(), 1, 1)`
      yield* migrate()
      assert.deepStrictEqual(
        yield* sql`
          select p.name, p.limits, u.stored_bytes::int, u.index_bytes::int, u.entries::int, u.tasks::int
            from project p
            join project_usage u on u.project_id = p.project_id
           order by p.name`,
        [
          {
            name: "large",
            limits: { tasks: 60_000 },
            stored_bytes: 390_000,
            index_bytes: 0,
            entries: 0,
            tasks: 30_000
          },
          { name: "small", limits: {}, stored_bytes: 8, index_bytes: 30, entries: 1, tasks: 0 }
        ]
      )
    }).pipe(inEmpty)
  )
})

describe("the migration of task counts", () => {
  it.effect("counts the unfinished dependencies of each task and the receipts of each project", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* migrate(shipped.filter(({ id }) => id < 23))
      const project = "00000000-0000-7000-8000-000000000001"
      yield* sql`insert into project (project_id, name, created_at) values (${project}::uuid, 'P', now())`
      yield* sql`
        insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at,
                          closed_at)
        select ${project}::uuid, lpad(n::text, 32, '0')::uuid, 'T' || n, '', case n when 1 then 'done' else 'open' end, 2,
               '{}', 1, 'a', now(), now(), case n when 1 then now() end
          from generate_series(1, 4) n`
      yield* sql`
        insert into task_dependency (project_id, task_id, depends_on)
        select ${project}::uuid, lpad(n::text, 32, '0')::uuid, lpad(d::text, 32, '0')::uuid
          from generate_series(1, 4) n, generate_series(1, n - 1) d`
      yield* sql`
        insert into receipt (project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls,
                             task_version_after, task_status_after, actor, created_at)
        select ${project}::uuid, gen_random_uuid(), lpad('1', 32, '0')::uuid, 's' || n, 'w', 'progress', 's', '{}', '{}',
               1, 'open', 'x', now()
          from generate_series(1, 3) n`
      yield* migrate()
      assert.deepStrictEqual(yield* sql`select title, waits_for from task order by id`, [
        { title: "T1", waits_for: 0 },
        { title: "T2", waits_for: 0 },
        { title: "T3", waits_for: 1 },
        { title: "T4", waits_for: 2 }
      ])
      assert.deepStrictEqual(yield* sql`select receipts::int from project_usage`, [{ receipts: 3 }])
    }).pipe(inEmpty)
  )
})
