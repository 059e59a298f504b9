/** `doctor` reports what is wrong and what to do about it, and changes nothing. */
import { Effect, References } from "effect"
import { spawn } from "node:child_process"
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { generatedSecrets } from "../../../src/platform/settings/Secrets.ts"
import { servingAccount } from "../../support/database/TestDatabase.ts"
import { main } from "../../support/service/processes/Main.ts"
import {
  migrated,
  refusal,
  result,
  secrets,
  serviceAdmin,
  startService,
  type TestService
} from "../../support/service/ServiceAdmin.ts"

let service: TestService
let unreachable: ReturnType<typeof serviceAdmin>["ended"]
const folder = mkdtempSync(join(tmpdir(), "service-admin-test-"))
const data = join(folder, "data")
chmodSync(folder, 0o711)

const outcome = ({ code, stderr, stdout }: { code: number; stderr: string; stdout: string }) => {
  const { checks, ok } = JSON.parse(stdout)
  const of = (status: string) => checks.filter((check: any) => check.status === status).map((check: any) => check.name)
  return { code, stderr, ok, warn: of("warn"), fail: of("fail") }
}
const embedded = (...args: ReadonlyArray<string>) => serviceAdmin(args, { SERVICE_DATA_DIR: data }).ended
const startedOnce = () =>
  new Promise<void>((resolve) => {
    const env = { PATH: "/usr/bin:/bin", SERVICE_DATA_DIR: data, SERVICE_PORT: "0", SERVICE_OAUTH_CIMD: "off" }
    const child = spawn(process.execPath, [main], { env })
    child.stdout.on("data", (text: Buffer) => {
      if (text.includes('"Ready"')) child.kill("SIGTERM")
    })
    child.on("close", () => resolve())
  })
/** The messages by the name of the check; the last one if several checks share a name. */
const messages = ({ stdout }: { stdout: string }): Record<string, string> =>
  Object.fromEntries(JSON.parse(stdout).checks.map(({ message, name, status }: any) => [name, `${status} ${message}`]))
const fine = { code: 0, stderr: "", ok: true, warn: [], fail: [] }

beforeAll(async () => {
  // Takes ten seconds; runs beside the other tests.
  const nowhere = {
    ...secrets,
    DATABASE_URL: "postgres://nobody@127.0.0.1:1/x",
    SERVICE_ERASURE_FILE: join(folder, "erasures.jsonl")
  }
  unreachable = serviceAdmin(["doctor", "--json"], nowhere).ended
  service = await startService("template0")
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true, force: true })
})

it("before the first start only the data folder is checked, and nothing is created", async () => {
  expect(outcome(await embedded("doctor", "--json"))).toEqual({ ...fine, warn: ["data_folder"] })
  expect(existsSync(data)).toBe(false)
})

it("a data folder that cannot be created is reported before the first start", async () => {
  const SERVICE_DATA_DIR = join(import.meta.filename, "data")
  const ended = await serviceAdmin(["doctor", "--json"], { SERVICE_DATA_DIR }).ended
  expect(outcome(ended)).toEqual({ ...fine, code: 1, ok: false, fail: ["data_folder"] })
})

it("existing secrets are read, and nothing is written beside them", async () => {
  const kept = mkdtempSync(join(folder, "kept-"))
  const read = generatedSecrets(kept).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  await Effect.runPromise(read)
  utimesSync(kept, 0, 0)
  await Effect.runPromise(read)
  expect(statSync(kept).mtimeMs).toBe(0)
})

it("no other command creates anything before the first start either; each says where it looked", async () => {
  const { code, stderr, stdout } = await embedded("create-project", "--name", "Embedded")
  expect([code, stdout]).toEqual([78, ""])
  expect(stderr).toContain(`There is no service in ${data}.`)
  expect(refusal(await embedded("restore-database", "--in", "x", "--without-erasures", "--json"))).toEqual([
    78,
    "no_service_here"
  ])
  expect(existsSync(data)).toBe(false)
})

it("the embedded database passes once a start has created it; a lost secret and loose permissions fail", async () => {
  await startedOnce()
  const good = await embedded("doctor", "--json")
  expect(outcome(good)).toEqual(fine)
  expect(messages(good)).toEqual({
    audit_log: "ok There are partitions for the next 12 months.",
    configuration: "ok Complete; the service is at http://127.0.0.1:1.",
    server: "ok No server runs at 127.0.0.1:1.",
    secrets: "ok Long enough, and independent of each other.",
    data_folder: `ok Only this account can write ${data} and read its secrets.`,
    disk: expect.stringMatching(/^ok \d+ MiB are free\.$/),
    apns: "ok Not configured: notifications are only logged.",
    clients: "ok No client is identified by a metadata document: SERVICE_OAUTH_CIMD=off.",
    database: expect.stringMatching(/^ok PostgreSQL [\d.]+ answers\.$/),
    durability: "ok Acknowledged changes survive a power cut.",
    migrations: "ok The schema is up to date.",
    clock: "ok This machine and the database agree on the time."
  })
  const file = join(data, "secrets.env")
  const kept = readFileSync(file, "utf8")
  const cut = kept.replace(/^SERVICE_BRIDGE_TOKEN_SECRET=.*\n/m, "")
  writeFileSync(file, cut)
  const lost = await embedded("doctor", "--json")
  expect(outcome(lost)).toEqual({ ...fine, code: 1, ok: false, fail: ["configuration"] })
  expect(messages(lost)["configuration"]).toContain(`${file} lacks SERVICE_BRIDGE_TOKEN_SECRET,`)
  expect(refusal(await embedded("list-projects", "--json"))).toEqual([78, "secrets_error"])
  expect(readFileSync(file, "utf8")).toBe(cut)
  writeFileSync(file, kept)
  chmodSync(file, 0o644)
  const open = await embedded("doctor", "--json")
  expect(outcome(open)).toEqual({ ...fine, code: 1, ok: false, fail: ["data_folder"] })
  expect(messages(open)["data_folder"]).toBe(`fail Other accounts can read ${file}; run: chmod 600 ${file}`)
  chmodSync(file, 0o600)
  chmodSync(data, 0o777)
  expect(messages(await embedded("doctor", "--json"))["data_folder"]).toBe(
    `fail Other accounts can write to ${data}; run: chmod go-w ${data}`
  )
})

it("pending migrations are reported but not run, and settings that can lose commits fail", async () => {
  const ended = await service.on("service").run("doctor", "--json")
  expect(outcome(ended)).toEqual({ ...fine, code: 1, ok: false, warn: ["migrations"], fail: ["durability"] })
  expect(messages(ended)["migrations"]).toMatch(
    /^warn Not run yet: 0001_projects\.sql, .*\. service-admin migrate runs them, and so does the next start\.$/
  )
  expect(messages(ended)["durability"]).toMatch(
    /^fail Turn on .*fsync.* in PostgreSQL: a power cut can undo revocations\.$/
  )
  const [{ present } = {}] = await service.query("service", "select to_regclass('project') is not null as present")
  expect(present).toBe(false)
})

it("a schema of a newer release is reported; one on which this release cannot work stops every other command", async () => {
  result(await service.on("service").run("migrate", "--json"))
  const newer = "insert into schema_migration (migration_id, name, checksum) values (9000, '9000_next.sql', '')"
  await service.query("service", newer)
  const doctor = async () => messages(await service.on("service").run("doctor", "--json"))["migrations"]
  expect(await doctor()).toBe(
    "ok The schema belongs to a newer release, which has migrations/9000_next.sql. This release works on it, too."
  )
  const requires = "create function schema_requires() returns int language sql as 'select 8999'"
  await service.query("service", requires)
  expect(await doctor()).toBe(
    "fail The schema belongs to a newer release, and this release cannot use it: it has migrations/9000_next.sql. Start the release that has this file, or restore a backup that this release made."
  )
  expect(refusal(await service.on("service").run("migrate", "--json"))).toEqual([78, "migration_error"])
  await service.query("service", "drop function schema_requires")
  await service.query("service", "delete from schema_migration where migration_id = 9000")
})

it("weak secrets, unusual lifetimes and edited migrations are reported; the latter stop every other command", async () => {
  result(await service.on("service").run("migrate", "--json"))
  await service.query("service", "update schema_migration set checksum = 'edited' where migration_id = 1")
  const weak = {
    SERVICE_BRIDGE_TOKEN_SECRET: "x".repeat(40),
    SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS: "5"
  }
  const [doctor, other] = await Promise.all([
    service.on("service", weak).run("doctor", "--json"),
    service.on("service").run("list-projects", "--json")
  ])
  expect(outcome(doctor!)).toEqual({
    code: 1,
    stderr: "",
    ok: false,
    warn: ["lifetimes"],
    fail: ["secrets", "durability", "migrations"]
  })
  expect(messages(doctor!)["lifetimes"]).toBe(
    "warn SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS is 5: from 30 to 3600 is usual."
  )
  expect(messages(doctor!)["migrations"]).toBe(
    "fail These migrations were edited after they ran: 0001_projects.sql. Restore the files from the release."
  )
  expect(doctor!.stdout).not.toContain("xxx")
  expect(refusal(other!)).toEqual([78, "migration_error"])
})

it("an incomplete configuration is the only failure reported", async () => {
  const incomplete = { DATABASE_URL: "postgres://localhost/x", ...secrets, SERVICE_BRIDGE_TOKEN_SECRET: "" }
  const ended = await serviceAdmin(["doctor", "--json"], incomplete).ended
  expect(outcome(ended)).toEqual({ ...fine, code: 1, ok: false, fail: ["configuration"] })
})

it("an unreachable database fails one check and does not prevent the others", async () => {
  const ended = await unreachable
  expect(outcome(ended)).toEqual({ ...fine, code: 1, ok: false, fail: ["database"] })
  expect(messages(ended)["database"]).toMatch(
    /^fail The database cannot be reached \(ConnectionError.*\); see DATABASE_URL, and try again\.$/
  )
})

it("a PostgreSQL that is too old, and a clock two minutes ahead or behind, are reported", async () => {
  await service.create("odd")
  const odd = (time: string) => [
    `create or replace function clock_timestamp() returns timestamptz language sql as
       'select pg_catalog.clock_timestamp() ${time} interval ''2 minutes'''`,
    `create or replace function current_setting(text) returns text language sql as
       'select case $1 when ''server_version_num'' then ''140012'' else pg_catalog.current_setting($1) end'`,
    `alter database ${service.nameOf("odd")} set search_path = public, pg_catalog`
  ]
  for (const statement of odd("+")) await service.query("odd", statement)
  expect(messages(await service.on("odd").run("doctor", "--json"))["database"]).toMatch(
    /^fail The database in DATABASE_URL is of PostgreSQL [\d.]+( \(.+\))?, which is too old: move it to 15 or newer with pg_upgrade or pg_dump\.$/
  )
  await service.query("odd", "drop function current_setting(text)")
  const ahead = messages(await service.on("odd").run("doctor", "--json"))
  expect(ahead["clock"]).toMatch(
    /^warn The database's clock is 1(20|19)\.\d s ahead of this machine's\. The service uses the database's: correct whichever is wrong\.$/
  )
  await service.query("odd", odd("-")[0]!)
  expect(messages(await service.on("odd").run("doctor", "--json"))["clock"]).toMatch(
    /^warn The database's clock is 1(20|19)\.\d s behind this machine's\. /
  )
})

it("an account without privileges in the database is reported, and ends a command with 78", async () => {
  await service.create("foreign_owned")
  await service.account("guest")
  const { DATABASE_URL } = service.on("foreign_owned").shell().env
  const guest = (...args: ReadonlyArray<string>) =>
    service.on("", { DATABASE_URL: DATABASE_URL.replace(/\/\/\w+@/, "//guest@") }).run(...args, "--json")
  expect(messages(await guest("doctor"))["migrations"]).toBe(
    "fail The account in DATABASE_URL may not create tables: make it the owner of the database."
  )
  result(await service.on("foreign_owned").run("migrate", "--json"))
  expect(messages(await guest("doctor"))["database"]).toBe(
    "fail The database account lacks privileges on the tables or the schema: set SERVICE_DATABASE_OWNER_URL to the owner's address, or let the account in DATABASE_URL own the database."
  )
  expect(refusal(await guest("list-projects"))).toEqual([78, "database_forbids"])
})

it("what the audit log shows is told: whose addresses the callers have, and whether the service could change rows", async () => {
  await service.create("called", migrated)
  const doctor = async (more: Record<string, string> = {}) => {
    const behind = { SERVICE_BASE_URL: "https://bridge.invalid", SERVICE_TRUSTED_PROXIES: "127.0.0.1" }
    return messages(await service.on("called", { ...behind, ...more }).run("doctor", "--json"))
  }
  const call = (address: string) =>
    service.query(
      "called",
      `insert into audit_event (event_id, at, actor, action, outcome, subject, address, user_agent)
       values (gen_random_uuid(), now(), 'bridge:b', 'bridge.enrolled', 'done', '{}', $1::text, '')`,
      [address]
    )
  expect((await doctor())["forwarded"]).toBeUndefined()
  await call("127.0.0.1")
  const owner = await doctor()
  expect(owner["audit_role"]).toBe(
    "warn The account in DATABASE_URL may change and delete audit rows: see deploy/roles.sql and run.md."
  )
  expect(owner["forwarded"]).toBe(
    "warn All recent callers have the proxy's address, 127.0.0.1: make the proxy set X-Forwarded-For."
  )
  await call("192.0.2.7")
  const { DATABASE_URL } = service.on("called").shell().env
  const serving = await doctor({ DATABASE_URL: DATABASE_URL.replace(/\/\/\w+@/, `//${servingAccount}@`) })
  expect(serving["audit_role"]).toBe("ok The service may add audit rows, and neither change nor delete them.")
  expect(serving["forwarded"]).toBe("ok The proxy passes on the callers' addresses.")
})

it("an unreachable base URL, an unset proxy and a proxy range of all addresses are reported", async () => {
  const unreachableUrl = { SERVICE_BASE_URL: "https://bridge.invalid" }
  const [unnamed, everybody] = await Promise.all([
    service.on("service", unreachableUrl).run("doctor", "--json"),
    service.on("service", { ...unreachableUrl, SERVICE_TRUSTED_PROXIES: "0.0.0.0/0" }).run("doctor", "--json")
  ])
  expect(outcome(unnamed!).warn).toEqual(["proxy", "base_url"])
  expect(outcome(everybody!)).toMatchObject({ warn: ["base_url"], fail: expect.arrayContaining(["proxy"]) })
})

it("a service that could not erase anything is told so", async () => {
  const ended = await service.on("service", { SERVICE_ERASURE_FILE: "" }).run("doctor", "--json")
  expect(messages(ended)["erasure_file"]).toMatch(/^warn SERVICE_ERASURE_FILE is not set, so nothing can be erased/)
})
