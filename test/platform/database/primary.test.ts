/** The pool uses only a server that takes writes (decisions.md, The server that takes writes). */
import { HttpRouter, HttpServer } from "effect/http"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Redacted, Result, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { type AddressInfo, createServer, type NetConnectOpts, type Server } from "node:net"
import { connected, Database, reachable, suitable } from "../../../src/platform/database/Database.ts"
import { describe as facts, persistence } from "../../../src/platform/database/Persistence.ts"
import { makePrimary } from "../../../src/platform/database/Primary.ts"
import { serversIn } from "../../../src/platform/database/Servers.ts"
import { HealthHttp } from "../../../src/platform/edge/routes/Health.ts"
import { parseDatabaseUrl } from "../../../src/platform/settings/DatabaseUrl.ts"
import { relay } from "../../support/network/Relay.ts"
import { Pair } from "../../support/database/Pair.ts"

const poolOf = Effect.fnUntraced(function* (
  servers: Parameters<typeof connected>[0],
  { poolSize = 2, pooler = false } = {}
) {
  const services = yield* Layer.build(Layer.fresh(connected(servers, { poolSize, pooler })))
  const sql = Context.get(services, SqlClient.SqlClient)
  const where = Effect.map(
    sql<{ folder: string }>`select current_setting('data_directory') as folder`,
    ([row]) => row!.folder
  )
  return { sql, where, server: Context.get(services, Database).server }
})

const sqlstateOf = (error: SqlError.SqlError) => facts(error).sqlstate

const readyz = (sql: SqlClient.SqlClient) =>
  Effect.promise(async () => {
    const { dispose, handler } = HttpRouter.toWebHandler(
      HealthHttp.pipe(
        Layer.provide(Layer.succeed(SqlClient.SqlClient, sql)),
        Layer.provideMerge(HttpServer.layerServices)
      ),
      { disableLogger: true }
    )
    const { status } = await handler(new Request("http://localhost/readyz"))
    await dispose()
    return status
  })

/** The port of a PostgreSQL that refuses every connection with this SQLSTATE. */
const refusing = (sqlstate: string) =>
  Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const fields = `SFATAL\0VFATAL\0C${sqlstate}\0Mrefused\0\0`
      const length = Buffer.alloc(4)
      length.writeInt32BE(4 + fields.length)
      const refusal = Buffer.concat([Buffer.from("E"), length, Buffer.from(fields)])
      const server = createServer((socket) =>
        socket.on("error", () => {}).once("data", () => socket.end(refusal))
      ).listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.close())
  ).pipe(Effect.map((server) => (server.address() as AddressInfo).port))

// In this order: the standby is promoted in the middle, while the primary runs on, as one that was frozen and woke up.
layer(Pair.layer, { excludeTestServices: true, timeout: "90 seconds" })("the pool", (it) => {
  it.effect("finds the server that takes writes among several hosts, in any order", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Pair
      for (const hosts of [
        [standby, primary],
        [primary, standby]
      ]) {
        const list = hosts.map(({ at }) => encodeURIComponent(at.host)).join(",")
        const ports = hosts.map(({ at }) => at.port).join(",")
        const url = `postgres://postgres@/postgres?host=${list}&port=${ports}&target_session_attrs=read-write`
        const { where } = yield* poolOf(yield* serversIn(url))
        assert.strictEqual(yield* where, primary.directory)
      }
    })
  )

  it.effect("refuses a standby, even for reading, with 503, and /readyz fails", () =>
    Effect.gen(function* () {
      const { standby } = yield* Pair
      const { sql, where } = yield* poolOf(standby.at)
      assert.strictEqual(sqlstateOf(yield* Effect.flip(where)), "25006")
      assert.strictEqual((yield* Effect.flip(persistence(where)))._tag, "bridge_persistence_error")
      assert.strictEqual(yield* readyz(sql), 503)
    })
  )

  it.effect("says in doctor and in commands that it is a standby", () =>
    Effect.gen(function* () {
      const { standby } = yield* Pair
      const pool = Layer.fresh(connected(standby.at, { poolSize: 1, pooler: false }))
      const waiting = yield* Effect.forkChild(Effect.flip(Effect.provide(reachable, pool)))
      // Each query takes as long as an attempt to connect.
      yield* Effect.repeat(Effect.andThen(standby.query("select 1"), TestClock.adjust("500 millis")), { times: 20 })
      assert.strictEqual(
        (yield* Fiber.join(waiting)).message,
        "The database cannot be reached (it is a standby, or read-only); see DATABASE_URL, and try again."
      )
    }).pipe(Effect.provide(TestClock.layer()))
  )

  it.effect("says of each host why it is not used", () =>
    Effect.gen(function* () {
      const { standby } = yield* Pair
      const nobody = { ...standby.at, host: "127.0.0.1", port: 1 }
      const { where } = yield* poolOf([nobody, standby.at])
      assert.strictEqual(
        facts(yield* Effect.flip(where)).cause,
        `127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1; ${standby.at.host}:${standby.at.port}: it is a standby, or read-only`
      )
    })
  )

  it.effect("asks a standby again while another host does not answer, for it may be promoted meanwhile", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Pair
      const socket = ({ host, port }: typeof standby.at) => ({ path: `${host}/.s.PGSQL.${port}` })
      const silent = yield* relay(socket(primary.at))
      yield* silent.blackhole
      let asked = 0
      const counted = yield* relay(socket(standby.at), () => {
        asked++
        return () => false
      })
      const at = ({ port }: { port: number }) =>
        ({ ...standby.at, host: "127.0.0.1", port, connectTimeout: "1 second" }) as const
      const { where } = yield* poolOf([at(silent), at(counted)])
      yield* Effect.flip(where)
      assert.isAbove(asked, 1)
    })
  )

  it.effect("checks the server's certificate and name, by the authority that the address names", () =>
    Effect.gen(function* () {
      const { certificate, primary } = yield* Pair
      const reached = Effect.fnUntraced(function* (host: string, query: string, database = "postgres") {
        const servers = yield* serversIn(`postgres://postgres@${host}:${primary.at.port}/${database}?${query}`)
        const { sql } = yield* poolOf(servers)
        return yield* sql<{ tls: boolean }>`select ssl as tls from pg_stat_ssl where pid = pg_backend_pid()`.pipe(
          Effect.match({ onFailure: () => "refused", onSuccess: ([row]) => (row!.tls ? "TLS" : "plain") })
        )
      })
      const root = `sslrootcert=${encodeURIComponent(certificate.file)}`
      assert.strictEqual(yield* reached("127.0.0.1", root), "TLS")
      assert.strictEqual(yield* reached("127.0.0.1", "sslmode=require"), "refused")
      assert.strictEqual(yield* reached("127.0.0.1", "sslmode=disable"), "refused")
      assert.strictEqual(yield* reached("localhost", root), "refused")
      assert.strictEqual(yield* reached("localhost", `${root}&sslmode=verify-ca`), "TLS")
      const client = `sslcert=${encodeURIComponent(certificate.file)}&sslkey=${encodeURIComponent(certificate.key)}`
      assert.strictEqual(yield* reached("127.0.0.1", root, "template1"), "refused")
      assert.strictEqual(yield* reached("127.0.0.1", `${root}&${client}`, "template1"), "TLS")
      const missing = yield* Effect.flip(serversIn("postgres://h/x?sslrootcert=/is/not/there"))
      assert.strictEqual(missing.message, "DATABASE_URL names /is/not/there, which cannot be read: ENOENT.")
    })
  )

  it.effect("leaves a server at the first write that it refuses as read-only, and comes back by itself", () =>
    Effect.gen(function* () {
      const { primary } = yield* Pair
      const { server, sql, where } = yield* poolOf(primary.at, { poolSize: 1 })
      const sessionOf = Effect.map(sql<{ pid: number }>`select pg_backend_pid() as pid`, ([row]) => row!.pid)
      const before = yield* sessionOf
      yield* sql`set default_transaction_read_only = on`
      // The session is open already, so only the statement shows it.
      assert.strictEqual(sqlstateOf(yield* Effect.flip(sql`create table never (id int)`)), "25006")
      assert.isUndefined(server())
      assert.strictEqual(sqlstateOf(yield* Effect.flip(where)), "25006")
      assert.strictEqual(yield* where, primary.directory)
      assert.notStrictEqual(yield* sessionOf, before)
    })
  )

  it.effect("behind a pooler asks again after a second, for the session may be another one", () =>
    Effect.gen(function* () {
      const { primary } = yield* Pair
      const { sql, where } = yield* poolOf(primary.at, { poolSize: 1, pooler: true })
      yield* sql`set default_transaction_read_only = on`
      assert.strictEqual(yield* where, primary.directory)
      yield* Effect.sleep("1100 millis")
      assert.strictEqual(sqlstateOf(yield* Effect.flip(where)), "25006")
      assert.strictEqual(yield* where, primary.directory)
    })
  )

  it.effect(
    "lets a commit wait for its standby when its caller has gone, so that nobody reads what may be undone",
    () =>
      Effect.gen(function* () {
        const { primary } = yield* Pair
        const { sql } = yield* poolOf(primary.at)
        const until = (query: string) =>
          Effect.repeat(primary.query(query), {
            until: ({ length }) => length > 0,
            schedule: Schedule.spaced("20 millis")
          }).pipe(Effect.timeout("20 seconds"))
        yield* sql`create table waits (n int)`
        yield* primary.query("alter system set synchronous_standby_names = 'away'")
        yield* primary.query("select pg_reload_conf()")
        yield* until("select 1 where current_setting('synchronous_standby_names') = 'away'")
        const writing = yield* Effect.forkChild(sql`insert into waits values (1)`)
        yield* until("select 1 from pg_stat_activity where wait_event = 'SyncRep'")
        yield* Effect.forkChild(Fiber.interrupt(writing))
        for (let look = 0; look < 25; look++) {
          assert.deepStrictEqual(yield* primary.query("select n from waits"), [])
          yield* Effect.sleep("20 millis")
        }
        yield* primary.query("alter system reset synchronous_standby_names")
        yield* primary.query("select pg_reload_conf()")
        yield* until("select n from waits")
      })
  )

  it.effect("lets a statement run on whose caller has gone, if nobody says whether it is such a commit", () =>
    Effect.gen(function* () {
      const { primary } = yield* Pair
      const config = { ...primary.at, maxConnections: 1 }
      const { acquire } = yield* makePrimary([config], { guarded: true, pooler: false })
      const sleep = Effect.flatMap(acquire, (connection) => connection.executeRaw("select pg_sleep(20)", []))
      const sleeping = yield* Effect.forkChild(Effect.scoped(sleep))
      const sessions = "from pg_stat_activity where query = 'select pg_sleep(20)' and state = 'active'"
      yield* Effect.repeat(primary.query(`select 1 ${sessions}`), { until: ({ length }) => length > 0 })
      config.host = "/is/not/there"
      yield* Effect.forkChild(Fiber.interrupt(sleeping))
      yield* Effect.sleep("100 millis")
      assert.strictEqual((yield* primary.query(`select pg_cancel_backend(pid) ${sessions}`)).length, 1)
    })
  )

  it.effect("leaves a frozen primary for the promoted standby, and stays there when the primary wakes", () =>
    Effect.gen(function* () {
      const { freeze, primary, promote, standby } = yield* Pair
      const { where } = yield* poolOf([primary, standby].map(({ at }) => ({ ...at, connectTimeout: "2 seconds" })))
      assert.strictEqual(yield* where, primary.directory)
      const moved = Effect.gen(function* () {
        yield* freeze
        assert.strictEqual((yield* Effect.flip(persistence(where)))._tag, "bridge_persistence_error")
        yield* promote
        yield* Effect.retry(persistence(where), { schedule: Schedule.spaced("50 millis"), times: 200 })
      })
      yield* Effect.scoped(moved)
      const awake = yield* Effect.all(
        Array.from({ length: 4 }, () => where),
        { concurrency: 2 }
      )
      assert.deepStrictEqual([...new Set(awake)], [standby.directory])
    })
  )

  it.effect("never goes back to the server before, once the address leads to another one", () =>
    Effect.gen(function* () {
      const { primary, promote, standby } = yield* Pair
      const to = { path: `${primary.at.host}/.s.PGSQL.${primary.at.port}` }
      const line = yield* relay(to)
      const { server, sql, where } = yield* poolOf({ ...primary.at, host: "127.0.0.1", port: line.port })
      const slowly = Effect.map(
        sql<{ folder: string }>`select current_setting('data_directory') as folder, pg_sleep(0.1)`,
        ([row]) => row!.folder
      )
      assert.strictEqual(yield* where, primary.directory)
      const before = server()
      yield* promote
      to.path = `${standby.at.host}/.s.PGSQL.${standby.at.port}`
      // The second connection reaches the promoted server, while the first one is still open to the other.
      const both = yield* Effect.all([slowly, slowly], { concurrency: 2 })
      assert.includeMembers(both, [primary.directory, standby.directory])
      assert.deepStrictEqual(yield* Effect.all([slowly, slowly], { concurrency: 2 }), [
        standby.directory,
        standby.directory
      ])
      assert.notStrictEqual(server(), before)
    })
  )

  it.effect("leaves a host whose server only starts, but not one that refuses for another reason", () =>
    Effect.gen(function* () {
      const { primary, promote, standby } = yield* Pair
      // Both take writes then.
      yield* promote
      const to: { path: string | undefined; port?: number } = { path: `${primary.at.host}/.s.PGSQL.${primary.at.port}` }
      const line = yield* relay(to as NetConnectOpts)
      const other = yield* relay({ path: `${standby.at.host}/.s.PGSQL.${standby.at.port}` })
      yield* other.cut
      const { where } = yield* poolOf([line, other].map(({ port }) => ({ ...primary.at, host: "127.0.0.1", port })))
      assert.strictEqual(yield* where, primary.directory)
      const failed = Effect.map(Effect.flip(where), facts)
      const refuses = (sqlstate: string) =>
        Effect.gen(function* () {
          Object.assign(to, { path: undefined, port: yield* refusing(sqlstate) })
          yield* Effect.andThen(line.cut, line.heal)
        })
      yield* Effect.andThen(refuses("53300"), other.heal)
      yield* Effect.repeat(failed, { until: ({ sqlstate }) => sqlstate === "53300", times: 3 })
      assert.strictEqual((yield* failed).sqlstate, "53300")
      yield* Effect.andThen(refuses("57P03"), other.cut)
      yield* Effect.repeat(failed, { until: ({ cause }) => cause?.includes(`:${other.port}: `) === true, times: 3 })
      assert.include((yield* failed).cause, `127.0.0.1:${line.port}: refused`)
      yield* other.heal
      assert.strictEqual(yield* where, standby.directory)
    })
  )

  it.effect("fails over to another host when its server ends, without a restart", () =>
    Effect.gen(function* () {
      const { primary, standby } = yield* Pair
      // Both take writes now, so the pool begins at the one whose host answers.
      const line = yield* relay({ path: `${standby.at.host}/.s.PGSQL.${standby.at.port}` })
      yield* line.cut
      const { server, where } = yield* poolOf([{ ...standby.at, host: "127.0.0.1", port: line.port }, primary.at])
      assert.strictEqual(yield* where, primary.directory)
      const before = server()
      yield* line.heal
      primary.child.kill("SIGQUIT")
      yield* Effect.retry(where, Schedule.spaced("50 millis")).pipe(
        Effect.repeat({ until: (folder) => folder === standby.directory }),
        Effect.timeout("20 seconds")
      )
      assert.notStrictEqual(server(), before)
    })
  )
})

describe("the pool", () => {
  it.effect("gives up hosts that do not answer within three seconds", () =>
    Effect.gen(function* () {
      const silent = yield* Effect.acquireRelease(
        Effect.callback<Server>((resume) => {
          const server = createServer((socket) => socket.on("error", () => {}).resume())
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close())
      )
      const { port } = silent.address() as AddressInfo
      const at = { host: "127.0.0.1", port, username: "nobody", database: "none", connectTimeout: "1 minute" } as const
      const { where } = yield* poolOf([at, at])
      const refused = yield* Effect.forkChild(Effect.flip(where))
      yield* TestClock.withLive(Effect.sleep("10 millis"))
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(refused.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const each = `127.0.0.1:${port}: no answer`
      assert.strictEqual(facts(yield* Fiber.join(refused)).cause, `${each}; ${each}`)
    })
  )
})

describe("a server", () => {
  it.effect("older than the oldest supported is refused at the start and by commands", () =>
    Effect.gen(function* () {
      const of = (number: number, version: string) => {
        const sql = () => Effect.succeed([{ encoding: "UTF8", number, version }])
        return Effect.provideService(suitable, SqlClient.SqlClient, sql as unknown as SqlClient.SqlClient)
      }
      yield* of(150_000, "15.0")
      const error = yield* Effect.flip(of(140_023, "14.23"))
      assert.deepInclude(error, {
        _tag: "DatabaseUnsuitable",
        message:
          "The database in DATABASE_URL is of PostgreSQL 14.23, which is too old: move it to 15 or newer with pg_upgrade or pg_dump."
      })
    })
  )
})

describe("DATABASE_URL", () => {
  const parsed = (text: string) => Result.getOrThrow(parseDatabaseUrl(text))

  it.effect("leaves a host five seconds to answer, or two if there are others, unless it says otherwise", () =>
    Effect.gen(function* () {
      const waits = (text: string) =>
        Effect.map(serversIn(text), (servers) => servers.map(({ connectTimeout }) => connectTimeout))
      assert.deepStrictEqual(yield* waits("postgres://a/x"), ["5 seconds"])
      assert.deepStrictEqual(yield* waits("postgres://a,b/x"), ["2 seconds", "2 seconds"])
      assert.deepStrictEqual(yield* waits("postgres://a,b/x?connect_timeout=7"), ["7 seconds", "7 seconds"])
    })
  )

  it.effect("says to the driver where, as whom and how to connect", () =>
    Effect.gen(function* () {
      const [server] = yield* serversIn("postgres://u:p@h:7/d?options=-c%20jit%3Doff")
      const { password, ...rest } = server!
      assert.deepInclude(rest, { host: "h", port: 7, username: "u", database: "d", startupOptions: "-c jit=off" })
      assert.strictEqual(Redacted.value(password as Redacted.Redacted), "p")
    })
  )

  it("names one host or several, each with a port or with the default", () => {
    const hosts = (text: string) => parsed(text).hosts.map(({ host, port }) => `${host} ${port}`)
    assert.deepStrictEqual(hosts("postgres://a/x"), ["a 5432"])
    assert.deepStrictEqual(hosts("postgres://u:p@a:1,b,[fd00::5]:3/x"), ["a 1", "b 5432", "fd00::5 3"])
    assert.deepStrictEqual(hosts("postgres:///x"), ["localhost 5432"])
    assert.deepStrictEqual(hosts("postgres://u@ignored/x?host=%2Frun,b&port=7"), ["/run 7", "b 7"])
    assert.deepStrictEqual(hosts("postgres://u@/x?host=a,b&port=1,2"), ["a 1", "b 2"])
  })

  it("has user, password and database, percent-encoded", () => {
    const { database, password, username } = parsed("postgres://a%40b:p%2F%3A%25,@h/d%20b")
    assert.deepStrictEqual([username, password, database], ["a@b", "p/:%,", "d b"])
  })

  it.each([
    ["", "disable"],
    ["?sslmode=prefer", "prefer"],
    ["?sslmode=require", "verify-full"],
    ["?sslmode=verify-ca&sslrootcert=/ca.pem", "verify-ca"],
    ["?sslrootcert=system", "verify-full"]
  ])("with %s has TLS %s", (query, tls) => {
    assert.strictEqual(parsed(`postgres://h/x${query}`).tls, tls)
  })

  it("refuses a parameter that it does not know by its name, and shows no value", () => {
    assert.deepInclude(parseDatabaseUrl("postgres://u:p@h/x?sslrotcert=/secret"), {
      failure:
        "has the parameter sslrotcert, which the service does not know: it knows host, port, user, password, dbname, connect_timeout, options, sslmode, sslrootcert, sslcert, sslkey, target_session_attrs"
    })
  })
})
