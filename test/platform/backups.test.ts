/** When the service looks for a backup that is due, and how it judges one that was tried. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Option, Redacted, Stream } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { join } from "node:path"
import { vi } from "vitest"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { lines, longestLine } from "../../src/platform/backups/BackupLines.ts"
import { backUpForever, Backups } from "../../src/platform/backups/Backups.ts"
import {
  BackupFolderError,
  contents,
  keep,
  list,
  markOf,
  nameOf,
  type Outcome
} from "../../src/platform/backups/BackupFolder.ts"
import * as Trial from "../../src/platform/backups/Trial.ts"
import {
  Backup,
  BackupDamaged,
  BackupOfAnotherKey,
  BackupOfAnotherVersion,
  BackupUnsigned,
  TrialTooSlow
} from "../../src/platform/backups/Backup.ts"
import { authenticator } from "../../src/platform/crypto/Derivation.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { Database, DatabaseUnreachable } from "../../src/platform/database/Database.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { temporaryFolder } from "../support/database/PostgresUser.ts"

describe("the service looks for a backup that is due", () => {
  /** How often it has looked after so much time; `turn` is what it does each time. */
  const looks = Effect.fnUntraced(function* (
    seconds: ReadonlyArray<number>,
    turn: Effect.Effect<void, BackupFolderError> = Effect.void,
    backup: { readonly every?: Duration.Duration; readonly folder?: string | undefined } = {}
  ) {
    let count = 0
    const counted = Effect.suspend(() => (count++, turn))
    const settings = { backup: { every: Duration.days(1), folder: "/backups", ...backup } } as Settings["Service"]
    yield* Effect.forkChild(
      backUpForever.pipe(
        Effect.provideService(Settings, settings),
        Effect.provideService(Backups, { turn: counted } as Backups["Service"])
      ),
      { startImmediately: true }
    )
    return yield* Effect.forEach(seconds, (more) => Effect.map(TestClock.adjust(`${more} seconds`), () => count))
  })

  it.effect("at the start and once a minute", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* looks([0, 59, 1, 60]), [1, 1, 2, 3])
    })
  )

  it.effect("more often if it makes them more often", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* looks([0, 9, 1, 10], Effect.void, { every: Duration.seconds(10) }), [1, 1, 2, 3])
    })
  )

  it.effect.each([
    ["a failure", Effect.fail(new BackupFolderError({ message: "the disk is full" }))],
    ["a defect", Effect.die(new Error("A planted defect"))]
  ] as const)("five minutes after %s", ([, turn]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* looks([0, 299, 1], turn), [1, 1, 2])
    })
  )

  it.effect("never, if no folder is set", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* looks([0, 600], Effect.void, { folder: undefined }), [0, 0])
    })
  )
})

const now = new Date("2026-11-25T12:00:00Z")
const created_at = new Date("2026-11-25T11:00:00Z")

/** To do something, backups would ask the database, and die here. */
const askedDatabase = { dedicated: () => Effect.die("asked") } as unknown as Database["Service"]
const clock = Layer.succeed(DatabaseClock, { now: Effect.succeed(now) } as unknown as DatabaseClock["Service"])

/** The backups of a folder. */
const backupsOf = (folder: string, database = askedDatabase, backup: Partial<Backup["Service"]> = {}) => {
  const given = Layer.mergeAll(
    Layer.succeed(Settings, { backup: { every: Duration.days(1), folder, keep: 7 } } as Settings["Service"]),
    Layer.succeed(Database, database),
    clock,
    Layer.succeed(Backup, { keyId: "k1", ...backup } as Backup["Service"]),
    Layer.succeed(Audit, {} as Audit["Service"])
  )
  return Effect.map(Layer.build(Layer.provide(Backups.layer, given)), (services) => Context.get(services, Backups))
}

describe("with one backup in the folder", () => {
  const hour = 3_600_000
  const day = 24 * hour

  it.effect.each([
    ["another one is due", "a day after a good one", "restored", day, 0, true],
    ["none is due", "less than a day after it", "read", day - 1, 0, false],
    ["another one is due", "if a good one is from a day ahead, by a clock that was wrong", "restored", -day, 0, true],
    ["none is due", "if it is from less than a day ahead", "restored", 1 - day, 0, false],
    ["another one is due", "an hour after one that is not good", "damaged", hour, 0, true],
    ["none is due", "less than an hour after it", "damaged", hour - 1, 0, false],
    ["it is tried again", "a day after its trial", "restored", 0, day, true],
    ["it is not tried again", "less than a day after it", "restored", 0, day - 1, false]
  ] as const)("%s %s", ([, , outcome, made, tried, expected]) =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const created_at = new Date(now.getTime() - made)
      const path = join(folder, nameOf(created_at))
      fs.writeFileSync(path, "a backup")
      const result = { outcome: outcome as Outcome, reason: null, key: "k1", created_at }
      yield* keep(path, { ...result, ...(yield* markOf(path)), tried_at: new Date(now.getTime() - tried) })
      const { turn } = yield* backupsOf(folder)
      assert.strictEqual(Exit.hasDies(yield* Effect.exit(turn)), expected)
    })
  )
})

describe("the newest backup, if it was only read, is good", () => {
  const late = "No database could be made of it within 11 minutes."
  const never = "The service does not restore into an external database: service-admin verify-backup does."
  it.effect.each([
    ["and the state says why", late, `${nameOf(created_at)} was only read. ${late}`],
    ["and that is no problem where the service never restores", never, null]
  ] as const)("%s", ([, reason, problem]) =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const path = join(folder, nameOf(created_at))
      fs.writeFileSync(path, "a backup")
      yield* keep(path, { ...(yield* markOf(path)), outcome: "read", reason, key: "k1", created_at, tried_at: now })
      const { state } = yield* backupsOf(folder)
      const found = Option.getOrThrow(yield* state)
      assert.deepInclude(found, { last_good_at: created_at, last_restored_at: null, good: 1, problem })
    })
  )
})

describe("what grows with the data has ten minutes, and one more for each 100 MB", () => {
  const key = Redacted.make("a key of at least thirty-two bytes, for these backups")

  /** Backups of a database that answers its size; whatever is asked without a limit never ends. */
  const slow = Effect.fnUntraced(function* (size: number) {
    const begun = yield* Deferred.make<void>()
    const database = {
      beside: () => database,
      dedicated: (_: unknown, limit?: Duration.Duration) =>
        limit === undefined ? Effect.succeed(size) : Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
    } as unknown as Database["Service"]
    const settings = Layer.succeed(Settings, { backup: { key } } as Settings["Service"])
    const given = Layer.mergeAll(Layer.succeed(Database, database), settings, clock)
    const services = yield* Layer.build(Layer.provide(Backup.layer, given))
    /** How work fails that ends after so many minutes, and not before. */
    const failing = Effect.fnUntraced(function* <A, E>(minutes: number, work: Effect.Effect<A, E>) {
      const working = yield* Effect.forkChild(Effect.flip(work))
      yield* Deferred.await(begun)
      yield* TestClock.adjust(60_000 * minutes - 1)
      assert.isUndefined(working.pollUnsafe())
      yield* TestClock.adjust(1)
      return yield* Fiber.join(working)
    })
    return { backup: Context.get(services, Backup), failing }
  })

  it.effect.each([
    [99_999_999, 10],
    [250_000_000, 12]
  ] as const)("of the database to make one: of %i bytes, %i minutes", ([size, minutes]) =>
    Effect.gen(function* () {
      const { backup, failing } = yield* slow(size)
      const failure = yield* failing(
        minutes,
        backup.save(() => Effect.void)
      )
      assert.strictEqual(
        failure.message,
        `The backup was not finished within ${minutes} minutes: its disk or the database is too slow.`
      )
    })
  )

  /** A whole file with so many rows, each of 4 MB. */
  const fileOf = (rows: number) => {
    const { id, start } = authenticator(key, "backup/v1/file")
    const header = { backup: "bridge-service", key: id, created_at, migrations: [], tables: [] }
    const row = Buffer.from(`["t","${"x".repeat(3_999_991)}"]\n`)
    const body = [Buffer.from(`${JSON.stringify(header)}\n`), ...Array.from({ length: rows }, () => row)]
    const [sha256, hmac_sha256] = [createHash("sha256"), start()].map((digest) => {
      for (const part of body) digest.update(part)
      return digest.digest("hex")
    })
    return Stream.fromIterable([...body, Buffer.from(`${JSON.stringify({ rows, sha256, hmac_sha256 })}\n`)])
  }

  it.effect.each([
    [0, 10],
    [25, 11]
  ] as const)("of the file to try it: of %i rows of 4 MB, %i minutes", ([rows, minutes]) =>
    Effect.gen(function* () {
      const { backup, failing } = yield* slow(0)
      const failure = yield* failing(minutes, backup.restoreBeside("scratch", fileOf(rows)))
      assert.deepInclude(failure, { _tag: "TrialTooSlow", created_at, minutes })
    })
  )
})

it.effect("a backup may be tried for longer than ten minutes, while the lock is held", () =>
  Effect.gen(function* () {
    const folder = yield* temporaryFolder
    const path = join(folder, nameOf(created_at))
    fs.writeFileSync(path, "a backup")
    const answers = () => Effect.succeed([{ mine: true, mayCreate: false, size: 1, name: "scratch" }])
    const sql = Object.assign(answers, { withTransaction: <A>(work: A) => work }) as unknown as SqlClient.SqlClient
    const database = {
      dedicated: (work: Effect.Effect<unknown, unknown, SqlClient.SqlClient>, limit = Duration.minutes(10)) =>
        Effect.timeout(Effect.provideService(work, SqlClient.SqlClient, sql), limit)
    } as unknown as Database["Service"]
    const begun = yield* Deferred.make<void>()
    const { verify } = yield* backupsOf(folder, database, {
      verify: () =>
        Deferred.succeed(begun, undefined).pipe(
          Effect.andThen(Effect.sleep("11 minutes")),
          Effect.as({ created_at, tables: 0, rows: 0 })
        )
    })
    const trying = yield* Effect.forkChild(verify(Option.some(path)))
    yield* Deferred.await(begun)
    yield* TestClock.adjust("11 minutes")
    assert.deepInclude(yield* Fiber.join(trying), { file: path, outcome: "read", created_at })
  })
)

describe("a disk that does not answer", () => {
  it.effect("is said to, after two seconds by what reports and after five minutes by what works", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      const path = join(folder, nameOf(now))
      fs.writeFileSync(path, "a backup")
      const open = vi.spyOn(fs.promises, "open").mockReturnValue(new Promise(() => {}))
      syncBuiltinESMExports()
      yield* Effect.addFinalizer(() => Effect.sync(() => (open.mockRestore(), syncBuiltinESMExports())))
      const { state } = yield* backupsOf(folder)
      const reporting = yield* Effect.forkChild(state)
      const working = yield* Effect.forkChild(list(folder))
      const reading = yield* Effect.forkChild(Effect.flip(Stream.runDrain(contents(path))))
      yield* Effect.repeat(TestClock.withLive(Effect.sleep("1 millis")), { until: () => open.mock.calls.length === 3 })
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(reporting.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const reported = Option.getOrThrow(yield* Fiber.join(reporting))
      assert.strictEqual(reported.problem, `${folder} does not answer.`)
      yield* TestClock.adjust("297999 millis")
      assert.isUndefined(working.pollUnsafe())
      assert.isUndefined(reading.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const [found] = yield* Fiber.join(working)
      assert.isTrue(Option.isNone(found!.result))
      assert.strictEqual((yield* Fiber.join(reading)).message, `${path} cannot be used: the disk does not answer.`)
    })
  )
})

/** A file, and the result of a trial whose parts succeed or fail as given. */
const tried = Effect.fnUntraced(function* (
  verify: (path: string) => Effect.Effect<unknown, unknown>,
  given: { readonly mayCreate: boolean; readonly size: number; readonly embedded?: string } | undefined = undefined,
  restoring: Effect.Effect<unknown, unknown> = Effect.succeed({ created_at })
) {
  const path = join(yield* temporaryFolder, "backup")
  fs.writeFileSync(path, "a backup")
  const restored: Array<string> = []
  const backup = {
    keyId: "k1",
    verify: () => verify(path),
    restoreBeside: (name: string) => Effect.suspend(() => (restored.push(name), restoring))
  } as unknown as Backup["Service"]
  const answers = () => Effect.succeed([{ ...given, name: "scratch" }])
  const sql = Object.assign(answers, { unsafe: () => Effect.void }) as unknown as SqlClient.SqlClient
  const database = {
    embedded: given?.embedded,
    dedicated: (work: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) =>
      Effect.provideService(work, SqlClient.SqlClient, sql)
  } as unknown as Database["Service"]
  const trial = Trial.make(backup, database)
  const result =
    given === undefined
      ? trial.byReading(path, now, { outcome: "read", reason: "Only read." })
      : trial.byRestoring(path, now)
  return { result: result as Effect.Effect<Effect.Success<typeof result>, { readonly _tag: string }>, restored }
})

describe("a backup that is tried", () => {
  it.effect("has the result of the file as it is", () =>
    Effect.gen(function* () {
      const { result } = yield* tried(() => Effect.succeed({ created_at }))
      const found = yield* result
      assert.deepInclude(found, {
        outcome: "read",
        reason: "Only read.",
        created_at,
        key: "k1",
        tried_at: now,
        size: 8
      })
    }).pipe(Effect.scoped)
  )

  it.effect("is damaged if it changes meanwhile, though it was whole before", () =>
    Effect.gen(function* () {
      const { result } = yield* tried((path) =>
        Effect.sync(() => {
          fs.appendFileSync(path, "x")
          return { created_at }
        })
      )
      assert.deepInclude(yield* result, {
        outcome: "damaged",
        reason: "It was changed while it was tried.",
        created_at: null
      })
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["damaged", "It was truncated or altered.", Effect.fail(new BackupDamaged())],
    ["damaged", "It has no signature.", Effect.fail(new BackupUnsigned())],
    ["foreign", "It was signed with another key.", Effect.fail(new BackupOfAnotherKey())],
    [
      "failed",
      "No database could be made of it (BackupOfAnotherVersion).",
      Effect.fail(new BackupOfAnotherVersion({ message: "" }))
    ],
    ["failed", "No database could be made of it.", Effect.die(new Error("a row breaks a constraint"))]
  ] as const)("is %s: %s", ([outcome, reason, verify]) =>
    Effect.gen(function* () {
      const { result } = yield* tried(() => verify)
      assert.deepInclude(yield* result, { outcome, reason, created_at: null })
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["the folder cannot be read", new BackupFolderError({ message: "" })],
    ["the database does not answer", new DatabaseUnreachable({ message: "" })],
    [
      "a statement fails",
      new SqlError.SqlError({
        reason: new SqlError.ConnectionError({ cause: new Error("lost"), operation: "execute" })
      })
    ]
  ] as const)("has no result if %s", ([, error]) =>
    Effect.gen(function* () {
      const { result } = yield* tried(() => Effect.fail(error))
      assert.strictEqual((yield* Effect.flip(result))._tag, error._tag)
    }).pipe(Effect.scoped)
  )

  /** Bytes that the database may still take. */
  const { bavail, blocks, bsize } = fs.statfsSync("/")
  const room = (bavail - blocks / 20) * bsize

  it.effect("is restored into a scratch database", () =>
    Effect.gen(function* () {
      const fitting = { mayCreate: true, size: 0.4 * room, embedded: "/" }
      const { restored, result } = yield* tried(() => Effect.die("read"), fitting)
      assert.deepInclude(yield* result, { outcome: "restored", reason: null, created_at })
      assert.deepStrictEqual(restored, ["scratch"])
    }).pipe(Effect.scoped)
  )

  it.effect("is only read, and not damaged, if no database was made of it in time", () =>
    Effect.gen(function* () {
      const late = Effect.fail(new TrialTooSlow({ created_at, minutes: 11 }))
      const { result } = yield* tried(() => Effect.die("read"), { mayCreate: true, size: 1 }, late)
      assert.deepInclude(yield* result, {
        outcome: "read",
        reason: "No database could be made of it within 11 minutes.",
        created_at
      })
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["the account may create no database", { mayCreate: false, size: 1 }, /may not create a database/],
    [
      "the disk has no room for it twice",
      { mayCreate: true, size: 0.6 * room, embedded: "/" },
      /no room for a second copy/
    ]
  ] as const)("is only read if %s", ([, given, reason]) =>
    Effect.gen(function* () {
      const { restored, result } = yield* tried(() => Effect.succeed({ created_at }), given)
      const found = yield* result
      assert.strictEqual(found.outcome, "read")
      assert.match(found.reason ?? "", reason)
      assert.deepStrictEqual(restored, [])
    }).pipe(Effect.scoped)
  )
})

it.effect("the result of a trial is not written through a link that somebody has put in its place", () =>
  Effect.gen(function* () {
    const folder = yield* temporaryFolder
    const [path, secrets] = [join(folder, "a.backup"), join(folder, "secrets.env")]
    fs.writeFileSync(secrets, "SECRET=kept")
    fs.symlinkSync(secrets, `${path}.checked.partial`)
    const at = new Date(0)
    yield* keep(path, { size: 5, changed: "0", outcome: "read", reason: null, key: null, created_at: at, tried_at: at })
    assert.strictEqual(fs.readFileSync(secrets, "utf8"), "SECRET=kept")
    assert.isTrue(fs.lstatSync(`${path}.checked`).isFile())
  })
)

const makePipe = (path: string) => {
  execFileSync("mkfifo", [path])
}

describe("a result counts only", () => {
  /** Whether there is one, before and after something is put in its place. */
  const counts = Effect.fnUntraced(function* (change: (checked: string) => void) {
    const folder = yield* temporaryFolder
    const path = join(folder, nameOf(now))
    fs.writeFileSync(path, "a backup")
    const mark = yield* markOf(path)
    yield* keep(path, { ...mark, outcome: "read", reason: null, key: null, created_at, tried_at: now })
    const result = Effect.map(list(folder), ([found]) => Option.isSome(found!.result))
    const before = yield* result
    change(`${path}.checked`)
    return [before, yield* result]
  })

  it.effect.each([
    [
      "is no pipe, which nobody writes to",
      (checked: string) => {
        fs.rmSync(checked)
        makePipe(checked)
      }
    ],
    [
      "is no link to one elsewhere",
      (checked: string) => {
        fs.renameSync(checked, `${checked}.elsewhere`)
        fs.symlinkSync(`${checked}.elsewhere`, checked)
      }
    ],
    ["is not longer than any", (checked: string) => fs.appendFileSync(checked, " ".repeat(4096))]
  ] as const)("if it %s", ([, change]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* counts(change), [true, false])
    })
  )
})

describe("a backup is read", () => {
  it.live.each([
    ["a pipe", makePipe],
    ["a link", (path: string) => fs.symlinkSync("/etc/passwd", path)],
    ["a folder", (path: string) => fs.mkdirSync(path)]
  ] as const)("unless it is %s", ([, put]) =>
    Effect.gen(function* () {
      const path = join(yield* temporaryFolder, nameOf(now))
      put(path)
      const { message } = yield* Effect.flip(Stream.runDrain(contents(path)))
      assert.match(message, /cannot be read: (it is not a regular file|ELOOP)\./)
      assert.match((yield* Effect.flip(markOf(path))).message, /cannot be used: it is not a regular file\./)
    })
  )

  it.effect("up to a line that is longer than any of a backup", () =>
    Effect.gen(function* () {
      const lengths = (text: string) => {
        const bytes = Buffer.from(text)
        const pieces = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, index) =>
          bytes.subarray(65_536 * index, 65_536 * (index + 1))
        )
        return Effect.map(Stream.runCollect(lines(Stream.fromIterable(pieces))), (found) =>
          found.map((line) => line?.length)
        )
      }
      const longest = "x".repeat(longestLine)
      assert.deepStrictEqual(yield* lengths(`${longest}\nlast`), [longestLine + 1, 4])
      assert.deepStrictEqual(yield* lengths(`${longest}x\nlast`), [undefined])
    })
  )
})
