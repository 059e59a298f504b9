/**
 * What tools/call costs (Linux only: it reads /proc). JSON on stdout; `--large` adds 100,000 entries.
 *
 * In one run, on one machine: the service as `npm start` runs it, with its managed PostgreSQL and fsync on; a server of
 * SDK v2 whose tools do nothing; and @modelcontextprotocol/server-memory over stdio with as many entries.
 * CPU is that of the server's process: that of PostgreSQL is not in it.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { ConfigProvider, Context, Effect, Layer, Option, Redacted, Schedule, Stream } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { Agent as HttpAgent, request } from "node:http"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { createInterface } from "node:readline"
import { parseArgs } from "node:util"
import { ProjectTokens } from "../src/access/ProjectTokens.ts"
import { services } from "../src/App.ts"
import { Transfer } from "../src/continuity/Transfer.ts"
import { uuidAt } from "../src/crypto/Random.ts"
import { Projects } from "../src/projects/Projects.ts"
import { dataFolder, end } from "../test/support/PostgresUser.ts"

const { values } = parseArgs({
  options: { large: { type: "boolean", default: false }, seconds: { type: "string", default: "1.5" } }
})
const sizes = values.large ? [1000, 10_000, 100_000] : [1000, 10_000]
const seconds = Number(values.seconds)
const connections = 8

const words =
  "deploy pipeline timeout rotation successor challenge camping invoice schema latency retry cache index worker ledger".split(
    " "
  )
const body = (n: number) =>
  Array.from({ length: 30 }, (_, at) => `${words[(n * 7 + at * at) % words.length]}${(n + at) % 97}`).join(" ")
const query = (n: number) =>
  `what about ${words[n % words.length]}${n % 97} and ${words[(n + 3) % words.length]}${(n + 5) % 97}?`

const child = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>> = {}) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, args, {
        cwd: join(import.meta.dirname, ".."),
        env: { PATH: process.env["PATH"], ...environment },
        stdio: ["ignore", "pipe", "inherit"]
      })
    ),
    (running) => end(running, "SIGTERM")
  )

const freePort = Effect.callback<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(port)))
  })
})

interface Target {
  readonly port: number
  readonly pid: number
  readonly token: string
}

const call = (agent: HttpAgent, { port, token }: Target, name: string, given: object) =>
  new Promise<any>((resolve, reject) => {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {}
    }
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given, _meta } }
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": name
    }
    const sent = request({ agent, host: "127.0.0.1", port, path: "/mcp", method: "POST", headers }, (answer) => {
      let text = ""
      answer.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
      answer.on("end", () => {
        const { result } = JSON.parse(text)
        if (result === undefined || result.isError === true) reject(new Error(text))
        else resolve(result.structuredContent)
      })
    })
    sent.on("error", reject)
    sent.end(JSON.stringify(message))
  })

const cpuSeconds = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ").map(Number)
  return (fields[11]! + fields[12]!) / 100
}

const quantiles = (latencies: ReadonlyArray<number>) => {
  const sorted = latencies.toSorted((a, b) => a - b)
  const at = (q: number) => Number((sorted[Math.floor(sorted.length * q)] ?? 0).toFixed(2))
  return { p50_ms: at(0.5), p95_ms: at(0.95) }
}

/** As many clients as `width`, one call after the other, until the time is over. */
const load = (target: Target, width: number, operation: (agent: HttpAgent, n: number) => Promise<unknown>) =>
  Effect.promise(async () => {
    const agent = new HttpAgent({ keepAlive: true, maxSockets: width })
    const latencies: Array<number> = []
    let n = 0
    const run = async (until: number) => {
      while (performance.now() < until) {
        const start = performance.now()
        await operation(agent, n++)
        latencies.push(performance.now() - start)
      }
    }
    const clients = (length: number) =>
      Promise.all(Array.from({ length: width }, () => run(performance.now() + length)))
    await clients(300)
    latencies.length = 0
    const [started, cpu] = [performance.now(), cpuSeconds(target.pid)]
    await clients(seconds * 1000)
    const elapsed = (performance.now() - started) / 1000
    agent.destroy()
    return {
      calls: latencies.length,
      per_second: Math.round(latencies.length / elapsed),
      cpu_us: Math.round(((cpuSeconds(target.pid) - cpu) / latencies.length) * 1e6),
      ...quantiles(latencies)
    }
  })

const nothing = Effect.gen(function* () {
  const running = yield* child(["bench/mcp-nothing.ts"])
  const port = yield* Effect.promise(
    () =>
      new Promise<number>((resolve) => createInterface(running.stdout).once("line", (line) => resolve(Number(line))))
  )
  return { port, pid: running.pid!, token: "none" } satisfies Target
})

const service = Effect.gen(function* () {
  const data = yield* dataFolder()
  const port = yield* freePort
  const environment = {
    SERVICE_DATA_DIR: data,
    SERVICE_PORT: String(port),
    SERVICE_RATE_LIMITS: "off",
    SERVICE_LOG_LEVEL: "Error"
  }
  const running = yield* child(["src/main.ts"], environment)
  running.stdout.resume()
  yield* Effect.tryPromise(async () => {
    if (!(await fetch(`http://127.0.0.1:${port}/readyz`)).ok) throw new Error("not ready")
  }).pipe(Effect.retry(Schedule.spaced("50 millis")), Effect.timeout("30 seconds"))
  const context = yield* Layer.build(
    services.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
  )
  const project = Effect.fnUntraced(function* (entries: number) {
    const { project_id } = yield* Context.get(context, Projects).create(`${entries} entries`)
    const tokens = Context.get(context, ProjectTokens)
    const secret = yield* tokens.mint
    yield* tokens.issue({ project_id, role: "contributor", scopes: [], ttl: Option.none() }, secret)
    const ids: Array<string> = []
    const header = { export: "bridge-service project", project: { id: project_id, name: "x" }, created_at: at(0) }
    const lines = [JSON.stringify(header)]
    for (let n = 0; n < entries; n += 1) {
      const id = yield* uuidAt(new Date(at(n)))
      ids.push(id)
      lines.push(JSON.stringify({ memory: { ...blank, id, title: `Entry ${n}`, body: body(n), created_at: at(n) } }))
    }
    const file = Stream.make(Buffer.from(lines.join("\n")))
    yield* Context.get(context, Transfer).load(project_id, file, () => Effect.void)
    const target = { port, pid: running.pid!, token: Redacted.value(secret.token) } satisfies Target
    const { write_context } = yield* Effect.promise(() => call(new HttpAgent(), target, "server_identity", {}))
    return { target, ids, write_context }
  })
  return { project }
})

const at = (n: number) => new Date(1_790_000_000_000 + n * 1000).toISOString()
const blank = {
  kind: "note",
  tags: [],
  active: true,
  supersedes: null,
  superseded_by: null,
  superseded_at: null,
  actor: "bench",
  role: "contributor",
  session_ref: null,
  task_id: null,
  source: "bench"
}

/** @modelcontextprotocol/server-memory, one call after the other, as its one client would. */
const serverMemory = (entries: number) =>
  Effect.promise(async () => {
    const folder = mkdtempSync(join(tmpdir(), "bridge-service-bench-"))
    const file = join(folder, "memory.jsonl")
    const entity = (n: number) => ({ name: `entry ${n}`, entityType: "note", observations: [body(n)] })
    writeFileSync(
      file,
      Array.from({ length: entries }, (_, n) => `${JSON.stringify({ type: "entity", ...entity(n) })}\n`).join("")
    )
    const client = new Client({ name: "bench", version: "1" })
    const args = ["node_modules/@modelcontextprotocol/server-memory/dist/index.js"]
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args, env: { MEMORY_FILE_PATH: file }, stderr: "ignore" })
    )
    const timed = async (name: string, given: (n: number) => Record<string, unknown>) => {
      const latencies: Array<number> = []
      const until = performance.now() + seconds * 1000
      for (let n = 0; performance.now() < until || n < 3; n += 1) {
        const start = performance.now()
        await client.callTool({ name, arguments: given(n) })
        latencies.push(performance.now() - start)
      }
      return { calls: latencies.length, ...quantiles(latencies) }
    }
    const add = await timed("create_entities", (n) => ({ entities: [entity(entries + n)] }))
    const search = await timed("search_nodes", (n) => ({ query: `${words[n % words.length]}${n % 97}` }))
    await client.close()
    rmSync(folder, { recursive: true })
    return { add, search }
  })

const bench = Effect.gen(function* () {
  const idle = yield* nothing
  const { project } = yield* service
  const alone = yield* project(1000)
  const search = (on: typeof alone, width: number) =>
    load(on.target, width, (agent, n) => call(agent, on.target, "memory_search", { query: query(n) }))
  const search_alone = yield* search(alone, 1)

  const results = []
  for (const size of sizes) {
    const on = yield* project(size)
    const { ids, target, write_context } = on
    const doing = (width: number) => ({
      memory_get: load(target, width, (agent, n) => call(agent, target, "memory_get", { id: ids[n % ids.length] })),
      memory_search: search(on, width),
      memory_add: load(target, width, (agent, n) =>
        call(agent, target, "memory_add", { kind: "note", body: body(size + n), write_context })
      ),
      task_update: Effect.gen(function* () {
        const agent = new HttpAgent({ keepAlive: true })
        const tasks = yield* Effect.promise(() =>
          Promise.all(
            Array.from({ length: width }, (_, n) =>
              call(agent, target, "task_create", { title: `T${n}`, write_context })
            )
          )
        )
        const free = tasks.map(({ task }) => ({ id: task.id as string, version: 1 }))
        return yield* load(target, width, async (agent, n) => {
          const task = free.pop()!
          await call(agent, target, "task_update", {
            id: task.id,
            expected_version: task.version,
            priority: n % 5,
            write_context
          })
          free.push({ id: task.id, version: task.version + 1 })
        })
      })
    })
    const one = yield* Effect.all(doing(1))
    const loaded = yield* Effect.all(doing(connections))
    const peer = yield* serverMemory(size)
    results.push({
      entries: size,
      one_client: one,
      [`${connections}_clients`]: loaded,
      server_memory: peer,
      times_faster: {
        add: Number((peer.add.p50_ms / one.memory_add.p50_ms).toFixed(1)),
        search: Number((peer.search.p50_ms / one.memory_search.p50_ms).toFixed(1))
      }
    })
  }
  const search_beside_neighbours = yield* search(alone, 1)
  const base = yield* load(idle, connections, (agent) => call(agent, idle, "memory_get", { id: "x" }))
  const gets = yield* load(alone.target, connections, (agent, n) =>
    call(agent, alone.target, "memory_get", { id: alone.ids[n % alone.ids.length] })
  )
  return {
    bench: "mcp",
    node: process.version,
    results,
    sdk_v2_doing_nothing: base,
    memory_get: { ...gets, cpu_to_nothing: Number((gets.cpu_us / base.cpu_us).toFixed(2)), aim: 1.7 },
    search_in_1000_entries: {
      alone: search_alone,
      beside: { largest_neighbour: sizes.at(-1), ...search_beside_neighbours }
    }
  }
})

Effect.runPromise(Effect.scoped(bench)).then((found) => console.log(JSON.stringify(found, null, 2)))
