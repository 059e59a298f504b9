/**
 * Interrupts each migration at each of its statements, on tables filled with the rows that the service writes, and runs
 * it again.
 *
 * An interrupted migration has changed nothing. The next run leaves the same schema and rows as an uninterrupted one. Rows
 * of an earlier version are this release's rows, cut to the tables and columns that existed then.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { migrate, type Migration, shipped } from "../../../../src/platform/database/Migrations.ts"
import { startCluster } from "../../../support/database/Cluster.ts"
import { type Fault, faultyDatabase } from "../../../support/service/Faults.ts"
import { everything, makePhone } from "../../../support/phones/Phone.ts"
import { relay } from "../../../support/network/Relay.ts"
import { allRows } from "../../../support/database/Rows.ts"
import { makePerson } from "../../../support/people/SignIn.ts"
import { beside, chaos, draw, ledger, scratch, server, size } from "../harness.ts"
import { makeLoad } from "../parts/Load.ts"
import { settingsOver } from "../parts/database/Postgres.ts"

/** One in this many statements, and one in this many files, is tried. */
const every = size(1, 8)
const ofFiles = size(1, 4)
const ways = ["disconnected before", "disconnected after"] as const satisfies ReadonlyArray<Fault>

let cases = 0

chaos(
  "migrations",
  () => ({ cases }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const { host, port, username } = yield* Effect.acquireRelease(Effect.promise(startCluster), ({ stop }) =>
      Effect.promise(stop)
    )
    const violations: Array<string> = []

    /** Leaves no connection open, because a database with connections cannot be a template. */
    const on = <A, E, R>(database: string, work: Effect.Effect<A, E, R>, between = itself) =>
      Effect.provide(
        work,
        Layer.provide(between, PgClient.layer({ host, port, username, database, maxConnections: 1 })),
        { local: true }
      )
    const admin = (statement: string) =>
      on(
        "postgres",
        SqlClient.SqlClient.use((sql) => sql.unsafe(statement).unprepared)
      )

    yield* admin("create database release")
    const line = yield* relay({ path: `${host}/.s.PGSQL.${port}` })
    yield* Effect.scoped(work(folder, settingsOver(line, username, "release")))
    const rows = yield* on("release", allTables)

    const chosen = Math.floor(draw() * ofFiles)
    const breakOff = Effect.fnUntraced(function* (file: Migration, version: number) {
      if (version % ofFiles !== chosen) return
      // `v3` is the database made by the first three migrations, with rows in it.
      yield* admin(`create database v${version}`)
      yield* on(`v${version}`, Effect.andThen(migrate(shipped.slice(0, version)), fill(rows)))
      const before = yield* on(`v${version}`, look)
      yield* admin(`create database sound${version} template v${version}`)
      yield* on(`sound${version}`, migrate([file]))
      const after = yield* on(`sound${version}`, look)
      yield* admin(`drop database sound${version}`)
      if (before.schema === after.schema) violations.push(`${file.name} changes nothing`)

      for (let nth = 1 + Math.floor(draw() * (every - 1)), struck = true; struck; nth += every) {
        const how = ways[(nth + Math.floor(draw() * 2)) % 2]!
        const at = `${file.name}, statement ${nth}, ${how}`
        yield* admin(`create database broken${version} template v${version}`)
        const { fail, heal, layer } = faultyDatabase()
        yield* fail(how, nth)
        yield* Effect.exit(on(`broken${version}`, migrate([file]), layer))
        struck = yield* heal
        const left = yield* on(`broken${version}`, look)
        const whole = [before, after].some(({ data, schema }) => schema === left.schema && data === left.data)
        if (!whole) violations.push(`${at}: neither the rows before nor the rows after`)
        const rerun = yield* Effect.exit(on(`broken${version}`, migrate([file])))
        if (rerun._tag === "Failure") violations.push(`${at}: cannot be run again`)
        const again = yield* on(`broken${version}`, look)
        if (again.schema !== after.schema) violations.push(`${at}: a different schema after the second run`)
        if (again.data !== after.data) violations.push(`${at}: different rows after the second run`)
        yield* admin(`drop database broken${version}`)
        if (struck) cases++
      }
    })
    yield* Effect.forEach(shipped, breakOff, { concurrency: 3 })
    if (cases < shipped.length / ofFiles) violations.push(`only ${cases} statements were interrupted`)

    const filled = Object.entries(rows).filter(([, { length }]) => length > 0).length
    return {
      figures: {
        migrations: shipped.length,
        broken_off: cases,
        tables: Object.keys(rows).length,
        tables_with_rows: filled
      },
      violations
    }
  }),
  "3 minutes"
)

const itself = Layer.effect(SqlClient.SqlClient, Effect.service(SqlClient.SqlClient))

/** Rows as Bridges, agents and a phone leave them. */
const work = Effect.fnUntraced(function* (folder: string, settings: Readonly<Record<string, string>>) {
  const one = yield* server(folder, settings)
  const on = yield* beside(folder, one, settings)
  const load = yield* makeLoad(on, yield* ledger(folder), { bridges: 3, agents: 3 })
  yield* load.during(Effect.sleep(size(2000, 500)))
  const person = yield* makePerson(on)
  yield* makePhone(on, person).register({ preferences: everything })
})

const tableNames = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql<{ readonly name: string }>`
    select relname::text as name
      from pg_class
     where relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 'schema_migration'`
  return found.map(({ name }) => name)
})

type Tables = Readonly<Record<string, ReadonlyArray<Readonly<Record<string, unknown>>>>>

const allTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables: Record<string, ReadonlyArray<Readonly<Record<string, unknown>>>> = {}
  for (const name of yield* tableNames) {
    const [row] = yield* sql.unsafe<{ readonly rows: string }>(
      `select coalesce(json_agg(t), '[]')::text as rows from "${name}" t`
    )
    tables[name] = JSON.parse(row!.rows)
  }
  return tables as Tables
})

/** Columns that this release leaves null, and earlier ones filled. */
const filledUntilLater: Readonly<Record<string, object>> = {
  oauth_request: { client: {} },
  bridge_token: { derivation_salt: `\\x${"0".repeat(64)}` }
}

/** Copies what the tables and columns can hold; rows may arrive before the rows they refer to. */
const fill = (tables: Tables) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`set session_replication_role = replica`
    for (const name of yield* tableNames) {
      const columns = yield* sql<{ readonly column: string }>`
        select attname::text as column
          from pg_attribute
         where attrelid = ${name}::regclass and attnum > 0 and not attisdropped and attgenerated = ''`
      const rows = (tables[name] ?? []).map((row) => ({ ...row, ...filledUntilLater[name] }))
      const known = columns.map(({ column }) => column).filter((column) => rows[0] !== undefined && column in rows[0])
      const list = known.map((column) => `"${column}"`).join(", ")
      if (rows.length === 0) continue
      // A migration may have inserted this row already.
      yield* sql.unsafe(`delete from "${name}"`)
      yield* sql.unsafe(
        `insert into "${name}" (${list}) overriding system value
         select ${list} from json_populate_recordset(null::"${name}", $1::text::json)`,
        [JSON.stringify(rows)]
      )
    }
  })

const look = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const schema = yield* sql<{ readonly line: string }>`
    select concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                     a.attgenerated, pg_get_expr(d.adbin, d.adrelid), c.reloptions,
                     col_description(c.oid, a.attnum)) as line
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'S')
    union all
    select concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated)
      from pg_constraint where connamespace = 'public'::regnamespace
    union all
    select pg_get_indexdef(indexrelid) || indisvalid
      from pg_index i join pg_class c on c.oid = i.indexrelid
     where c.relnamespace = 'public'::regnamespace
    union all
    select pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace
    union all
    select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
     order by line`
  // The migration that creates the instance gives it a random id, and 0039 writes when its sweep may begin.
  const { schema_migration: _, memory_reindex: due = [], service_instance: instances = [], ...data } = yield* allRows
  return { schema: digest(schema), data: digest([data, due.length, instances.length]) }
})

const digest = (value: unknown) => createHash("sha256").update(JSON.stringify(value)).digest("hex")
