/**
 * The setup shared by all benchmarks (Linux only: it reads /proc).
 *
 * 1. The service as `npm start` runs it: src/main.ts in its own process, with the embedded PostgreSQL, fsync on, in a
 *    folder that is removed afterwards. Rate limits are off; all other settings are the defaults.
 * 2. The same services in this process, on the same database and secrets, to seed it and to record statements.
 * 3. The load generator in a third process, so that its CPU time is not counted as the service's.
 * Other programs may be using the machine, so compare ratios to a peer that is measured alternately in the same run.
 */
import { ConfigProvider, Context, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, execFile, fork, spawn } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs, promisify } from "node:util"
import { services } from "../../src/App.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { passwordFile } from "../../src/platform/settings/DataFolder.ts"
import { Database } from "../../src/platform/database/Database.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { freePort } from "../../test/support/network/FreePort.ts"
import { checkout, dataFolder, end } from "../../test/support/database/PostgresUser.ts"
import { cpuSeconds, cpuTimes, rssMib, workersOf } from "../../test/support/run/Proc.ts"
import type { Load, Measured, Start } from "./load/load.ts"
import { credentialOf } from "./seeds.ts"

export { freePort }

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "60" },
    requests: { type: "string", default: "20000" },
    large: { type: "boolean", default: false },
    identities: { type: "string", default: "1000000" },
    folder: { type: "string" },
    profile: { type: "string" },
    compare: { type: "string" },
    clients: { type: "string", default: "16" }
  }
})
/** Time limit of a benchmark, without its memory measurement. */
export const seconds = Number(values.seconds)
/** Number of requests of the memory measurement. */
export const requests = Number(values.requests)

/** Size of the larger database of bench/scaling/scale.ts; a multiple of 500. */
export const identities = Number(values.identities)

/** Of bench/compare.ts: the operations, the commit that the work tree is compared with, and numbers of clients. */
export const compared = { names: positionals, base: values.compare, clients: values.clients.split(",").map(Number) }

/** Where bench/scaling/scale.ts keeps its filled databases; by default they are removed after the run. */
export const folder = values.folder

/** Also run the measurements that take minutes. */
export const large = values.large

/** Makes the service write a CPU profile when it ends. */
const profiling = values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${resolve(values.profile)}`]

/** The service's default; peers use as many database connections. */
export const poolSize = 10
/** Connections of the load generator: enough to keep the pool busy. */
export const connections = 16
export const rounds = 3

export interface Target {
  readonly url: string
  readonly pid: number
}

/** What `npm start` gives to Node in that work tree. */
const startCommand = (tree: string): ReadonlyArray<string> =>
  JSON.parse(readFileSync(join(tree, "package.json"), "utf8"))
    .scripts.start.replace("exec node ", "")
    .split(" ")

/** `more`: settings that differ from the defaults. `from`: the work tree whose service is started. */
export const startWith = Effect.fnUntraced(function* (more: Readonly<Record<string, string>>, from = checkout) {
  const environment = { SERVICE_DATA_DIR: yield* dataFolder(), SERVICE_RATE_LIMITS: "off", ...more }
  /** Starts a replica with settings of its own; all replicas share database and secrets. */
  const replica = Effect.fnUntraced(function* (own: Readonly<Record<string, string>> = {}) {
    const port = String(yield* freePort)
    const url = `http://127.0.0.1:${port}`
    const child = yield* started(
      [...profiling, ...startCommand(from)],
      { ...environment, SERVICE_PORT: port, ...own },
      from
    )
    yield* answers(`${url}/readyz`)
    return { url, pid: child.pid! } satisfies Target
  })
  const itself = yield* replica()

  const context = yield* Layer.build(
    services.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
  )
  const sql = Context.get(context, SqlClient.SqlClient)
  const projects = Context.get(context, Projects)
  const { project_id } = yield* projects.create("Bench")
  yield* projects.approveReference(project_id, "github:octo", Option.none())
  const pidFile = join(Context.get(context, Database).embedded!, "postmaster.pid")
  const [postmaster, , , databasePort, host = ""] = readFileSync(pidFile, "utf8").split("\n")

  // Another number than in earlier runs on a kept database.
  let credentials = Date.now() * 100
  /** Inserts `count` unused credentials; returns the number of the first. */
  const issue = Effect.fnUntraced(function* (count: number) {
    const first = credentials
    credentials += count
    const hashes = Array.from({ length: count }, (_, i) => Buffer.from(Tokens.hash(credentialOf(first + i))))
    yield* sql`
      insert into bridge_enrollment_credential (
        credential_id, credential_hash, project_id, account_references, created_at, expires_at)
      select gen_random_uuid(), decode(hash, 'hex'), ${project_id}::uuid, '{github:octo}', clock_timestamp(),
             clock_timestamp() + interval '1 day'
        from unnest(${hashes.map((hash) => hash.toString("hex"))}::text[]) hash`
    return first
  })

  const password = readFileSync(passwordFile(environment.SERVICE_DATA_DIR), "utf8").trim()
  const database = { host, port: Number(databasePort), password }
  return { ...itself, replica, context, sql, project_id, issue, postmaster: Number(postmaster), database }
})
export const start = startWith({})
export type Bench = Effect.Success<typeof start>

/** Starts a Node process that is stopped when the scope closes. */
export const started = (
  args: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>> = {},
  from = checkout
) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, args, {
        cwd: from,
        env: { PATH: process.env["PATH"], ...environment },
        stdio: ["ignore", "ignore", "inherit"]
      })
    ),
    (child) => end(child, "SIGTERM")
  )

export const answers = (url: string) =>
  Effect.tryPromise(async () => {
    if (!(await fetch(url)).ok) throw new Error(url)
  }).pipe(Effect.retry(Schedule.spaced("50 millis")), Effect.timeout("30 seconds"))

/**
 * Starts a load generator; each effect that it returns runs one round. CPU time is per operation: of the target with all its
 * threads and workers, and of PostgreSQL with all its processes.
 */
export const generator = Effect.fnUntraced(function* (
  on: Pick<Bench, "postmaster">,
  { pid, url }: Target,
  load: Omit<Load, "url" | "connections"> & { readonly connections?: number }
) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => fork(join(import.meta.dirname, "load/load.ts"), [JSON.stringify({ connections, ...load, url })])),
    (running) => Effect.sync(() => running.connected && running.disconnect())
  )
  yield* Effect.promise(() => nextMessage(child))
  const cpu = () => [pid, ...workersOf(pid).map((worker) => worker.pid)].reduce((sum, of) => sum + cpuSeconds(of), 0)
  return (start: Start = { codes: [] }) =>
    Effect.promise(async () => {
      const [before, databaseBefore] = [cpu(), databaseCpuSeconds(on.postmaster)]
      child.send(start)
      const measured = (await nextMessage(child)) as Measured
      const each = (seconds: number) => (seconds / measured.count) * 1e6
      return {
        ...measured,
        cpu_us: each(cpu() - before),
        database_cpu_us: each(databaseCpuSeconds(on.postmaster) - databaseBefore),
        rss_mib: rssMib(pid)
      }
    })
})

/** Runs a load for one round. */
export const measure = (...[on, target, load]: Parameters<typeof generator>) =>
  Effect.scoped(Effect.flatMap(generator(on, target, load), (round) => round()))

const nextMessage = (child: ChildProcess) =>
  new Promise((resolve, reject) => {
    // Not "exit", which can come before the last message.
    const ended = () => reject(new Error("The load generator ended."))
    child.once("disconnect", ended)
    child.once("message", (message) => {
      child.off("disconnect", ended)
      resolve(message)
    })
  })

const databaseCpuSeconds = (postmaster: number): number => {
  const sessions = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, "utf8").trim().split(" ")
  try {
    const running = sessions.reduce((sum, pid) => sum + cpuSeconds(Number(pid)), 0)
    const { ended, own } = cpuTimes(postmaster)
    return running + own + ended
  } catch {
    // A session ended while it was read; the postmaster now counts its time among its ended children.
    return databaseCpuSeconds(postmaster)
  }
}

/**
 * Measures a pgbench script with as many clients as the service has connections. `done` counts the work in the database:
 * the run fails if a transaction changed nothing, which would make it look fast.
 */
export const pgbench = Effect.fnUntraced(function* <E>(
  on: Bench,
  script: string,
  options: { readonly seconds: number; readonly base: number; readonly done: Effect.Effect<number, E> }
) {
  const before = yield* options.done
  const cpuBefore = databaseCpuSeconds(on.postmaster)
  const measured = yield* runPgbench(on.database, script, options)
  const cpu = databaseCpuSeconds(on.postmaster) - cpuBefore
  const done = (yield* options.done) - before
  return done === measured.count
    ? { ...measured, database_cpu_us: (cpu / measured.count) * 1e6 }
    : yield* Effect.die(`${measured.count} pgbench transactions ran, but ${done} took effect.`)
})

const runPgbench = (
  { host, password, port }: Bench["database"],
  script: string,
  options: { readonly seconds: number; readonly base: number }
): Effect.Effect<Measured> =>
  Effect.promise(async () => {
    const folder = mkdtempSync(join(tmpdir(), "bridge-service-bench-"))
    try {
      writeFileSync(join(folder, "script.sql"), script)
      const flags = ["--no-vacuum", "--protocol=prepared", `--client=${poolSize}`, `--time=${options.seconds}`]
      const variables = [`--define=clients=${poolSize}`, `--define=base=${options.base}`, "--define=i=-1"]
      const logging = ["--log", `--log-prefix=${join(folder, "log")}`, `--file=${join(folder, "script.sql")}`]
      const target = [`--host=${host}`, `--port=${port}`, "--username=postgres", "postgres"]
      const { stdout } = await promisify(execFile)("pgbench", [...flags, ...variables, ...logging, ...target], {
        // Without it pgbench would wait at the terminal for somebody to type one.
        env: { ...process.env, PGPASSWORD: password }
      })
      const logs = readdirSync(folder).filter((name) => name.startsWith("log."))
      const latencies = logs
        .flatMap((name) => readFileSync(join(folder, name), "utf8").trim().split("\n"))
        .map((line) => Number(line.split(" ")[2]) / 1000)
        .toSorted((a, b) => a - b)
      const quantile = (q: number) => latencies[Math.floor(latencies.length * q)]!
      const per_second = Number(/tps = ([\d.]+)/.exec(stdout)![1])
      return {
        count: latencies.length,
        seconds: options.seconds,
        per_second,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99)
      }
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

/** Sets `:n` to a number unique among all clients' transactions, roughly in the order of execution. */
export const numbered = `\\set i :i + 1\n\\set n :base + :i * :clients + :client_id\n`

/** Runs every contestant once per round. Skips rounds that would exceed `within` seconds. */
export const inTurns = <
  Contestants extends Readonly<Record<string, (round: number) => Effect.Effect<unknown, unknown>>>
>(
  contestants: Contestants,
  within = seconds
) =>
  Effect.gen(function* () {
    const runs = Object.keys(contestants).map((name) => [name, [] as Array<unknown>] as const)
    for (let round = 1, longest = 0; round <= rounds; round++) {
      const startedAt = performance.now() / 1000
      // Both times count from the start of this process.
      if (round > 1 && startedAt + longest > within) break
      for (const [name, results] of runs) results.push(yield* contestants[name]!(round))
      longest = Math.max(longest, performance.now() / 1000 - startedAt)
    }
    return Object.fromEntries(runs) as unknown as {
      readonly [Name in keyof Contestants]: ReadonlyArray<Effect.Success<ReturnType<Contestants[Name]>>>
    }
  })
