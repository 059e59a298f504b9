/** Several processes behind one port (SERVICE_PROCESSES): the parent and its workers. */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlClient } from "effect/sql"
import { Cause, ConfigProvider, Context, Deferred, Effect, Exit, Fiber, Layer, Option, Schedule } from "effect"
import { TestClock } from "effect/testing"
import { spawn } from "node:child_process"
import cluster, { type Worker } from "node:cluster"
import { existsSync, writeFileSync } from "node:fs"
import { EventEmitter, once } from "node:events"
import { Agent, get } from "node:http"
import { type AddressInfo, createServer, type Server } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { setImmediate } from "node:timers/promises"
import { vi } from "vitest"
import { postgresFiles } from "../../src/platform/database/embedded/PostgresFiles.ts"
import { parent, pauseAfter, stop } from "../../src/platform/process/Parent.ts"
import { workersAt } from "../../src/platform/process/PortHolder.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import type { Message } from "../../src/platform/workers/Messages.ts"
import { Workers } from "../../src/platform/workers/Workers.ts"
import { send } from "../support/network/Http.ts"
import { type RawLine, rawLine } from "../support/network/RawLine.ts"
import { isAlive, openFiles, rssMib, workersOf } from "../support/run/Proc.ts"
import { main } from "../support/service/processes/Main.ts"
import { waitingForLock } from "../support/database/Locks.ts"
import { dataFolder, end, temporaryFolder } from "../support/database/PostgresUser.ts"
import { freePort } from "../support/network/FreePort.ts"
import { serviceProcess } from "../support/service/processes/Process.ts"
import { environment, Service } from "../support/service/Service.ts"

/** Waits for as long as the test may take. */
const soon = <A>(read: () => A, isRight: (value: A) => boolean) =>
  Effect.repeat(Effect.sync(read), { until: isRight, schedule: Schedule.spaced("50 millis") })

/** A server of two workers with its metrics. */
const started = Effect.fnUntraced(function* (more: Readonly<Record<string, string>> = {}) {
  const port = String(yield* freePort)
  const server = yield* serviceProcess({ SERVICE_PROCESSES: "2", SERVICE_METRICS_PORT: port, ...more })
  const metrics = Effect.map(send(`http://127.0.0.1:${port}/metrics`, { method: "GET" }), ({ text }) => text)
  const metric = (series: string) =>
    Effect.map(metrics, (text) =>
      Number(
        text
          .split("\n")
          .find((line) => line.startsWith(series))
          ?.split(" ")
          .at(-1)
      )
    )
  return { ...server, metric, workers: () => workersOf(server.pid) }
})
/** That both workers accept together. */
const connections = 60
class Two extends Context.Service<Two, Effect.Success<ReturnType<typeof started>>>()("test/Two") {
  static readonly layer = Layer.effect(Two, started({ SERVICE_CONNECTIONS: String(connections) })).pipe(
    Layer.provideMerge(Service.layer)
  )
}

/** On a connection of its own, which goes to the next worker. */
const health = ({ url }: { readonly url: string }) =>
  send(`${url}/healthz`, { method: "GET", headers: { connection: "close" } })

/** A connection that stays open. */
const lineTo = ({ url }: { readonly url: string }) =>
  Effect.acquireRelease(
    Effect.sync(() => rawLine(url, 5_000)),
    (line) => Effect.sync(() => line.close())
  )

/** The answers on it: none if the server closes it, undefined if nothing comes. */
const ask = (line: RawLine, path: string, headers = "") =>
  Effect.promise(() => line.send(Buffer.from(`GET ${path} HTTP/1.1\r\nhost: x\r\n${headers}\r\n`), [false]))

const opened = (two: { readonly url: string }) => Effect.flatMap(lineTo(two), (line) => ask(line, "/healthz"))

const answered = 'service_http_requests_total{method="GET",route="/healthz",status="200"}'

layer(Two.layer, { timeout: "60 seconds", excludeTestServices: true })("two workers", (it) => {
  it.effect("are announced by one line, once both serve", () =>
    Effect.gen(function* () {
      const { lines, url, workers } = yield* Two
      const [ready, ...more] = lines.filter((line) => line.includes('"Ready"'))
      assert.deepStrictEqual(more, [])
      const { host } = new URL(url)
      for (const [name, value] of Object.entries({ base_url: url, listening: host, database: "DATABASE_URL" }))
        assert.include(ready, `"${name}":"${value}"`)
      assert.include(ready, '"processes":2')
      assert.deepStrictEqual(
        workers().map(({ number }) => number),
        [1, 2]
      )
    })
  )

  it.effect("are what doctor and status find at the port", () =>
    Effect.gen(function* () {
      const { url, workers } = yield* Two
      // A worker of another parent.
      yield* Effect.acquireRelease(
        Effect.sync(() => spawn("sh", ["-c", "read line", "--worker=9"], { stdio: ["pipe", "ignore", "ignore"] })),
        (other) => Effect.sync(() => other.kill())
      )
      const found = workersAt(Number(new URL(url).port))
      assert.deepStrictEqual(
        found.map(({ pid, worker }) => ({ pid, number: worker })),
        workers()
      )
      for (const { age, memory_bytes, pid } of found) {
        assert.approximately(memory_bytes / 2 ** 20, rssMib(pid), 50)
        assert.approximately(age, 0, 600)
      }
    })
  )

  it.effect("are counted together by /metrics, whichever answers", () =>
    Effect.gen(function* () {
      const two = yield* Two
      yield* Effect.replicateEffect(health(two), 6)
      assert.deepStrictEqual([yield* two.metric(answered), yield* two.metric(answered)], [6, 6])
      assert.strictEqual(yield* two.metric("service_workers"), 2)
    })
  )

  it.effect("close a new connection at once when SERVICE_CONNECTIONS are open", () =>
    Effect.gen(function* () {
      const two = yield* Two
      const answers = yield* Effect.repeat(opened(two), { while: (some) => some?.length === 1, times: connections })
      assert.deepStrictEqual(answers, [])
    })
  )

  it.effect("work in the background at one of them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // Whoever links audit rows keeps a connection for it.
      const linking = Effect.map(
        sql`
          select pid
            from pg_stat_activity
           where datname = current_database()
             and application_name = 'bridge-service maintenance'`,
        (sessions) => sessions.length
      )
      yield* Effect.repeat(linking, { until: (count) => count > 0 })
      assert.strictEqual(yield* linking, 1)
    })
  )

  it.effect("lose no count when one is killed, and the other serves until it is restarted", () =>
    Effect.gen(function* () {
      const two = yield* Two
      const before = yield* two.metric(answered)
      const [, second] = two.workers()
      process.kill(second!.pid, "SIGKILL")
      yield* soon(
        () => isAlive(second!.pid),
        (alive) => !alive
      )
      assert.strictEqual((yield* health(two)).status, 200)
      yield* Effect.repeat(two.metric("service_workers"), { until: (count) => count === 2 })
      assert.strictEqual(yield* two.metric("service_worker_restarts_total"), 1)
      assert.strictEqual(yield* two.metric(answered), before + 1)
      // The one that was killed holds no memory.
      const held = (yield* two.metric("process_resident_memory_bytes")) / 2 ** 20
      assert.isBelow(held, 60 + two.workers().reduce((sum, { pid }) => sum + rssMib(pid), 0))
      assert.isTrue(two.lines.some((line) => line.includes("A worker ended and is restarted")))
    })
  )

  it.effect("leave no client waiting whose connection was on its way to a worker that was killed", () =>
    Effect.gen(function* () {
      const two = yield* Two
      const [first, second] = two.workers().map(({ pid }) => pid)
      const before = openFiles(two.pid)
      for (const pid of [first!, second!]) process.kill(pid, "SIGSTOP")
      // One of them goes to each worker.
      const asked = yield* Effect.forkChild(
        Effect.all(
          [health(two), health(two)].map((one) => Effect.exit(Effect.timeout(one, "20 seconds"))),
          {
            concurrency: 2
          }
        )
      )
      yield* soon(
        () => openFiles(two.pid),
        (count) => count >= before + 2
      )
      process.kill(second!, "SIGKILL")
      process.kill(first!, "SIGCONT")
      const outcomes = yield* Fiber.join(asked)
      assert.isFalse(
        outcomes.some((exit) => Exit.isFailure(exit) && Cause.hasFails(exit.cause)),
        "no client waits until its own limit"
      )
      yield* Effect.repeat(two.metric("service_workers"), { until: (count) => count === 2 })
    })
  )

  it.effect("are replaced one after the other on SIGHUP, once the next has migrated, and no request fails", () =>
    Effect.gen(function* () {
      const two = yield* Two
      const sql = yield* SqlClient.SqlClient
      const before = two.workers().map(({ pid }) => pid)
      const counted = yield* two.metric(answered)
      let requests = 0
      const client = Effect.scoped(
        Effect.gen(function* () {
          const agent = yield* Effect.acquireRelease(
            Effect.sync(() => new Agent({ keepAlive: true, maxSockets: 1 })),
            (agent) => Effect.sync(() => agent.destroy())
          )
          const one = Effect.andThen(
            kept(two.url, agent),
            Effect.sync(() => requests++)
          )
          return yield* Effect.forever(Effect.andThen(one, Effect.sleep("5 millis")))
        })
      )
      const load = yield* Effect.forkChild(Effect.all([client, client, client], { concurrency: 3 }))
      const locked = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const lock = sql`lock table schema_migration in access exclusive mode`.pipe(
        Effect.andThen(Deferred.succeed(locked, undefined)),
        Effect.andThen(Deferred.await(release)),
        sql.withTransaction
      )
      yield* Effect.forkChild(lock)
      yield* Deferred.await(locked)
      two.signal("SIGHUP")
      yield* waitingForLock
      const next = two.workers().find(({ pid }) => !before.includes(pid))!
      const files = openFiles(next.pid)
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Effect.replicateEffect(opened(two), 45)
          // A third of them would be more than it opens to the database.
          assert.isBelow(openFiles(next.pid), files + 8, "no connection goes to the replacement")
        })
      )
      yield* Deferred.succeed(release, undefined)
      yield* soon(
        () => two.lines.some((line) => line.includes("All workers were replaced")),
        (replaced) => replaced
      )
      assert.isUndefined(load.pollUnsafe(), "no request failed")
      yield* Fiber.interrupt(load)
      assert.isAtLeast(yield* two.metric(answered), counted + requests)
      const after = two.workers()
      assert.deepStrictEqual(
        after.map(({ number }) => number),
        [1, 2]
      )
      assert.isFalse(after.some(({ pid }) => before.includes(pid)))
    })
  )
})

/** A request on a connection that the client keeps. */
const kept = (url: string, agent: Agent) =>
  Effect.callback<void, string>((resume) => {
    get(`${url}/healthz`, { agent }, (response) => {
      response.resume()
      response.once("end", () =>
        resume(response.statusCode === 200 ? Effect.void : Effect.fail(`status ${response.statusCode}`))
      )
    }).once("error", ({ message }) => resume(Effect.fail(message)))
  })

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("several processes", (it) => {
  it.effect("grant together what one process grants", () =>
    Effect.gen(function* () {
      const server = yield* started({ SERVICE_RATE_LIMITS: "on" })
      // Of two connections, opened one after the other, each worker has one. However much slower one of them is, each is asked
      // for more than its share: of new connections, a worker that gets no processor takes next to none.
      const lines = yield* Effect.replicateEffect(
        Effect.tap(lineTo(server), (line) => ask(line, "/healthz")),
        2
      )
      const since = performance.now()
      const statuses = yield* Effect.forEach(
        lines,
        (line, which) =>
          Effect.forEach(Array.from({ length: 150 }), (_, at) =>
            Effect.map(
              ask(
                line,
                "/bridge/v1/tokens/self",
                `authorization: Bearer brt_${String(150 * which + at).padStart(43, "x")}\r\n`
              ),
              (answers) => answers?.[0]?.status
            )
          ),
        { concurrency: 2 }
      )
      const admitted = statuses.flat().filter((status) => status !== 429).length
      const granted = 200 + Math.ceil((20 * (performance.now() - since)) / 1000)
      assert.isAtMost(admitted, granted)
      assert.isAtLeast(admitted, 200)
    })
  )
})

/** Workers that only talk (service/processes/WorkersMain.ts). */
class Talking extends Context.Service<Talking, Effect.Success<typeof talking>>()("test/Talking") {
  static readonly layer = Layer.effect(
    Talking,
    Effect.suspend(() => talking)
  )
}

const talking = Effect.gen(function* () {
  const failing = join(yield* temporaryFolder, "failing")
  const { NODE_COMPILE_CACHE, PATH } = process.env
  const env = { ...environment, NODE_COMPILE_CACHE, PATH, SERVICE_PROCESSES: "2", FAILING: failing }
  const program = join(import.meta.dirname, "../support/service/processes/WorkersMain.ts")
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, ["--max-old-space-size=1200", program], { env, stdio: ["ignore", "pipe", "inherit"] })
    ),
    (running) => end(running, "SIGTERM")
  )
  const lines: Array<string> = []
  createInterface(child.stdout).on("line", (line) => lines.push(line))
  const said = (...all: ReadonlyArray<string>) =>
    soon(
      () => lines,
      (some) => all.every((one) => some.some((line) => line.includes(one)))
    )
  yield* said('"Ready"')
  return { child, failing, lines, said, workers: () => workersOf(child.pid!) }
})

layer(Talking.layer, { excludeTestServices: true })("several processes", (it) => {
  it.effect("wake the first one, and hear from it and from all, also when another one takes its place", () =>
    Effect.gen(function* () {
      const { lines, said, workers } = yield* Talking
      const first = () => workers().find(({ number }) => number === 1)
      const { pid } = first()!
      // They share the heap of one.
      yield* said(`begins ${pid} 600 MiB`, `woken 1 ${pid}`, "samples of 1", "load of 1,2")
      process.kill(pid, "SIGKILL")
      const next = yield* soon(first, (found) => found !== undefined && found.pid !== pid)
      yield* said(`replaces ${next!.pid} 600 MiB`)
      lines.length = 0
      yield* said(`woken 1 ${next!.pid}`, "samples of 1", "load of 1,2")
      assert.isFalse(lines.some((line) => line.startsWith("woken 2")))
    })
  )

  it.effect("keep their workers when the next ones fail, and end once none serves and no restart helps", () =>
    Effect.gen(function* () {
      const { child, failing, lines, said, workers } = yield* Talking
      const pids = workers().map(({ pid }) => pid)
      writeFileSync(failing, "78")
      child.kill("SIGHUP")
      yield* said("The replacement of a worker did not serve")
      assert.deepStrictEqual(
        workers().map(({ pid }) => pid),
        pids
      )
      process.kill(pids[1]!, "SIGKILL")
      // It is tried again while the other one serves.
      yield* said('"ended_with":78,"pause_ms":200')
      process.kill(pids[0]!, "SIGKILL")
      yield* soon(
        () => child.exitCode,
        (code) => code !== null
      )
      assert.strictEqual(child.exitCode, 78)
      for (const sentence of ["All workers were replaced", '"Stopped"'])
        assert.isFalse(lines.some((line) => line.includes(sentence)))
    })
  )
})

/** A worker that is no process: it keeps what it hears, and a signal ends it. */
class Pretended extends EventEmitter {
  readonly heard: Array<Message> = []
  readonly signals: Array<string> = []
  readonly process = {
    pid: 1,
    send: () => true,
    kill: (signal: string) => {
      this.signals.push(signal)
      this.emit("exit", null, signal)
    }
  }
  readonly isConnected = () => this.signals.length === 0
  readonly send = (message: Message) => void this.heard.push(message)
  readonly says = (message: Message) => void this.emit("message", message)
}

/** What was resumed or forked comes to a rest. */
const settled = Effect.promise(async () => {
  for (let turns = 0; turns < 100; turns++) await setImmediate()
})

/** The workers of a parent, in the order of their start; both of the first ones serve. */
const pretended = Effect.gen(function* () {
  const workers: Array<Pretended> = []
  const fork = vi.spyOn(cluster, "fork").mockImplementation(() => {
    const worker = new Pretended()
    workers.push(worker)
    return worker as unknown as Worker
  })
  const setupPrimary = vi.spyOn(cluster, "setupPrimary").mockReturnValue(undefined)
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const spy of [fork, setupPrimary]) spy.mockRestore()
      process.removeAllListeners("SIGHUP")
    })
  )
  const provider = ConfigProvider.fromUnknown({ ...environment, SERVICE_PROCESSES: "2" })
  const settings = Settings.layer.pipe(Layer.provide(ConfigProvider.layer(provider)))
  yield* Effect.forkScoped(Effect.provide(parent("worker.ts"), settings))
  yield* settled
  for (const worker of workers) worker.says({ say: "ready" })
  yield* settled
  return workers
})

describe("several processes", () => {
  it("restart a worker after 100 ms, then after twice the time, at most 30 s; after a minute's life as at first", () => {
    const pauses = [0, 100, 200, 20_000, 30_000].map((before) => pauseAfter(60_000, before))
    assert.deepStrictEqual(pauses, [100, 200, 400, 30_000, 30_000])
    assert.strictEqual(pauseAfter(60_001, 30_000), 100)
  })

  it.effect("kill a worker that has not stopped after 18 seconds", () =>
    Effect.gen(function* () {
      const sent: Array<string> = []
      const ended = Deferred.makeUnsafe<{ readonly code: null; readonly signal: string }>()
      const kill = (signal: string) => {
        sent.push(signal)
        Deferred.doneUnsafe(ended, Effect.succeed({ code: null, signal }))
      }
      const member = { ended, worker: { process: { kill } } } as unknown as Parameters<typeof stop>[0]
      const stopping = yield* Effect.forkChild(stop(member, () => sent.push("stop, please")))
      yield* TestClock.adjust("17 seconds")
      assert.deepStrictEqual(sent, ["stop, please"])
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(sent, ["stop, please", "SIGKILL"])
    })
  )

  it.effect("wait a second for the answer of a worker that is too busy, and answer without it", () =>
    Effect.gen(function* () {
      const [silent, asking] = yield* pretended
      asking!.says({ say: "ask", id: 7, question: "samples", of: "all" })
      yield* settled
      const asked = asking!.heard.find(({ say }) => say === "ask") as Extract<Message, { readonly say: "ask" }>
      asking!.says({ say: "answer", id: asked.id, value: "of 2" })
      yield* TestClock.adjust("999 millis")
      assert.strictEqual(silent!.heard.at(-1)!.say, "ask")
      assert.strictEqual(asking!.heard.at(-1)!.say, "ask")
      yield* TestClock.adjust("1 millis")
      yield* settled
      assert.deepStrictEqual(asking!.heard.at(-1), { say: "answer", id: 7, value: ["of 2"] })
    })
  )

  it.effect("go on without the answers of the others if their parent is silent for a second and a half", () =>
    Effect.gen(function* () {
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          const send = vi.spyOn(process, "send").mockImplementation((...given: ReadonlyArray<unknown>) => {
            ;(given[3] as () => void)()
            return true
          })
          Object.assign(cluster, { isWorker: true })
          return send
        }),
        (send) =>
          Effect.sync(() => {
            Object.assign(cluster, { isWorker: false })
            send.mockRestore()
          })
      )
      const { askAll, askFirst } = Context.get(yield* Layer.build(Layer.fresh(Workers.layer)), Workers)
      const asking = yield* Effect.forkChild(
        Effect.all([askAll("samples"), askFirst("samples")], { concurrency: "unbounded" }),
        { startImmediately: true }
      )
      yield* TestClock.adjust("1499 millis")
      assert.isUndefined(asking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* Fiber.join(asking), [[], Option.none()])
    })
  )

  it.effect("give a replacement a minute to serve, and the previous one time to stop after it", () =>
    Effect.gen(function* () {
      const workers = yield* pretended
      process.emit("SIGHUP", "SIGHUP")
      yield* settled
      assert.strictEqual(workers.length, 3)
      yield* TestClock.adjust("59 seconds")
      assert.deepStrictEqual(workers[2]!.signals, [])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(
        workers.map(({ signals }) => signals),
        [[], [], ["SIGKILL"]]
      )
      process.emit("SIGHUP", "SIGHUP")
      yield* settled
      yield* TestClock.adjust("59 seconds")
      workers[3]!.says({ say: "ready" })
      yield* settled
      assert.deepStrictEqual(workers[0]!.heard.at(-1), { say: "retire" })
      yield* TestClock.adjust("17999 millis")
      assert.deepStrictEqual(workers[0]!.signals, [])
      yield* TestClock.adjust("1 millis")
      yield* settled
      assert.deepStrictEqual(workers[0]!.signals, ["SIGKILL"])
      // The place of the other one is next.
      assert.strictEqual(workers.length, 5)
    })
  )

  it.live.each([
    ["78, if a setting is wrong", { SERVICE_BRIDGE_TOKEN_SECRET: "short" }, 78, "needs at least 32 bytes"],
    [
      "78, if no worker can ever start",
      { SERVICE_PORT: "0", SERVICE_DATABASE_OWNER_URL: "postgres://a@b/c" },
      78,
      "is for commands"
    ],
    ["1, if the port is taken", {}, 1, "or set SERVICE_PORT"]
  ] as const)("end with %s", ([, settings, code, sentence]) =>
    Effect.gen(function* () {
      const taken = yield* Effect.acquireRelease(
        Effect.callback<Server>((resume) => {
          const server = createServer().listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close())
      )
      const { port } = taken.address() as AddressInfo
      const env = {
        ...environment,
        PATH: process.env["PATH"],
        DATABASE_URL: "postgres://nobody@127.0.0.1:1/none",
        SERVICE_PROCESSES: "2",
        SERVICE_PORT: String(port),
        ...settings
      }
      const child = spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "ignore"] })
      const [output, [ended]] = yield* Effect.promise(() => Promise.all([text(child.stdout), once(child, "exit")]))
      assert.include(output, sentence)
      assert.notInclude(output, '"Stopped"')
      assert.strictEqual(ended, code)
    }).pipe(Effect.scoped)
  )

  it.live("leave neither a worker nor PostgreSQL when the parent is killed", () =>
    Effect.gen(function* () {
      const data = yield* dataFolder()
      const env = { PATH: process.env["PATH"], SERVICE_DATA_DIR: data, SERVICE_PORT: "0", SERVICE_PROCESSES: "2" }
      const child = yield* Effect.acquireRelease(
        Effect.sync(() => spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "inherit"] })),
        (running) => end(running, "SIGTERM")
      )
      yield* Effect.callback<void>((resume) => {
        createInterface(child.stdout).on("line", (line) => line.includes('"Ready"') && resume(Effect.void))
      })
      const { directory } = yield* postgresFiles(data)
      const workers = workersOf(child.pid!)
      assert.strictEqual(workers.length, 2)
      yield* end(child, "SIGKILL")
      const left = () => [...workers.map(({ pid }) => isAlive(pid)), existsSync(join(directory, "postmaster.pid"))]
      assert.deepStrictEqual(yield* soon(left, (some) => !some.includes(true)), [false, false, false])
    })
  )
})
