/**
 * What the chaos scripts share: servers that can be killed, on one embedded PostgreSQL that syncs every commit; a balancer
 * in front of them; a journal of what was sent and what was acknowledged; and one line of figures at the end.
 *
 *     npm run chaos replicas          SEED=7 npm run chaos replicas          SLICE=1 npm run chaos replicas
 */
import {
  Cause,
  ConfigProvider,
  Context,
  Data,
  type Duration,
  Effect,
  Layer,
  Redacted,
  Schedule,
  type Scope
} from "effect"
import {
  FetchHttpClient,
  HttpClient,
  type HttpClientError,
  type HttpClientRequest,
  type HttpClientResponse
} from "effect/http"
import { SqlClient } from "effect/sql"
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { connect, createServer, type AddressInfo, type Socket } from "node:net"
import { loadavg, tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { getCACertificates, setDefaultCACertificates } from "node:tls"
import { promisify } from "node:util"
import { services } from "../../../src/App.ts"
import { Bridge } from "../../../src/client/bridge/Bridge.ts"
import { Client } from "../../../src/client/bridge/Client.ts"
import { Journal } from "../../../src/client/bridge/Journal.ts"
import { freePort } from "../../support/network/FreePort.ts"
import { throwAwayCertificate } from "../../support/phones/ThrowAwayCertificate.ts"
import { workersOf } from "../../support/run/Proc.ts"
import { compileCache, packageRoot as root } from "../../support/run/Root.ts"
import { main } from "../../support/service/processes/Main.ts"

export { freePort }

export class ChaosError extends Data.TaggedError("ChaosError")<{ readonly message: string }> {}

/** The same SEED gives the same faults, as far as the machine's timing allows. */
export const seed = Number(process.env["SEED"] ?? 1)
let drawn = seed >>> 0
/** A number from 0 to 1 (mulberry32). */
export const draw = () => {
  drawn = (drawn + 0x6d2b79f5) >>> 0
  let mixed = Math.imul(drawn ^ (drawn >>> 15), 1 | drawn)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

/** Whether this is the slice for the test command (SLICE=1). A slice shares the machine, so its times are not judged. */
export const sliced = process.env["SLICE"] !== undefined

/** The size of something: in full, or in the slice. */
export const size = (full: number, slice: number) => (sliced ? slice : full)

export interface Server {
  readonly url: string
  readonly port: number
  readonly pid: () => number
  /** The lines of stdout and stderr. */
  readonly output: ReadonlyArray<string>
  /** kill -9. */
  readonly kill: Effect.Effect<void>
  /** kill -9 and restart; returns the milliseconds from start to ready. */
  readonly killAndRestart: Effect.Effect<number, ChaosError>
  /**
   * The same; of a server with SERVICE_PROCESSES the whole or a worker, until another has its place. Which is left to chance,
   * unless a worker's number is given.
   */
  readonly killSome: (worker?: number) => Effect.Effect<number, ChaosError>
  /** SIGTERM; returns the milliseconds until the process ended, and its exit code. */
  readonly stop: Effect.Effect<{ readonly millis: number; readonly code: number | null }>
  /** With the current environment. */
  readonly start: Effect.Effect<number, ChaosError>
}

/** A folder that is deleted after the run. */
export const scratch = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = fs.mkdtempSync(join(tmpdir(), "bridge-chaos-"))
    // PostgreSQL's account must be able to enter it.
    fs.chmodSync(folder, 0o711)
    return folder
  }),
  (folder) =>
    Effect.sync(() => {
      const location = join(folder, "data", "location")
      if (fs.existsSync(location))
        fs.rmSync(dirname(fs.readFileSync(location, "utf8").trim()), { recursive: true, force: true })
      fs.rmSync(folder, { recursive: true, force: true })
    })
)

/** In a slice a data folder begins as a copy of one whose service has started before, unless it is there already. */
export const beginData = (folder: string) =>
  Effect.sync(() => {
    const [data, begun] = [join(folder, "data"), process.env["SLICE_DATA"]]
    if (begun !== undefined && !fs.existsSync(data)) execFileSync("cp", ["-a", begun, data])
  })

/** The environment of servers and commands. */
export const environment = (folder: string, port: number, settings: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => {
  const { DATABASE_URL: _, ...rest } = process.env
  return {
    // Servers start often: only the first one compiles.
    NODE_COMPILE_CACHE: compileCache,
    ...rest,
    SERVICE_DATA_DIR: join(folder, "data"),
    SERVICE_HOST: "127.0.0.1",
    SERVICE_PORT: String(port),
    SERVICE_BASE_URL: `http://127.0.0.1:${port}`,
    SERVICE_LOG_LEVEL: "Error",
    SERVICE_RATE_LIMITS: "off",
    ...settings
  }
}

/** The last output of servers that exited by themselves. The first such exit ends the script. */
const unexpectedExits: Array<string> = []
const unexpectedExit = Effect.repeat(Effect.sleep("50 millis"), { until: () => unexpectedExits.length > 0 })

/** What the script is waiting for, or was waiting for when it timed out. */
const waitingFor = new Set<string>()
export const awaiting = <A, E, R>(what: string, wait: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    waitingFor.add(what)
    return Effect.tap(wait, () => Effect.sync(() => waitingFor.delete(what)))
  })
export const until = (what: string, condition: () => boolean) =>
  awaiting(what, Effect.repeat(Effect.sleep("10 millis"), { until: condition }))

/** One process of the service, of the release in that folder; replicas share the folder of the data. */
export const server = Effect.fnUntraced(function* (folder: string, settings: NodeJS.ProcessEnv = {}, release?: string) {
  yield* beginData(folder)
  const port = yield* freePort
  const url = `http://127.0.0.1:${port}`
  const output: Array<string> = []
  let child: ChildProcess | undefined
  const start = Effect.gen(function* () {
    const from = performance.now()
    const program = release === undefined ? main : join(release, "src/main.ts")
    const started = spawn(process.execPath, [program], {
      env: environment(folder, port, settings),
      stdio: ["ignore", "pipe", "pipe"]
    })
    child = started
    started.once("exit", (code, signal) => {
      if (!started.killed)
        unexpectedExits.push([`A server ended by itself: ${code ?? signal}`, ...output.slice(-9)].join("\n"))
    })
    for (const stream of [started.stdout, started.stderr])
      createInterface(stream).on("line", (line) => output.push(line))
    yield* ready(url, started)
    return Math.round(performance.now() - from)
  })
  // A server that does not become ready must be stopped too.
  yield* Effect.addFinalizer(() => Effect.promise(() => end(child, "SIGTERM")))
  yield* start
  const kill = Effect.promise(() => end(child, "SIGKILL"))
  const killAndRestart = Effect.andThen(kill, start)
  const killWorker = Effect.fnUntraced(function* ({ number, pid }: ReturnType<typeof workersOf>[number]) {
    const from = performance.now()
    process.kill(pid, "SIGKILL")
    const hasNext = () => workersOf(child!.pid!).some((other) => other.number === number && other.pid !== pid)
    yield* until("the next worker", hasNext)
    return Math.round(performance.now() - from)
  })
  const killSome = (worker?: number) =>
    Effect.suspend(() => {
      const workers = workersOf(child!.pid!)
      if (workers.length === 0) return killAndRestart
      const one = workers[worker === undefined ? Math.floor(2 * draw() * workers.length) : worker - 1]
      return one === undefined ? killAndRestart : killWorker(one)
    })
  const stop = Effect.promise(async () => {
    const from = performance.now()
    await end(child, "SIGTERM")
    return { millis: Math.round(performance.now() - from), code: child?.exitCode ?? null }
  })
  return {
    url,
    port,
    pid: () => child!.pid!,
    kill,
    killAndRestart,
    killSome,
    stop,
    start,
    output
  } satisfies Server
})

/** A server's services in this process, on the same database: to prepare what a script needs, and to inspect rows. */
export const beside = Effect.fnUntraced(function* (
  folder: string,
  { url }: Pick<Server, "url">,
  settings: Readonly<Record<string, string>> = {}
) {
  const provider = ConfigProvider.fromUnknown({ ...environment(folder, 1), SERVICE_BASE_URL: url, ...settings })
  const built = Layer.build(services.pipe(Layer.provide(ConfigProvider.layer(provider))))
  const context = yield* Effect.mapError(built, ({ message }) => new ChaosError({ message }))
  return { url, services: context, sql: Context.get(context, SqlClient.SqlClient) }
})

const ready = (url: string, child: ChildProcess) =>
  Effect.tryPromise({
    try: async () => {
      if (!(await fetch(`${url}/readyz`)).ok) throw new Error("not ready")
    },
    catch: () => new ChaosError({ message: "A server did not become ready." })
  }).pipe(
    Effect.retry({
      while: () => !hasEnded(child),
      schedule: Schedule.upTo(Schedule.spaced("20 millis"), { duration: sliced ? "100 seconds" : "30 seconds" })
    })
  )

const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null

const end = async (child: ChildProcess | undefined, signal: NodeJS.Signals) => {
  if (child === undefined || hasEnded(child)) return
  child.kill(signal)
  await once(child, "exit")
}

/** One address for several servers: round-robin, skipping a server that refuses. A connection ends with its server. */
export const balancer = (ports: ReadonlyArray<number>, at = 0) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const open = new Set<Socket>()
        let turn = 0
        const pass = (incoming: Socket, left: number) => {
          const backend = connect(ports[turn++ % ports.length]!, "127.0.0.1")
          // `connecting` is false as soon as the connection was refused.
          let connected = false
          backend.once("connect", () => {
            connected = true
            for (const [from, to] of [
              [incoming, backend],
              [backend, incoming]
            ] as const) {
              from.pipe(to)
              from.once("close", () => to.destroy())
            }
          })
          backend.on("error", () => (!connected && left > 0 ? pass(incoming, left - 1) : incoming.destroy()))
        }
        const listening = createServer((incoming) => {
          open.add(incoming)
          incoming.on("close", () => open.delete(incoming)).on("error", () => incoming.destroy())
          pass(incoming, ports.length - 1)
        }).listen(at, "127.0.0.1")
        await once(listening, "listening")
        return { listening, open }
      }),
      ({ listening, open }) =>
        Effect.sync(() => {
          for (const socket of open) socket.destroy()
          listening.close()
        })
    ),
    ({ listening }) => `http://127.0.0.1:${(listening.address() as AddressInfo).port}`
  )

/**
 * The one address of several servers, known before they start: nginx with deploy/nginx.conf, in which only addresses
 * and certificate are replaced, if nginx is installed; otherwise the balancer, without TLS.
 */
export const makeFrontend = Effect.fnUntraced(function* (folder: string) {
  const port = yield* freePort
  if (spawnSync("nginx", ["-v"]).error !== undefined) {
    const open = (ports: ReadonlyArray<number>) => balancer(ports, port)
    return { by: "balancer", url: `http://127.0.0.1:${port}`, open }
  }
  const url = `https://127.0.0.1:${port}`
  const open = (ports: ReadonlyArray<number>) =>
    Effect.flatMap(
      Effect.acquireRelease(
        Effect.sync(() => nginx(join(folder, "nginx"), port, ports)),
        (child) => Effect.promise(() => end(child, "SIGTERM"))
      ),
      (child) => ready(url, child)
    )
  return { by: "nginx", url, open }
})

const nginx = (home: string, port: number, ports: ReadonlyArray<number>) => {
  const { cert, key } = throwAwayCertificate()
  setDefaultCACertificates([...getCACertificates(), cert])
  const [certFile, keyFile, config] = ["cert.pem", "key.pem", "nginx.conf"].map((name) => join(home, name))
  fs.mkdirSync(home, { mode: 0o711 })
  fs.writeFileSync(certFile!, cert)
  fs.writeFileSync(keyFile!, key, { mode: 0o600 })
  const site = fs
    .readFileSync(join(root, "deploy/nginx.conf"), "utf8")
    .replace(/^server \{\n {2}listen 80;[^]*?^\}\n/m, "")
    .replace(/^ +listen \[::\].*\n/gm, "")
    .replace("listen 443 ", `listen 127.0.0.1:${port} `)
    .replace("127.0.0.1:8787", `127.0.0.1:${ports[0]}`)
    .replace("127.0.0.1:8788", `127.0.0.1:${ports[1]}`)
    .replace(/(ssl_certificate) .*;/, `$1 ${certFile};`)
    .replace(/(ssl_certificate_key) .*;/, `$1 ${keyFile};`)
  const written = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((of) => `${of}_temp_path ${home}/${of};`)
  const main = `daemon off; pid ${home}/pid; events {}`
  fs.writeFileSync(config!, `${main}\nhttp { access_log off; ${written.join(" ")}\n${site}}\n`)
  const args = ["-p", home, "-e", join(home, "error.log"), "-c", config!]
  return spawn("nginx", args, { stdio: ["ignore", "ignore", "inherit"] })
}

/** Runs `service-admin` on the servers' database. */
export const admin = (folder: string, ...args: ReadonlyArray<string>) =>
  Effect.tryPromise({
    try: async () => {
      const options = { env: environment(folder, 1), maxBuffer: 1 << 26 }
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [join(root, "cli/service-admin.mjs"), ...args, "--json"],
        options
      )
      return JSON.parse(stdout)
    },
    catch: (error) => new ChaosError({ message: (error as { readonly stderr?: string }).stderr ?? String(error) })
  })

/** A project and bootstrap credentials for this many Bridges. */
export const operator = Effect.fnUntraced(function* (folder: string, bridges: number) {
  const { project_id } = yield* admin(folder, "create-project", "--name", "Chaos")
  yield* admin(folder, "approve-account-reference", "--project", project_id, "--reference", "github:octo")
  const out = join(folder, "credentials")
  const flags = ["--project", project_id, "--account-reference", "github:octo", "--out-dir", out]
  yield* admin(folder, "create-bridge-enrollment-credential", ...flags, "--count", String(bridges))
  const credentials = fs.readdirSync(out).map((name) => Redacted.make(fs.readFileSync(join(out, name), "utf8").trim()))
  return { project_id: project_id as string, credentials }
})

/** Every row of a table, read from a backup. */
export const rowsOf = Effect.fnUntraced(function* (folder: string, table: string) {
  const file = join(folder, `backup-${Math.round(draw() * 1e9)}`)
  yield* admin(folder, "backup-database", "--out", file)
  const [header, ...lines] = fs
    .readFileSync(file, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))
  const columns: ReadonlyArray<string> = header.tables.find(({ name }: { name: string }) => name === table).columns
  return lines.flatMap((line): ReadonlyArray<Record<string, string | null>> => {
    if (!Array.isArray(line) || line[0] !== table) return []
    return [Object.fromEntries(columns.map((column, index) => [column, line[index + 1]]))]
  })
})

/** How many requests had no answer. */
export const wire = { lost: 0 }

type Exchange = Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>
type Watch = (exchange: Exchange, request: HttpClientRequest.HttpClientRequest) => Exchange

/** A reference Bridge on a state folder, for the lifetime of the scope; `watch` sees its requests. */
export const bridge = (path: string, watch: Watch = (exchange) => exchange) =>
  Effect.map(
    Layer.build(Layer.fresh(Bridge.layer.pipe(Layer.provide(client(watch)), Layer.provide(Journal.layer(path))))),
    Context.get(Bridge)
  )

const client = (watch: Watch) =>
  Client.layer.pipe(
    Layer.provide(
      Layer.effect(
        HttpClient.HttpClient,
        Effect.map(
          HttpClient.HttpClient,
          HttpClient.transform((exchange, request) =>
            Effect.tapError(watch(exchange, request), () => Effect.sync(() => void wire.lost++))
          )
        )
      )
    ),
    Layer.provide(FetchHttpClient.layer)
  )

/** Lines that survive any kill: what was sent and what was acknowledged. Lines of the same moment share one sync. */
export const ledger = (folder: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => fs.openSync(join(folder, "ledger"), "a+", 0o600)),
      (file) => Effect.sync(() => fs.closeSync(file))
    ),
    (file) => {
      let running: Promise<void> = Promise.resolve()
      let next: Promise<void> | undefined
      const synced = () =>
        (next ??= running.then(() => {
          next = undefined
          return (running = sync(file))
        }))
      return {
        /** Returns once the line is durable. */
        note: (kind: "intent" | "ack", what: string) =>
          Effect.promise(() => {
            fs.writeSync(file, `${kind} ${what}\n`)
            return synced()
          }),
        noted: (kind: "intent" | "ack") =>
          fs
            .readFileSync(join(folder, "ledger"), "utf8")
            .split("\n")
            .flatMap((line) => (line.startsWith(`${kind} `) ? [line.slice(kind.length + 1)] : []))
      }
    }
  )
export type Ledger = Effect.Success<ReturnType<typeof ledger>>

const sync = promisify(fs.fdatasync)

export const percentile = (values: ReadonlyArray<number>, share: number) =>
  values.toSorted((left, right) => left - right)[Math.max(0, Math.ceil(values.length * share) - 1)] ?? 0

/**
 * Runs a script and prints its figures as one JSON line. Exits with 1 if there are violations or the script did not finish;
 * the line then says how far it got and what it was waiting for. `longest`: the time limit at full size.
 */
export const chaos = (
  name: string,
  progress: () => object,
  run: Effect.Effect<{ readonly figures: object; readonly violations: ReadonlyArray<string> }, unknown, Scope.Scope>,
  longest: Duration.Input = "58 seconds"
) => {
  const from = performance.now()
  // The default: a script that ends without its line has failed.
  process.exitCode = 1
  const unfinished = (...violations: ReadonlyArray<string>) => ({
    figures: { ...progress(), waiting_for: [...waitingFor] },
    violations
  })
  const fiber = Effect.runFork(
    run.pipe(
      Effect.scoped,
      Effect.raceFirst(Effect.map(unexpectedExit, () => unfinished())),
      Effect.timeout(sliced ? "170 seconds" : longest),
      Effect.catchCause((cause) => Effect.succeed(unfinished(Cause.pretty(cause)))),
      Effect.map(({ figures, violations: seen }) => {
        const violations = [...seen, ...unexpectedExits]
        const seconds = Math.round(performance.now() - from) / 1000
        // Of the last minute: other load on the machine affects every figure.
        const load = loadavg()[0]!
        process.stdout.write(`${JSON.stringify({ chaos: name, seed, seconds, load, ...figures, violations })}\n`)
        process.exitCode = violations.length === 0 ? 0 : 1
      })
    )
  )
  // The servers and clusters that the script has started would go on without it.
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => fiber.interruptUnsafe())
}
