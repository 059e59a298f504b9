/** The server as a process: slow and broken connections, and a graceful stop. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { postgresFiles } from "../../src/platform/database/embedded/PostgresFiles.ts"
import { signIn } from "../support/agents/Agent.ts"
import { send } from "../support/network/Http.ts"
import { freePort } from "../support/network/FreePort.ts"
import { serviceProcess } from "../support/service/processes/Process.ts"
import { dataFolder, end } from "../support/database/PostgresUser.ts"
import { exchange } from "../support/network/Raw.ts"
import { rawLine } from "../support/network/RawLine.ts"
import { instance, Service } from "../support/service/Service.ts"
import { fresh } from "../support/bridges/Steps.ts"
import { main } from "../support/service/processes/Main.ts"
import { noLockWaits, waitingForLock } from "../support/database/Locks.ts"

layer(Service.layer, { timeout: "60 seconds" })("the server", (it) => {
  it.effect("closes a new connection at once when SERVICE_CONNECTIONS are open", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_CONNECTIONS: "2" })
      const health = Buffer.from("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
      const checked = Effect.promise(async () => {
        const connection = rawLine(url)
        const responses = await connection.send(health, [false])
        return { close: connection.close, status: responses?.[0]?.status }
      })
      const [one, two, three] = [yield* checked, yield* checked, yield* checked]
      assert.deepStrictEqual([one.status, two.status, three.status], [200, 200, undefined])
      one.close()
      const next = yield* Effect.repeat(checked, { until: ({ status }) => status === 200 })
      two.close()
      next.close()
    })
  )

  it.effect("answers malformed HTTP with 400 and closes the connection", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const bad = [
        "GARBAGE\r\n\r\n",
        "POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: x\r\nfolded: a\r\n b\r\nx\0y: z\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n"
      ]
      for (const bytes of bad) assert.match(yield* exchange(url, bytes), /^HTTP\/1\.1 400 /)
    })
  )

  it.effect("refuses headers of more than 16 KiB", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const bytes = `GET /healthz HTTP/1.1\r\nhost: x\r\nlong: ${"x".repeat(20_000)}\r\n\r\n`
      assert.match(yield* exchange(url, bytes), /^HTTP\/1\.1 431 /)
    })
  )
})

// Each waits for seconds, and both wait together. The child process runs on real time, so these tests do, too.
layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("a server", (it) => {
  it.effect(
    "closes the connection of a client that does not finish its headers in 5 seconds",
    () =>
      Effect.gen(function* () {
        const { url } = yield* Service
        const started = performance.now()
        const answer = yield* exchange(url, "GET /healthz HTTP/1.1\r\nhost: x\r\nslow: ")
        assert.match(answer, /^HTTP\/1\.1 408 /)
        // Without the setting, Node waits for a minute.
        assert.isAbove(performance.now() - started, 4000)
        assert.isBelow(performance.now() - started, 30_000)
      }),
    { concurrent: true }
  )

  it.effect(
    "whose database goes silent says that it is not ready before it gives up a request that is under way",
    () =>
      Effect.gen(function* () {
        const { line, url } = yield* serviceProcess({ SERVICE_DATABASE_POOL: "2" })
        const ready = send(`${url}/readyz`, { method: "GET" })
        assert.strictEqual((yield* ready).status, 200)
        const bridge = yield* fresh()
        yield* line.blackhole
        // The answer to the last look is a second old then.
        yield* Effect.sleep("1 second")
        const challenge = yield* Effect.forkChild(bridge.askChallenge({ url }))
        assert.strictEqual((yield* ready).status, 503)
        assert.isUndefined(challenge.pollUnsafe())
        assert.strictEqual((yield* Fiber.join(challenge)).status, 503)
      }),
    { concurrent: true }
  )
})

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("a server that starts", (it) => {
  it.effect("warns of secrets that are easy to guess, by their settings, and of sign-ins for another base URL", () =>
    Effect.gen(function* () {
      yield* signIn(yield* Service)
      const secret = "enrolenrolenrolenrolenrolenrolenrol-1234567890"
      const { lines } = yield* serviceProcess({ SERVICE_BRIDGE_TOKEN_SECRET: secret })
      const warning = lines.find((line) => line.includes("Secrets are easy to guess"))!
      assert.include(warning, '"SERVICE_BRIDGE_TOKEN_SECRET"')
      assert.notInclude(lines.join(), "enrolenrol")
      const foreign = lines.find((line) => line.includes("Sign-ins made for another base URL"))!
      assert.include(foreign, '"grants":1')
    })
  )

  it.effect("keeps trying when the database refuses its first statement", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const release = yield* Deferred.make<void>()
      const locked = yield* Deferred.make<void>()
      const lock = sql`lock table oauth_grant in access exclusive mode`.pipe(
        Effect.andThen(Deferred.succeed(locked, undefined)),
        Effect.andThen(Deferred.await(release)),
        sql.withTransaction
      )
      yield* Effect.forkChild(lock)
      yield* Deferred.await(locked)
      const starting = yield* Effect.forkChild(serviceProcess())
      // The server waits for the lock, gives up, and waits again.
      yield* waitingForLock
      yield* noLockWaits
      yield* waitingForLock
      yield* Deferred.succeed(release, undefined)
      const { url } = yield* Fiber.join(starting)
      assert.strictEqual((yield* send(`${url}/readyz`, { method: "GET" })).status, 200)
    })
  )
})

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })(
  "a server whose log output is closed",
  (it) => {
    it.effect("keeps serving", () =>
      Effect.gen(function* () {
        const { closeOutput, url } = yield* serviceProcess({ SERVICE_LOG_LEVEL: "Debug" })
        yield* closeOutput
        const health = send(`${url}/healthz`, { method: "GET" })
        for (let n = 0; n < 20; n++) assert.strictEqual((yield* health).status, 200)
      })
    )
  }
)

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("a server that receives", (it) => {
  it.effect.each([
    ["SIGTERM", "1"],
    ["SIGHUP", "1"],
    ["SIGQUIT", "1"],
    ["SIGQUIT", "2"]
  ] as const)(
    "%s with %s processes finishes the requests in flight, refuses new ones, says so, and exits with 0",
    ([signal, processes]) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const server = yield* serviceProcess({ SERVICE_PROCESSES: processes })
        const bridge = yield* fresh()
        const challenge = yield* bridge.askChallenge(server)
        assert.strictEqual(challenge.status, 201, challenge.text)

        const release = yield* Deferred.make<void>()
        const locked = yield* Deferred.make<void>()
        const lock = sql`select 1 from bridge_identity where bridge_id = ${bridge.bridge_id} for update`.pipe(
          Effect.andThen(Deferred.succeed(locked, undefined)),
          Effect.andThen(Deferred.await(release)),
          sql.withTransaction
        )
        const holder = yield* Effect.forkChild(lock)
        yield* Deferred.await(locked)
        const proof = yield* Effect.forkChild(bridge.prove(server, challenge))
        yield* waitingForLock
        server.signal(signal)
        // A connection that comes while the workers close is neither served nor refused.
        const answered = send(`${server.url}/healthz`, { method: "GET", headers: { connection: "close" } }).pipe(
          Effect.timeoutOption("200 millis"),
          Effect.exit
        )
        yield* Effect.repeat(answered, { until: (exit) => exit._tag === "Failure" })
        yield* Deferred.succeed(release, undefined)
        yield* Fiber.join(holder)
        const answer = yield* Fiber.join(proof)
        assert.strictEqual(answer.status, 200, answer.text)
        const since = performance.now()
        assert.strictEqual(yield* server.exit, 0)
        // The client keeps its connection open; the server does not wait for it to close.
        assert.isBelow(performance.now() - since, 5000)
        const said = server.lines.filter((line) => line.includes('"message":"Stop'))
        assert.match(said.join("\n"), /^.*Stopping: requests .*\n.*"Stopped".*$/)
        assert.strictEqual(server.lines.at(-1), said.at(-1))
      })
  )

  it.effect("SIGUSR1 opens no debugger and goes on", () =>
    Effect.gen(function* () {
      const port = yield* freePort
      const server = yield* serviceProcess({ NODE_OPTIONS: `--inspect-port=${port}` })
      server.signal("SIGUSR1")
      yield* Effect.sleep("500 millis")
      assert.strictEqual((yield* send(`${server.url}/readyz`, { method: "GET" })).status, 200)
      const debug = yield* Effect.exit(send(`http://127.0.0.1:${port}/json`, { method: "GET" }))
      assert.strictEqual(debug._tag, "Failure")
      assert.deepStrictEqual(
        server.lines.filter((line) => line.includes("Debugger")),
        []
      )
    })
  )
})

/** A server that is ready, and the file that exists while its PostgreSQL runs. */
const withEmbeddedDatabase = Effect.gen(function* () {
  const data = yield* dataFolder()
  const env = { PATH: process.env["PATH"], SERVICE_DATA_DIR: data, SERVICE_PORT: "0" }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "inherit"] })),
    (running) => end(running, "SIGTERM")
  )
  yield* Effect.callback<void>((resume) => {
    createInterface(child.stdout).on("line", (line) => line.includes('"Ready"') && resume(Effect.void))
  })
  const { directory } = yield* postgresFiles(data)
  return { child, pidFile: join(directory, "postmaster.pid") }
})

describe.concurrent("a first start with the embedded database", () => {
  it.live.each(["SERVICE_PORT", "SERVICE_METRICS_PORT"])("leaves nothing behind if %s is taken", (setting) =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      const taken = createServer().listen(0, "127.0.0.1")
      yield* Effect.addFinalizer(() => Effect.sync(() => taken.close()))
      yield* Effect.promise(() => once(taken, "listening"))
      const { port } = taken.address() as AddressInfo
      const env = { PATH: process.env["PATH"], SERVICE_DATA_DIR: data, SERVICE_PORT: "0", [setting]: String(port) }
      const child = spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "inherit"] })
      const [output, [code]] = yield* Effect.promise(() => Promise.all([text(child.stdout), once(child, "exit")]))
      assert.include(output, "Cannot listen")
      assert.strictEqual(code, 1)
      assert.isFalse(existsSync(data))
    })
  )
})

describe.concurrent("a server with the embedded database", () => {
  it.live.each(["SIGHUP", "SIGQUIT"] as const)("stops PostgreSQL on %s", (signal) =>
    Effect.gen(function* () {
      const { child, pidFile } = yield* withEmbeddedDatabase
      assert.isTrue(existsSync(pidFile))
      yield* end(child, signal)
      assert.strictEqual(child.exitCode, 0)
      assert.isFalse(existsSync(pidFile))
    })
  )
})
