/** The service keeps answering while the database is away, and recovers by itself (decisions.md, Database outages). */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { format } from "../../src/platform/crypto/Tokens.ts"
import { connected, migrateUntilDone } from "../../src/platform/database/Database.ts"
import { longPersistence } from "../../src/platform/database/Persistence.ts"
import { refresh } from "../support/agents/Agent.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { assertRefusal } from "../support/bridges/Codes.ts"
import { type Answer, send } from "../support/network/Http.ts"
import { invariants } from "../support/attacks/Invariants.ts"
import { relay } from "../support/network/Relay.ts"
import { instance, Service } from "../support/service/Service.ts"
import { challenged, fresh } from "../support/bridges/Steps.ts"
import { recording } from "../support/run/Lines.ts"
import { servingAccount, TestDatabase } from "../support/database/TestDatabase.ts"
import { waitingForLock } from "../support/database/Locks.ts"

/** An instance whose database connection can be cut, and what it logs. */
const cuttable = Effect.gen(function* () {
  const address = yield* TestDatabase
  const line = yield* relay({ path: `${address.host}/.s.PGSQL.${address.port}` })
  const { lines, record } = recording()
  const on = yield* record(instance({ SERVICE_LOG_LEVEL: "Info" })).pipe(
    Effect.provideService(TestDatabase, { ...address, host: "127.0.0.1", port: line.port })
  )
  return { line, lines, on }
})

const get = (on: { readonly url: string }, path: string) => send(on.url + path, { method: "GET" })

const isUnavailable = (answer: Answer) => {
  assert.deepStrictEqual([answer.status, answer.code], [503, "bridge_persistence_error"], answer.text)
  assertRefusal(answer)
}

layer(Service.layer)("without its database the service", (it) => {
  it.effect("says so once a second, however many requests it refuses", () =>
    Effect.gen(function* () {
      const { line, lines, on } = yield* cuttable
      const { bridge, challenge } = yield* challenged
      // An earlier test may have caused the same lines: they are forgotten within two seconds.
      yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 2200)))
      yield* line.cut
      yield* Effect.replicateEffect(bridge.prove(on, challenge), 30, { concurrency: 5 })
      const answered = lines.map((text) => JSON.parse(text)).filter(({ message }) => message === "Answered")
      assert.isNotEmpty(answered)
      assert.isBelow(answered.length, 10)
      for (const { annotations } of answered) {
        assert.deepInclude(annotations, { status: 503, code: "bridge_persistence_error" })
        assert.notProperty(annotations, "path")
      }
    })
  )

  it.effect("is alive but not ready", () =>
    Effect.gen(function* () {
      const { line, on } = yield* cuttable
      assert.strictEqual((yield* get(on, "/readyz")).status, 200)
      yield* line.cut
      const alive = yield* get(on, "/healthz")
      assert.deepStrictEqual([alive.status, alive.text], [200, '{"status":"ok"}'])
      yield* TestClock.adjust("1 second")
      isUnavailable(yield* get(on, "/readyz"))
      yield* line.heal
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* get(on, "/readyz")).status, 200)
    })
  )

  it.effect("starts", () =>
    Effect.gen(function* () {
      const address = yield* TestDatabase
      const line = yield* relay({ path: `${address.host}/.s.PGSQL.${address.port}` })
      yield* line.cut
      const relayed = { ...address, host: "127.0.0.1", port: line.port }
      const on = yield* Effect.provideService(instance(), TestDatabase, relayed)
      const bridge = yield* fresh()
      isUnavailable(yield* bridge.askChallenge(on))
      yield* line.heal
      assert.strictEqual((yield* bridge.askChallenge(on)).status, 201)
    })
  )

  it.effect("refuses challenges and proofs, and accepts the same requests afterwards", () =>
    Effect.gen(function* () {
      const { line, on } = yield* cuttable
      const bridge = yield* fresh()
      const { bridge: other, challenge } = yield* challenged
      yield* line.cut
      isUnavailable(yield* bridge.askChallenge(on))
      isUnavailable(yield* other.prove(on, challenge))
      yield* line.heal
      assert.strictEqual((yield* bridge.askChallenge(on)).status, 201)
      assert.strictEqual((yield* other.prove(on, challenge)).status, 200)
    })
  )

  it.effect("refuses while the database is a read-only standby, and accepts the same request once it is writable", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { database } = yield* TestDatabase
      const alter = (setting: string) => sql.unsafe(`alter database ${database} ${setting}`)
      yield* alter("set default_transaction_read_only = on")
      const { line, on } = yield* cuttable
      const { bridge, challenge } = yield* challenged
      isUnavailable(yield* (yield* fresh()).askChallenge(on))
      isUnavailable(yield* bridge.prove(on, challenge))
      yield* alter("reset default_transaction_read_only")
      yield* Effect.andThen(line.cut, line.heal)
      // The server is asked again whether it takes writes, at most a second later.
      const proved = yield* Effect.repeat(bridge.prove(on, challenge), {
        until: ({ status }) => status !== 503,
        schedule: Schedule.spaced("100 millis"),
        times: 50
      }).pipe(TestClock.withLive)
      assert.strictEqual(proved.status, 200)
    })
  )

  it.effect("refuses a client of OAuth in its words, and says when to come again", () =>
    Effect.gen(function* () {
      const { line, on } = yield* cuttable
      yield* line.cut
      const [client_id, refresh_token] = (["sci", "srt"] as const).map((kind) =>
        Redacted.value(format(kind, randomBytes(32)))
      )
      const { body, headers, status } = yield* refresh(on, { client_id: client_id!, refresh_token: refresh_token! })
      assert.deepStrictEqual([status, body.error, headers.get("retry-after")], [503, "temporarily_unavailable", "1"])
    })
  )

  it.effect("still refuses a malformed request with 400", () =>
    Effect.gen(function* () {
      const { line, on } = yield* cuttable
      yield* line.cut
      const answer = yield* send(`${on.url}/bridge/v1/enrollment/proofs`, { key: "k", body: "{" })
      assert.deepStrictEqual([answer.status, answer.code], [400, "invalid_request"])
    })
  )
})

layer(Service.layer)("a transaction that takes too long", (it) => {
  it.effect("is a temporary failure", (context) =>
    Effect.gen(function* () {
      const sql = Context.get((yield* Service).services, SqlClient.SqlClient)
      const [server] = yield* sql<{
        readonly number: number
      }>`select current_setting('server_version_num')::int as number`
      if (server!.number < 170_000) context.skip("PostgreSQL has transaction_timeout since version 17")
      const slow = sql`select pg_sleep(1)`.pipe(Effect.andThen(sql`select 1`))
      const work = Effect.andThen(sql`set local transaction_timeout = '100ms'`, slow)
      const refusal = yield* Effect.flip(longPersistence(sql.withTransaction(work)))
      assert.strictEqual(refusal._tag, "bridge_persistence_error")
    })
  )
})

layer(TestDatabase.emptySql, { excludeTestServices: true })("a migration", (it) => {
  it.effect("starts again when its connection is lost in mid-transaction", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { database, host, port, username } = yield* TestDatabase
      const line = yield* relay({ path: `${host}/.s.PGSQL.${port}` })
      const relayed = connected(
        { host: "127.0.0.1", port: line.port, username, database },
        { pooler: false, poolSize: 1 }
      )
      const locked = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const lock = sql`select pg_advisory_xact_lock(hashtext('bridge-service migrations'))`.pipe(
        Effect.andThen(Deferred.succeed(locked, undefined)),
        Effect.andThen(Deferred.await(release)),
        sql.withTransaction
      )
      yield* Effect.forkChild(lock)
      yield* Deferred.await(locked)
      const migrating = yield* Effect.forkChild(Effect.provide(migrateUntilDone, relayed))
      yield* waitingForLock
      yield* line.cut
      yield* Deferred.succeed(release, undefined)
      yield* line.heal
      yield* Fiber.join(migrating)
    })
  )
})

layer(TestDatabase.sql, { excludeTestServices: true })("a migration that another account has to run", (it) => {
  it.effect("is waited for", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const serving = { ...(yield* TestDatabase), username: servingAccount }
      const [last] = yield* sql<Record<string, unknown>>`
        delete from schema_migration
         where migration_id = (select max(migration_id) from schema_migration)
        returning migration_id, name, checksum`
      const { lines, record } = recording()
      const migrating = Effect.provide(migrateUntilDone, connected(serving, { pooler: false, poolSize: 1 }))
      const waiting = yield* Effect.forkChild(record(migrating))
      yield* Effect.repeat(Effect.sleep("20 millis"), {
        until: () => lines.some((line) => line.includes("Waiting for service-admin migrate")),
        times: 500
      })
      assert.isUndefined(waiting.pollUnsafe())
      yield* sql`insert into schema_migration ${sql.insert(last!)}`
      yield* Fiber.join(waiting)
    })
  )
})

layer(Service.layer)("a database connection that is lost during a request", (it) => {
  it.effect("is answered with 503, leaves nothing half done, and the retry succeeds", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { line, on } = yield* cuttable
      const { bridge, challenge } = yield* challenged
      const locked = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const lock = sql.withTransaction(
        sql`select 1 from bridge_identity where bridge_id = ${bridge.bridge_id} for update`.pipe(
          Effect.andThen(Deferred.succeed(locked, undefined)),
          Effect.andThen(Deferred.await(release))
        )
      )
      const holder = yield* Effect.forkChild(lock)
      yield* Deferred.await(locked)
      const proof = yield* Effect.forkChild(bridge.prove(on, challenge))
      yield* waitingForLock
      yield* line.cut
      isUnavailable(yield* Fiber.join(proof))
      yield* Deferred.succeed(release, undefined)
      yield* Fiber.join(holder)
      yield* line.heal
      assert.strictEqual((yield* bridge.prove(on, challenge)).status, 200)
      yield* invariants
    })
  )

  it.effect("is also a 503 when PostgreSQL ends the session", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const on = yield* instance()
      const bridge = yield* Bridge.make(on)
      const endSessions = sql`
        select pg_terminate_backend(pid)
          from pg_stat_activity
         where datname = current_database()
           and application_name = 'bridge-service'`
      const answers = yield* Effect.all(
        [...Array.from({ length: 8 }, () => bridge.askChallenge(on)), Effect.as(endSessions, undefined)],
        { concurrency: "unbounded" }
      )
      for (const answer of answers) if (answer !== undefined && answer.status !== 201) isUnavailable(answer)
      assert.strictEqual((yield* bridge.askChallenge(on)).status, 201)
    })
  )
})
