/** The service makes backups by itself and tries each one; only what is whole, tried and unchanged counts as good. */
import { Context, ConfigProvider, Deferred, Effect, Exit, Fiber, Layer, Option, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { judged } from "../../../cli/support/checks/backups.ts"
import { type Check, check } from "../../../cli/support/checks/Check.ts"
import { services } from "../../../src/App.ts"
import { nameOf } from "../../../src/platform/backups/BackupFolder.ts"
import { Backups, type BackupState } from "../../../src/platform/backups/Backups.ts"
import { embeddedPostgres } from "../../../src/platform/database/embedded/EmbeddedPostgres.ts"
import { isRoot } from "../../../src/platform/database/embedded/PostgresAccount.ts"
import { postgresFiles } from "../../../src/platform/database/embedded/PostgresFiles.ts"
import { refusal, result, secrets, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let home: string
let folders = 0
beforeAll(() => {
  home = fs.mkdtempSync(join(tmpdir(), "backups-test-"))
  // PostgreSQL's account must be able to enter it.
  fs.chmodSync(home, 0o711)
})
afterAll(async () => {
  await Effect.runPromise(Scope.close(server, Exit.void))
  const location = join(home, "data/location")
  if (fs.existsSync(location)) fs.rmSync(dirname(fs.readFileSync(location, "utf8").trim()), { recursive: true })
  fs.rmSync(home, { recursive: true, force: true })
})

const newFolder = () => join(home, `backups-${folders++}`)

/** A replica on the embedded database. */
const replica = (folder: string, more: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const provider = ConfigProvider.fromUnknown({
      ...secrets,
      SERVICE_DATA_DIR: join(home, "data"),
      SERVICE_BACKUP_DIR: folder,
      ...more
    })
    const context = yield* Layer.build(Layer.fresh(services).pipe(Layer.provide(ConfigProvider.layer(provider))))
    const { state, turn, verify } = Context.get(context, Backups)
    return { turn, verify, state: Effect.map(state, Option.getOrThrow), sql: Context.get(context, SqlClient.SqlClient) }
  })

const { migrateSoon } = await import("../../../src/platform/database/Database.ts")
const run = <A, E>(work: Effect.Effect<A, E, import("effect").Scope.Scope>) => Effect.runPromise(Effect.scoped(work))

/** Holds the database server for all tests. */
const server = Scope.makeUnsafe()
beforeAll(async () => {
  const data = join(home, "data")
  await Effect.runPromise(postgresFiles(data, false))
  await Effect.runPromise(Scope.provide(embeddedPostgres(data), server))
  const provider = ConfigProvider.fromUnknown({ ...secrets, SERVICE_DATA_DIR: data })
  await Effect.runPromise(
    Effect.asVoid(migrateSoon()).pipe(Effect.provide(services.pipe(Layer.provide(ConfigProvider.layer(provider)))))
  )
})

const backupsIn = (folder: string) =>
  fs
    .readdirSync(folder)
    .filter((name) => name.endsWith(".backup"))
    .toSorted()
    .map((name) => join(folder, name))

/** Changes a byte in the middle, and puts size and modification time back. */
const damage = (file: string) => {
  const { atime, mtime } = fs.statSync(file)
  const bytes = fs.readFileSync(file)
  bytes[bytes.length >> 1]! ^= 1
  fs.writeFileSync(file, bytes)
  fs.utimesSync(file, atime, mtime)
}

describe("with the embedded database", () => {
  it("a backup is made, restored into a scratch database, and good", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const { sql, state, turn } = yield* replica(folder)
        expect(yield* state).toMatchObject({ last_good_at: null, good: 0 })
        yield* turn
        const files = backupsIn(folder)
        expect(files).toHaveLength(1)
        expect([folder, files[0]!].map((path) => fs.statSync(path).mode & 0o777)).toEqual([0o700, 0o600])
        const found = yield* state
        expect(found).toMatchObject({ good: 1, not_good: 0, every_seconds: 86_400, problem: null })
        expect(found.last_restored_at).toEqual(found.last_good_at)
        expect(Math.abs(found.last_good_at!.getTime() - Date.now())).toBeLessThan(60_000)
        expect(yield* sql`select datname from pg_database where datname like 'bridge_service_trial%'`).toEqual([])
        const rows = yield* sql`select 1 from audit_event where action = 'database.backed_up'`
        expect(rows).toHaveLength(1)
        // Nothing is due now.
        yield* turn
        expect(backupsIn(folder)).toEqual(files)
      })
    ))

  it.each<[string, (file: string) => void]>([
    ["damaged, with its old size and modification time", damage],
    ["cut off", (file) => fs.truncateSync(file, fs.statSync(file).size >> 1)],
    ["empty", (file) => fs.truncateSync(file, 0)]
  ])("one that is %s is not good, neither before nor after it is tried again", (_, change) =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const { state, turn } = yield* replica(folder)
        yield* turn
        const [file] = backupsIn(folder)
        change(file!)
        const changed = yield* state
        expect(changed).toMatchObject({ last_good_at: null, last_restored_at: null, good: 0, not_good: 1 })
        expect(changed.problem).toMatch(/was not tried, or was changed since then/)
        yield* turn
        expect(yield* state).toMatchObject({ last_good_at: null, good: 0, not_good: 1 })
        expect((yield* state).problem).toMatch(/is not good\. It was truncated or altered\./)
      })
    )
  )

  it("one of another key is not good, and stays", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        yield* (yield* replica(folder)).turn
        const [foreign] = backupsIn(folder)
        const other = { SERVICE_BACKUP_KEY: "another key of at least thirty-two bytes", SERVICE_BACKUP_KEEP: "1" }
        const { state, turn } = yield* replica(folder, other)
        expect(yield* state).toMatchObject({ last_good_at: null, good: 0, not_good: 1 })
        yield* turn
        expect(yield* state).toMatchObject({ good: 1, not_good: 1, problem: null })
        expect(backupsIn(folder)[0]).toBe(foreign)
      })
    ))

  it("one that was never tried, or a copy of a good one, is not good until it is tried", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const { state, turn } = yield* replica(folder)
        yield* turn
        const [file] = backupsIn(folder)
        const copy = join(folder, "bridge-service-2030-01-01T00-00-00-000Z.backup")
        fs.copyFileSync(file!, copy)
        fs.copyFileSync(`${file}.checked`, `${copy}.checked`)
        expect(yield* state).toMatchObject({ good: 1, not_good: 1 })
        fs.rmSync(`${file}.checked`)
        expect(yield* state).toMatchObject({ last_good_at: null, good: 0, not_good: 2 })
        yield* turn
        expect(yield* state).toMatchObject({ good: 2, not_good: 0 })
      })
    ))

  it("old ones go only once a newer good one is there", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const { state, turn } = yield* replica(folder, { SERVICE_BACKUP_EVERY_SECONDS: "1", SERVICE_BACKUP_KEEP: "2" })
        const another = Effect.gen(function* () {
          const before = backupsIn(folder)
          yield* Effect.sleep("1100 millis")
          yield* turn
          return before
        })
        yield* turn
        yield* another
        const two = yield* another
        expect(two).toHaveLength(2)
        expect(backupsIn(folder).slice(0, 1)).toEqual(two.slice(1))
        expect(backupsIn(folder)).toHaveLength(2)
        // The newest is damaged: both good ones stay, although a third file is there.
        damage(backupsIn(folder)[1]!)
        const [good] = backupsIn(folder)
        yield* another
        expect(backupsIn(folder)).toContain(good)
        expect(yield* state).toMatchObject({ good: 2 })
      })
    ))

  /** A file that was made so many minutes ago, and is no backup. */
  const spoiled = (folder: string, minutes: number) => {
    const path = join(folder, nameOf(new Date(Date.now() - 60_000 * minutes)))
    fs.writeFileSync(path, "spoiled")
    return path
  }

  it("as many that are not good stay as good ones, the newest; while there are any, another one is made after an hour", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        fs.mkdirSync(folder)
        const [, second, third] = [55, 50, 45].map((minutes) => spoiled(folder, minutes))
        const { state, turn } = yield* replica(folder, { SERVICE_BACKUP_KEEP: "2" })
        yield* turn
        expect(backupsIn(folder)).toEqual([second, third])
        expect(yield* state).toMatchObject({ good: 0, not_good: 2 })
        for (const file of backupsIn(folder)) fs.rmSync(file)
        const last = spoiled(folder, 61)
        yield* turn
        expect(backupsIn(folder)).toEqual([last, expect.anything()])
        expect(yield* state).toMatchObject({ good: 1, not_good: 1 })
        // It is older than the oldest good one that stays.
        fs.rmSync(`${last}.checked`)
        yield* (yield* replica(folder, { SERVICE_BACKUP_KEEP: "1" })).turn
        expect(backupsIn(folder)).toEqual([expect.not.stringContaining(last)])
      })
    ))

  it("one is tried again after a day, and counts as restored though it is only read then", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const { state, turn } = yield* replica(folder)
        yield* turn
        const [file] = backupsIn(folder)
        /** What became of it, if it was tried so many hours ago and there is a turn now. */
        const triedAgo = Effect.fnUntraced(function* (hours: number) {
          const checked = JSON.parse(fs.readFileSync(`${file}.checked`, "utf8"))
          const tried_at = new Date(Date.now() - 3_600_000 * hours).toISOString()
          fs.writeFileSync(`${file}.checked`, JSON.stringify({ ...checked, tried_at }))
          yield* turn
          return JSON.parse(fs.readFileSync(`${file}.checked`, "utf8")).tried_at !== tried_at
        })
        expect([yield* triedAgo(23.9), yield* triedAgo(24.1)]).toEqual([false, true])
        const found = yield* state
        expect(found).toMatchObject({ good: 1, problem: null })
        expect(found.last_restored_at).toEqual(found.last_good_at)
      })
    ))

  it("one that cannot be read keeps no other from being made and tried", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        fs.mkdirSync(folder)
        fs.mkdirSync(join(folder, nameOf(new Date(Date.now() - 7_200_000))))
        const { state, turn } = yield* replica(folder)
        yield* turn
        expect(yield* state).toMatchObject({ good: 1, not_good: 1, problem: null })
      })
    ))

  it("of two replicas at once one makes it; meanwhile nobody else makes or tries one", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const all = yield* Effect.all([replica(folder), replica(folder), replica(folder)])
        yield* Effect.forEach(all, ({ turn }) => turn, { concurrency: "unbounded" })
        expect(backupsIn(folder)).toHaveLength(1)
        const [{ sql, state, turn, verify }] = all
        expect(yield* state).toMatchObject({ good: 1, not_good: 0 })
        const file = spoiled(folder, 1)
        const [held, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const holder = sql`select pg_advisory_xact_lock(hashtext('bridge-service backup'), 0)`.pipe(
          Effect.andThen(Deferred.succeed(held, undefined)),
          Effect.andThen(Deferred.await(release)),
          sql.withTransaction
        )
        const holding = yield* Effect.forkChild(holder)
        yield* Deferred.await(held)
        yield* turn
        expect((yield* Effect.flip(verify(Option.none())))._tag).toBe("BackupBusy")
        expect(fs.existsSync(`${file}.checked`)).toBe(false)
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(holding)
      })
    ))

  it("what a crash left is removed: a draft, and a scratch database", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        const { sql, state, turn } = yield* replica(folder)
        const [named] = yield* sql<{ readonly name: string }>`
          select 'bridge_service_trial_' || oid as name from pg_database where datname = current_database()`
        yield* sql.unsafe(`create database ${named!.name}`)
        fs.mkdirSync(folder)
        const draft = join(folder, "bridge-service-2026-01-01T00-00-00-000Z.backup.partial")
        fs.writeFileSync(draft, '{"backup":"bridge-service"')
        const foreign = join(folder, "notes.partial")
        fs.writeFileSync(foreign, "")
        expect(yield* state).toMatchObject({ good: 0, not_good: 0 })
        yield* turn
        expect([fs.existsSync(draft), fs.existsSync(foreign)]).toEqual([false, true])
        expect(yield* state).toMatchObject({ good: 1, not_good: 0 })
        expect(yield* sql`select 1 from pg_database where datname = ${named!.name}`).toEqual([])
      })
    ))

  const runs = (program: string, ...args: ReadonlyArray<string>) => spawnSync(program, args).status === 0

  it("a full disk stops the backup, not the service, and costs no earlier backup", (context) =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        fs.mkdirSync(folder)
        if (!runs("mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", folder))
          return context.skip("a disk of its own needs root")
        yield* Effect.addFinalizer(() => Effect.sync(() => runs("umount", "-l", folder)))
        const { sql, state, turn } = yield* replica(folder, { SERVICE_BACKUP_EVERY_SECONDS: "1" })
        yield* turn
        const before = yield* state
        expect(before.good).toBe(1)
        const filler = join(folder, "filler")
        fs.writeFileSync(filler, Buffer.alloc(4_050_000))
        yield* Effect.sleep("1100 millis")
        const failure = yield* Effect.flip(turn)
        expect(failure.message).toMatch(/less than a twentieth of the disk is free/)
        expect(fs.readdirSync(folder).filter((name) => name.endsWith(".partial"))).toEqual([])
        expect(yield* state).toEqual(before)
        expect(yield* sql`select 1 as one`).toEqual([{ one: 1 }])
        fs.rmSync(filler)
        yield* turn
        expect((yield* state).good).toBe(2)
      })
    ))

  it("a huge file, a pipe, a link and a folder in it keep no backup from being made and tried", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        fs.mkdirSync(folder)
        const [huge, pipe, link] = [2, 3, 4].map((hours) =>
          join(folder, nameOf(new Date(Date.now() - 3_600_000 * hours)))
        )
        fs.writeFileSync(huge!, "")
        // Takes no place on the disk.
        fs.truncateSync(huge!, 2 ** 30)
        expect(runs("mkfifo", pipe!)).toBe(true)
        fs.symlinkSync("/dev/zero", link!)
        fs.mkdirSync(join(folder, `${nameOf(new Date(0))}.partial`))
        const { state, turn } = yield* replica(folder)
        yield* turn
        expect(yield* state).toMatchObject({ good: 1, not_good: 3, problem: null })
        expect(JSON.parse(fs.readFileSync(`${huge}.checked`, "utf8")).outcome).toBe("damaged")
        expect([pipe, link].map((path) => fs.existsSync(`${path}.checked`))).toEqual([false, false])
      })
    ))

  it("a folder that every account can write to is not used; with the sticky bit, or for a group, it is", () =>
    run(
      Effect.gen(function* () {
        const folder = newFolder()
        fs.mkdirSync(folder)
        fs.chmodSync(folder, 0o777)
        const { state, turn } = yield* replica(folder)
        const problem = `${folder} cannot be used: every account can write to it; run chmod o-w on it.`
        expect((yield* Effect.flip(turn)).message).toBe(problem)
        expect(yield* state).toMatchObject({ last_good_at: null, problem })
        expect(fs.readdirSync(folder)).toEqual([])
        for (const mode of [0o1777, 0o770]) {
          fs.chmodSync(folder, mode)
          yield* turn
          expect(yield* state).toMatchObject({ good: 1, problem: null })
        }
      })
    ))

  it("a folder whose disk is not mounted is a failure, and is not made", () =>
    run(
      Effect.gen(function* () {
        const { state, turn } = yield* replica(join(home, "not-mounted", "backups"))
        expect((yield* Effect.flip(turn)).message).toMatch(/not-mounted\/backups cannot be used: ENOENT/)
        expect(yield* state).toMatchObject({ last_good_at: null, problem: expect.stringContaining("ENOENT") })
      })
    ))
})

describe("with an external database", () => {
  let service: TestService
  let folder: string
  beforeAll(async () => {
    service = await startService()
    folder = join(service.folder, "backups")
    result(await service.on("service").run("create-project", "--name", "Shop", "--json"))
    fs.mkdirSync(folder)
    const file = join(folder, "bridge-service-2026-01-01T00-00-00-000Z.backup")
    result(await service.on("service").run("backup-database", "--out", file, "--json"))
  })
  afterAll(() => service.stop())

  const own = (more: Record<string, string> = {}) => service.on("service", { SERVICE_BACKUP_DIR: folder, ...more })
  const status = async (): Promise<BackupState> => result(await own().run("status", "--json")).backups
  const [name] = ["bridge-service-2026-01-01T00-00-00-000Z.backup"]

  it("status says so if backups are not made, or were never tried", async () => {
    expect(result(await service.on("service").run("status", "--json")).backups).toBeNull()
    expect((await service.on("service").run("status")).stdout).toMatch(/SERVICE_BACKUP_DIR is not set/)
    expect(await status()).toMatchObject({ last_good_at: null, not_good: 1 })
    expect((await own().run("status")).stdout).toMatch(/last_good_backup +none/)
  })

  const checked = async (wanted: string) => {
    const { checks }: { checks: ReadonlyArray<Check> } = JSON.parse((await own().run("doctor", "--json")).stdout)
    return checks.find((one) => one.name === wanted)
  }

  it("doctor fails while no backup is good, and says what is wrong with the newest", async () => {
    expect(await checked("backups")).toEqual(
      check(
        "backups",
        "fail",
        `There is no good backup. ${name} was not tried, or was changed since then. See "Backups by themselves" in docs/run.md.`
      )
    )
  })

  it.skipIf(!isRoot())("doctor warns of a folder that belongs to another account (needs root)", async () => {
    expect(await checked("backup_folder")).toBeUndefined()
    fs.chownSync(folder, 65534, 65534)
    const message = `${folder} belongs to another account, which can delete the backups in it: let this account or root own it.`
    expect(await checked("backup_folder")).toEqual(check("backup_folder", "warn", message))
    fs.chownSync(folder, 0, 0)
  })

  it.each([
    [2 * 86_400, null, "ok"],
    [2 * 86_400 + 1, null, "fail"],
    [60, "the newest is damaged.", "warn"],
    [2 * 86_400 + 1, "the newest is damaged.", "fail"]
  ])("a good backup %s s old, with the problem %s, is %s for doctor", (seconds, problem, status) => {
    const last_good_at = new Date("2026-01-01T00:00:00Z")
    const state = { last_good_at, last_restored_at: null, good: 1, not_good: 0, every_seconds: 86_400, problem }
    expect(judged(state, last_good_at.getTime() + 1000 * seconds).status).toBe(status)
  })

  it("verify-backup of an account that may not create a database reads the file, and says so", async () => {
    await service.account("plain", "in role pg_read_all_data")
    const plain = { SERVICE_DATABASE_OWNER_URL: urlOf(service, "plain") }
    const tried = result(await own(plain).run("verify-backup", "--json"))
    expect(tried).toMatchObject({ file: join(folder, name), outcome: "read" })
    expect(tried.reason).toMatch(/may not create a database/)
    expect(await status()).toMatchObject({
      good: 1,
      last_good_at: expect.any(String),
      last_restored_at: null,
      problem: expect.stringMatching(/was only read\. This account may not create a database/)
    })
  })

  const scratch = `
    select 1 from pg_database
     where datname = (select 'bridge_service_trial_' || oid from pg_database where datname = current_database())`

  it("verify-backup restores the newest, which status then shows", async () => {
    const tried = result(await own().run("verify-backup", "--json"))
    expect(tried).toMatchObject({ file: join(folder, name), outcome: "restored", reason: null })
    const shown = await status()
    expect(shown.last_restored_at).toBe(tried.created_at)
    expect(await service.query("service", scratch)).toEqual([])
  })

  it("verify-backup tries any file, also by a link, and refuses a damaged one, one of another key, and a folder that is not set", async () => {
    const file = join(service.folder, name)
    fs.copyFileSync(join(folder, name), file)
    result(await own().run("verify-backup", "--in", file, "--json"))
    // Results are kept beside the service's own backups only.
    expect(fs.existsSync(`${file}.checked`)).toBe(false)
    const link = join(service.folder, "link")
    fs.symlinkSync(file, link)
    expect(result(await own().run("verify-backup", "--in", link, "--json")).file).toBe(link)
    const other = { SERVICE_BACKUP_KEY: "another key of at least thirty-two bytes" }
    expect(refusal(await own(other).run("verify-backup", "--in", file, "--json"))).toEqual([1, "backup_not_good"])
    damage(file)
    expect(refusal(await own().run("verify-backup", "--in", file, "--json"))).toEqual([1, "backup_not_good"])
    expect(await service.query("service", scratch)).toEqual([])
    expect(refusal(await service.on("service").run("verify-backup", "--json"))).toEqual([78, "configuration_error"])
  })
})

/** The address of the database for another account of its server. */
const urlOf = (service: TestService, account: string) => {
  const { env } = service.on("service").shell()
  const address = new URL(env["DATABASE_URL"]!)
  address.username = account
  return address.href
}
