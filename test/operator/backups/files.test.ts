/** A backup holds the whole database; restoring it recreates the database exactly or changes nothing. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import * as Catalog from "../../../src/platform/backups/BackupCatalog.ts"
import { migrate, shipped } from "../../../src/platform/database/Migrations.ts"
import { migrated, refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

// A test runs several commands; under load each of them takes seconds.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let service: TestService
let backup: string
let saved: Record<string, unknown>

const run = (database: string, ...args: ReadonlyArray<string>) => service.on(database).run(...args, "--json")
const restore = (database: string, file: string, ...flags: ReadonlyArray<string>) =>
  run(database, "restore-database", "--in", file, "--without-erasures", ...flags)
const withKey = (key: string) => service.on("unmigrated", { SERVICE_BACKUP_KEY: key })

/** The file with a checksum that fits, as whoever changes it can compute; the signature stays. */
const resealed = (text: string, { signed = true } = {}) => {
  const end = text.lastIndexOf("\n", text.length - 2) + 1
  const body = signed ? text.slice(0, end) : text.slice(0, end).replace(/"key":"\w+",/, "")
  const { hmac_sha256, rows } = JSON.parse(text.slice(end))
  const sha256 = createHash("sha256").update(body).digest("hex")
  return `${body}${JSON.stringify({ rows, sha256, ...(signed && { hmac_sha256 }) })}\n`
}
const written = (name: string, text: string) => {
  writeFileSync(join(service.folder, name), text)
  return join(service.folder, name)
}

/** A table of a later release, with every kind of value and with columns that the database fills. */
const later = `
  create table later (
    id bigint generated always as identity primary key,
    next_id bigint references later,
    at timestamptz, day date, lasts interval, words text[], grid int[], anything jsonb, raw json, bytes bytea,
    ratio float8, amount numeric, flag boolean, named varchar(20), "odd ""name" text,
    long text generated always as (named || '!') stored
  )`
const values = `
  insert into later (next_id, at, day, lasts, words, grid, anything, raw, bytes, ratio, amount, flag, named, "odd ""name")
  values (3, '2026-11-21 12:00:00.123456+02', 'infinity', '1 mon 2 days 03:04:05.000006', array['a,b', '"{}"', null, ''],
          '[0:1][1:1]={{1},{2}}', 'null', ('{"a":' || chr(10) || '1}')::json, '\\x00ff0a', 0.1::float8 + 0.2, 'NaN', true, 'é\\', E'a\\nb'),
         (null, 'infinity', null, null, '{}', null, '{"n": 1.000000000000000000001}', null, '\\x', '-0', 1.10, false, '', ''),
         (1, null, null, null, null, null, null, null, null, null, null, null, null, null)`
const bridge = `
  insert into project values (gen_random_uuid(), 'P', now(), null);
  insert into bridge_identity (identity_id, project_id, bridge_id, status, device_id, display_name,
         public_key_fingerprint, account_references, created_at, enrolled_at)
  select gen_random_uuid(), project_id, 'b1', 'active', 'd', 'Mac', 'sha256:' || repeat('0', 64), '{a,"b c"}', now(), now()
    from project;
  insert into bridge_token (token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at, expires_at)
  select gen_random_uuid(), identity_id, sha256(state::bytea), state, sha256('salt'), 'k', now(), now() + interval '1 day'
    from bridge_identity, unnest(array['active', 'pending']) as state;
  insert into bridge_rotation (rotation_id, identity_id, predecessor_id, successor_id, state, created_at,
         confirmation_expires_at, prepare_key_hash, prepared_from)
  select gen_random_uuid(), a.identity_id, a.token_id, p.token_id, 'pending', now(), now(), sha256('key'), 'x'
    from bridge_token a join bridge_token p on a.state = 'active' and p.state = 'pending';
  update bridge_identity set pending_rotation_id = (select rotation_id from bridge_rotation)`
/** The second task waits for the first, which a trigger counts: a restored count must not be counted again. */
const waiting = `
  insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
  select project_id, lpad(n::text, 32, '0')::uuid, 'T', '', 'open', 2, '{}', 1, 'x', now(), now()
    from project, generate_series(1, 2) n;
  insert into task_dependency (project_id, task_id, depends_on)
  select project_id, lpad('2', 32, '0')::uuid, lpad('1', 32, '0')::uuid
    from project`

/** The longest row that there can be. */
const document = `
  insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
  values (repeat('0', 40), sha256('x'), 1048576, 1, decode(repeat('ff', 1048576), 'hex'))`

const statements = async (database: string, text: string) => {
  for (const statement of text.split(";")) await service.query(database, statement)
}

/** Every row of every table as text, and every foreign key with whether it is deferrable. */
const contents = async (database: string) => {
  const tables = await service.query(
    database,
    "select relname::text as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1"
  )
  const all: Record<string, unknown> = {}
  for (const { name } of tables) {
    if (name === "schema_migration") continue
    // The rows about the backup and its restore come after what was saved.
    const others = String(name).startsWith("audit_event_") ? "where action not like 'database.%'" : ""
    all[String(name)] = await service.query(
      database,
      `select t::text as row from ${String(name)} t ${others} order by 1`
    )
  }
  const keys = await service.query(
    database,
    "select conname::text, condeferrable from pg_constraint where contype = 'f' order by 1"
  )
  return { all, keys }
}

beforeAll(async () => {
  service = await startService()
  backup = join(service.folder, "backup")
  for (const database of ["source", "target", "other"]) await service.create(database, migrated)
  await Promise.all(["source", "target"].map((database) => service.query(database, later)))
  await statements("source", bridge)
  await statements("source", waiting)
  await service.query("source", values)
  await service.query("source", document)
  await service.query("source", `alter database ${service.nameOf("source")} set timezone = 'Asia/Kolkata'`)
  await service.query("source", `alter database ${service.nameOf("source")} set datestyle = 'German'`)
  await service.query("source", `alter database ${service.nameOf("source")} set extra_float_digits = 0`)
  saved = result(await run("source", "backup-database", "--out", backup))
})
afterAll(() => service.stop())

it("the file is complete, has mode 0600, and replaces no existing file", async () => {
  expect(saved).toEqual({ file: backup, created_at: expect.any(String), tables: expect.any(Number), rows: 13 })
  expect(statSync(backup).mode & 0o777).toBe(0o600)
  expect(existsSync(`${backup}.partial`)).toBe(false)
  const before = readFileSync(backup)
  expect(refusal(await run("source", "backup-database", "--out", backup))).toEqual([1, "file_error"])
  expect(readFileSync(backup)).toEqual(before)
})

it("a truncated or altered file is refused and changes nothing", async () => {
  const whole = readFileSync(backup, "utf8")
  const damaged: Record<string, string> = {
    "cut in the last line": whole.slice(0, -2),
    "without its last line": whole.slice(0, whole.lastIndexOf("\n", whole.length - 2) + 1),
    "with a row missing": whole.replace(/\["bridge_rotation".*\n/, ""),
    "with a changed value": whole.replace("'b1'", "'b2'").replace('"b1"', '"b2"'),
    "with an extra line": `${whole}["project"]\n`
  }
  const before = await contents("target")
  for (const [what, text] of Object.entries(damaged)) {
    if (text === whole) throw new Error(`${what}: not damaged`)
    writeFileSync(join(service.folder, what), text)
  }
  const ends = await Promise.all(Object.keys(damaged).map((what) => restore("target", join(service.folder, what))))
  for (const ended of ends) expect(refusal(ended)).toEqual([1, "backup_damaged"])
  expect(await contents("target")).toEqual(before)
})

it("a changed file is refused although its checksum was computed again, even with --accept-unsigned", async () => {
  const changed = written("changed", resealed(readFileSync(backup, "utf8").replaceAll('"b1"', '"b2"')))
  for (const flags of [[], ["--accept-unsigned"]])
    expect(refusal(await restore("target", changed, ...flags))).toEqual([1, "backup_damaged"])
})

it("a changed header is refused although the checksum was computed again", async () => {
  const text = readFileSync(backup, "utf8")
  const changed = written("header", resealed(text.replace('"created_at":"2', '"created_at":"1')))
  expect(refusal(await restore("target", changed))).toEqual([1, "backup_damaged"])
})

it("without SERVICE_BACKUP_KEY no backup is written, and the refusal names the setting", async () => {
  const out = join(service.folder, "keyless")
  const ended = await service.on("source", { SERVICE_BACKUP_KEY: "" }).run("backup-database", "--out", out, "--json")
  expect(refusal(ended)).toEqual([78, "configuration_error"])
  expect(ended.stderr).toContain("SERVICE_BACKUP_KEY is not set")
  expect(existsSync(out)).toBe(false)
})

it("a backup of another key says so; with --accept-unsigned only its checksum counts", async () => {
  await service.create("unmigrated")
  const other = withKey("another key, of the machine that burned down")
  const ended = await other.run("restore-database", "--in", backup, "--without-erasures", "--json")
  expect(refusal(ended)).toEqual([1, "backup_of_another_key"])
  expect(ended.stderr).toContain("another SERVICE_BACKUP_KEY")
  const none = await withKey("").run("restore-database", "--in", backup, "--without-erasures", "--json")
  expect(refusal(none)).toEqual([78, "configuration_error"])
  const damaged = written("damaged", readFileSync(backup, "utf8").replaceAll('"b1"', '"b2"'))
  const accept = (file: string) =>
    other.run("restore-database", "--in", file, "--without-erasures", "--accept-unsigned", "--json")
  expect(refusal(await accept(damaged))).toEqual([1, "backup_damaged"])
  // The file is accepted, and then its tables decide: this database does not have the table of a later release.
  expect(refusal(await accept(backup))).toEqual([1, "backup_of_another_version"])
})

it("an unsigned backup is refused without --accept-unsigned", async () => {
  const unsigned = written("unsigned", resealed(readFileSync(backup, "utf8"), { signed: false }))
  expect(refusal(await restore("target", unsigned))).toEqual([1, "backup_unsigned"])
})

describe("a backup of an earlier schema version", () => {
  /** As 0.1.0 wrote it: the schema of version 11, one project with an entry, its posting, no signature. */
  const old = async () => {
    await service.create("earlier")
    const made = Effect.gen(function* () {
      yield* migrate(shipped.slice(0, 11))
      const sql = yield* SqlClient.SqlClient
      yield* sql`insert into project values (gen_random_uuid(), 'Old', now(), null)`
      yield* sql`
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        select project_id, gen_random_uuid(), 'note', 'T', 'Moved.', '{}', 'x', 'contributor', now() from project`
      yield* sql`insert into memory_posting select project_id, 'move', id, 1, 1 from memory_entry`
      const tables = yield* Catalog.tables(sql)
      const rows = (yield* Effect.forEach(tables, (table) => Stream.runCollect(Catalog.lines(sql, table)))).flat()
      const header = {
        backup: "bridge-service",
        created_at: "2026-11-01T00:00:00.000Z",
        migrations: yield* Catalog.migrations(sql),
        tables: tables.map(({ columns, name }) => ({ name, columns }))
      }
      const body = [JSON.stringify(header), ...rows.map(({ line }) => line)].map((line) => `${line}\n`).join("")
      const sha256 = createHash("sha256").update(body).digest("hex")
      return `${body}${JSON.stringify({ rows: rows.length, sha256 })}\n`
    })
    const url = Redacted.make(service.on("earlier").shell().env.DATABASE_URL)
    return Effect.runPromise(Effect.provide(made, PgClient.layer({ url })))
  }

  it("gets its own tables, then its rows, then the later migrations", async () => {
    const file = written("earlier", await old())
    await service.create("restored")
    expect(refusal(await restore("restored", file))).toEqual([1, "backup_unsigned"])
    expect(await service.query("restored", "select to_regclass('project') as project")).toEqual([{ project: null }])
    expect(result(await restore("restored", file, "--accept-unsigned"))).toMatchObject({ rows: 4 })
    expect(await service.query("restored", "select name from project")).toEqual([{ name: "Old" }])
    const index = "select lexeme, index_bytes::int from memory_posting join project_usage using (project_id)"
    expect(await service.query("restored", index)).toEqual([{ lexeme: "move", index_bytes: 28 }])
    expect(result(await run("restored", "migrate"))).toEqual({ migrated: [] })
    expect(await service.query("restored", "select limits from project")).toEqual([{ limits: {} }])
  })

  it("is refused by a database of an earlier release that is in use, which is not even migrated", async () => {
    const migrations = "select count(*)::int as n from schema_migration"
    // Still earlier than the backup.
    await service.query(
      "earlier",
      "delete from schema_migration where migration_id = (select max(migration_id) from schema_migration)"
    )
    const before = await service.query("earlier", migrations)
    expect(refusal(await restore("earlier", join(service.folder, "earlier"), "--accept-unsigned"))).toEqual([
      1,
      "database_not_empty"
    ])
    expect(await service.query("earlier", migrations)).toEqual(before)
  })

  it("is refused where the tables of a later version are already", async () => {
    const ended = await restore("other", join(service.folder, "earlier"), "--accept-unsigned")
    expect(refusal(ended)).toEqual([1, "backup_of_another_version"])
    expect(ended.stderr).toContain("a database without tables")
  })
})

it("a backup of a later release is refused", async () => {
  const text = readFileSync(backup, "utf8").replace(
    '"migrations":[',
    '"migrations":[{"migration_id":0,"name":"x","checksum":"y"},'
  )
  const ended = await restore("target", written("later", resealed(text, { signed: false })), "--accept-unsigned")
  expect(refusal(ended)).toEqual([1, "backup_of_another_version"])
  expect(ended.stderr).toContain("the release that made it")
})

it("a backup with other tables is refused", async () => {
  expect(refusal(await restore("other", backup))).toEqual([1, "backup_of_another_version"])
})

it("an empty database gets exactly the same contents, including the instance id, and continues its sequences", async () => {
  expect(result(await restore("target", backup))).toEqual({
    created_at: saved["created_at"],
    tables: expect.any(Number),
    rows: 13,
    erasures: 0
  })
  const [source, target] = await Promise.all(
    ["source", "target"].map(async (database) => {
      await service.query(database, `alter database ${service.nameOf(database)} reset all`)
      return contents(database)
    })
  )
  expect(target).toEqual(source)
  expect(await service.query("target", "insert into later default values returning id::int")).toEqual([{ id: 4 }])
})

it("restoring into a database with contents is refused", async () => {
  const before = await contents("target")
  expect(refusal(await restore("target", backup))).toEqual([1, "database_not_empty"])
  expect(await contents("target")).toEqual(before)
})
