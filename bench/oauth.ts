/**
 * Code and refresh grants per second and CPU per request: this service on its own PostgreSQL with fsync on, beside
 * oidc-provider with its in-memory adapter, in the same run. Prints one JSON object.
 *
 * Each server is a process of its own; its CPU is what the kernel counted for it, so PostgreSQL's is not in it (Linux).
 * The peer does no I/O and stores raw tokens: wall time says what durability costs, CPU what our own work costs.
 */
import { NodeRuntime } from "@effect/platform-node"
import { ConfigProvider, Console, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type ChildProcess, fork, spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { Agent, request } from "node:http"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ProjectTokens } from "../src/access/ProjectTokens.ts"
import { services } from "../src/App.ts"
import { uuid } from "../src/crypto/Random.ts"
import * as Tokens from "../src/crypto/Tokens.ts"
import { Clients } from "../src/oauth/Clients.ts"
import { challengeOf } from "../src/oauth/Pkce.ts"
import { packageRoot } from "../src/Package.ts"
import { Projects } from "../src/projects/Projects.ts"

const connections = 16
const rounds = 2
const codesPerRound = 1000
const refreshSeconds = 4
const redirect_uri = "http://127.0.0.1/callback"
const verifier = "v".repeat(43)

interface Target {
  readonly url: string
  readonly pid: number
  readonly client_id: string
  readonly codes: (count: number) => Effect.Effect<ReadonlyArray<string>>
}

/** Where it is stored and listens; another run does not meet it. */
const place = Effect.gen(function* () {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "bench-oauth-"))),
    (path) =>
      Effect.sync(() => {
        // Started by root, PostgreSQL's files are elsewhere, and this says where.
        const location = join(path, "data/location")
        if (existsSync(location)) rmSync(readFileSync(location, "utf8").trim(), { recursive: true, force: true })
        rmSync(path, { recursive: true, force: true })
      })
  )
  const port = yield* Effect.callback<number>((resume) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
    })
  })
  return { folder, port }
})

const ended = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGTERM")
  })

const ours = Effect.gen(function* () {
  const { folder, port } = yield* place
  const environment = {
    SERVICE_DATA_DIR: join(folder, "data"),
    SERVICE_PORT: String(port),
    SERVICE_RATE_LIMITS: "off",
    SERVICE_LOG_LEVEL: "Error"
  }
  const provider = ConfigProvider.layer(ConfigProvider.fromUnknown(environment))
  const context = yield* Layer.build(Layer.provide(services, provider))
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [join(packageRoot, "src/main.ts")], {
        env: { ...environment, PATH: "", NODE_ENV: "production" },
        stdio: ["ignore", "ignore", "inherit"]
      })
    ),
    ended
  )
  const url = `http://127.0.0.1:${port}`
  yield* until(() => fetch(`${url}/readyz`).then(({ ok }) => ok))

  return yield* Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { project_id } = yield* (yield* Projects).create("Bench")
    const tokens = yield* ProjectTokens
    const secret = yield* tokens.mint
    yield* tokens.issue({ project_id, role: "reader", scopes: [], ttl: Option.none() }, secret)
    const { client_id } = yield* (yield* Clients).create({
      name: "Bench",
      redirect_uris: [redirect_uri],
      application_type: undefined,
      scopes: []
    })
    const codes = Effect.fnUntraced(function* (count: number) {
      const made: Array<string> = []
      for (let n = 0; n < count; n++) {
        const code = yield* Tokens.mint("sac")
        const grant_id = yield* uuid
        made.push(Redacted.value(code))
        yield* sql`
          with granted as (
            insert into oauth_grant (grant_id, client_id, project_id, project_token_id, scopes, resource, instance_id,
                                     redirect_uri, created_at, expires_at)
            select ${grant_id}::uuid, ${client_id}, ${project_id}::uuid, ${secret.token_id}::uuid, '{context:read}',
                   ${`${url}/mcp`}, instance_id::text, ${redirect_uri}, clock_timestamp(),
                   clock_timestamp() + interval '1 day'
              from service_instance
            returning grant_id
          )
          insert into oauth_code (code_hash, grant_id, code_challenge, created_at, expires_at)
          select ${Tokens.hash(code)}::bytea, grant_id, ${challengeOf(verifier)}, clock_timestamp(),
                 clock_timestamp() + interval '1 day'
            from granted`
      }
      return made
    })
    return { url, pid: child.pid!, client_id, codes: (count: number) => Effect.orDie(codes(count)) } satisfies Target
  }).pipe(Effect.provide(context))
})

const peer = Effect.gen(function* () {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      fork(join(packageRoot, "bench/oidcProvider.mjs"), { env: { NODE_ENV: "production" }, silent: true })
    ),
    ended
  )
  const answer = <A>() =>
    Effect.callback<A>((resume) => {
      child.once("message", (message) => resume(Effect.succeed(message as A)))
    })
  const { port } = yield* answer<{ port: number }>()
  const codes = (count: number) =>
    Effect.suspend(() => {
      child.send({ codes: count, code_challenge: challengeOf(verifier) })
      return Effect.map(answer<{ codes: ReadonlyArray<string> }>(), (made) => made.codes)
    })
  return { url: `http://127.0.0.1:${port}`, pid: child.pid!, client_id: "bench", codes } satisfies Target
})

const until = (ready: () => Promise<boolean>) =>
  Effect.promise(async () => {
    for (let tries = 0; tries < 300; tries++) {
      if (await ready().catch(() => false)) return
      await new Promise((again) => setTimeout(again, 100))
    }
    throw new Error("The service did not get ready within 30 s.")
  })

/** Microseconds of CPU that the process has used; the kernel counts in hundredths of a second. */
const cpuOf = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

const ask = (agent: Agent, target: Target, fields: Readonly<Record<string, string>>) =>
  new Promise<{ readonly refresh_token: string }>((done, failed) => {
    const body = new URLSearchParams({ ...fields, client_id: target.client_id }).toString()
    const headers = { "content-type": "application/x-www-form-urlencoded", "content-length": Buffer.byteLength(body) }
    const asked = request(`${target.url}/token`, { method: "POST", agent, headers }, (response) => {
      let text = ""
      response.setEncoding("utf8")
      response.on("data", (chunk: string) => (text += chunk))
      response.on("end", () =>
        response.statusCode === 200 ? done(JSON.parse(text)) : failed(new Error(`${response.statusCode} ${text}`))
      )
    })
    asked.on("error", failed)
    asked.end(body)
  })

interface Measured {
  readonly requests: number
  readonly per_second: number
  readonly cpu_us_per_request: number
}

const measured = async (target: Target, work: () => Promise<number>): Promise<Measured> => {
  const [cpu, at] = [cpuOf(target.pid), performance.now()]
  const requests = await work()
  const seconds = (performance.now() - at) / 1000
  return {
    requests,
    per_second: Math.round(requests / seconds),
    cpu_us_per_request: Math.round((cpuOf(target.pid) - cpu) / requests)
  }
}

const round = Effect.fnUntraced(function* (target: Target) {
  const codes = [...(yield* target.codes(codesPerRound))]
  return yield* Effect.promise(async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: connections })
    const together = (work: () => Promise<number>) =>
      Promise.all(Array.from({ length: connections }, work)).then((counts) => counts.reduce((sum, n) => sum + n, 0))
    const kept: Array<string> = []
    const code = await measured(target, () =>
      together(async () => {
        let count = 0
        for (let next = codes.pop(); next !== undefined; next = codes.pop(), count++) {
          const fields = { grant_type: "authorization_code", code: next, code_verifier: verifier, redirect_uri }
          kept.push((await ask(agent, target, fields)).refresh_token)
        }
        return count
      })
    )
    const refresh = await measured(target, () => {
      const end = performance.now() + refreshSeconds * 1000
      return together(async () => {
        let refresh_token = kept.pop()!
        let count = 0
        for (; performance.now() < end; count++) {
          refresh_token = (await ask(agent, target, { grant_type: "refresh_token", refresh_token })).refresh_token
        }
        return count
      })
    })
    agent.destroy()
    return { code, refresh }
  })
})

const bench = Effect.gen(function* () {
  const targets = { service: yield* ours, oidc_provider: yield* peer }
  const results: Record<string, ReadonlyArray<Effect.Success<ReturnType<typeof round>>>> = {}
  for (let n = 0; n < rounds; n++) {
    for (const [name, target] of Object.entries(targets))
      results[name] = [...(results[name] ?? []), yield* round(target)]
  }
  yield* Console.log(JSON.stringify({ connections, node: process.version, results }, null, 2))
})

NodeRuntime.runMain(Effect.scoped(bench))
