/** The tools of the demo's scenes: a server, the operator's commands, Bridges, and a transcript without secrets. */
import { Console, Context, Data, Effect, Layer, Redacted, Schedule } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs, promisify } from "node:util"
import { Bridge } from "../../src/client/bridge/Bridge.ts"
import { Client } from "../../src/client/bridge/Client.ts"
import { Journal } from "../../src/client/bridge/Journal.ts"
import { kinds } from "../../src/platform/crypto/Tokens.ts"
import { freePort } from "../../test/support/network/FreePort.ts"

export class DemoError extends Data.TaggedError("DemoError")<{ readonly message: string }> {}

/** The command-line flags of a script. */
export const flags = <Name extends string>(...names: ReadonlyArray<Name>) =>
  Effect.try({
    try: () => {
      const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]))
      return parseArgs({ options }).values as Readonly<Partial<Record<Name, string>>>
    },
    catch: (error) => new DemoError({ message: (error as Error).message })
  })

export const expected = (wanted: string, got: string | undefined) =>
  wanted === got ? Effect.void : Effect.fail(new DemoError({ message: `Expected ${wanted}, got ${got}.` }))

/** A failure to inject at the first request whose path ends with the given text. */
export type Mishap =
  /** The service acts, but its response is lost. */
  | { readonly lose: string }
  /** The Bridge is killed before it sends the request. */
  | { readonly kill: string }

const root = join(import.meta.dirname, "../..")
const node = (script: string, ...args: ReadonlyArray<string>) => [join(root, script), ...args]

/** Redacts text for printing: tokens, nonces and signatures are reduced to prefix and length. */
export const shown = (text: string) =>
  text
    .replaceAll(
      new RegExp(`\\b(${Object.keys(kinds).join("|")})_[0-9A-Za-z]{49}\\b`, "g"),
      (token) => `${token.slice(0, 4)}…(${token.length})`
    )
    .replaceAll(/"(nonce|signature)_b64":"([^"]*)"/g, (_, name, value) => `"${name}_b64":"…(${value.length})"`)

/** Uses the server at `running`, or starts one that stops with the demo. `more` gives its extra settings for a folder. */
export const stage = Effect.fnUntraced(function* (
  running: string | undefined,
  more: (folder: string) => Readonly<Record<string, string>> = () => ({})
) {
  const scratch = yield* temporary
  const env = running === undefined ? yield* ownServer(scratch, more(scratch)) : process.env
  const base_url = running?.replace(/\/$/, "") ?? env["SERVICE_BASE_URL"]!

  const admin = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
    yield* Console.log(`  $ service-admin ${args.map((arg) => (/\s/.test(arg) ? `"${arg}"` : arg)).join(" ")}`)
    const { stdout } = yield* Effect.tryPromise({
      try: () => promisify(execFile)(process.execPath, node("cli/service-admin.mjs", ...args, "--json"), { env }),
      catch: (error) =>
        new DemoError({ message: shown((error as { stderr?: string }).stderr ?? "service-admin did not start.") })
    })
    yield* Console.log(`    ${shown(stdout.trim())}`)
    return JSON.parse(stdout)
  })

  /** Runs `work` as a Bridge process on its state folder would. Undefined if the mishap killed the Bridge. */
  const bridge = <A, E>(name: string, work: (bridge: Bridge["Service"]) => Effect.Effect<A, E>, mishap?: Mishap) =>
    Layer.build(
      Layer.fresh(Bridge.layer).pipe(
        Layer.provide(Client.layer),
        Layer.provide(Journal.layer(join(scratch, name))),
        Layer.provide(transport(mishap)),
        Layer.provide(Layer.succeed(FetchHttpClient.Fetch, transcribed(mishap)))
      )
    ).pipe(
      Effect.flatMap((services) => work(Context.get(services, Bridge))),
      Effect.scoped,
      Effect.catchDefect((defect) => (defect instanceof Killed ? Effect.undefined : Effect.die(defect)))
    )

  /** Sends a request that the reference Bridge would not send; returns the error code. */
  const ask = (method: string, path: string, bearer: Redacted.Redacted<string>) =>
    Effect.promise(async (signal): Promise<string | undefined> => {
      const headers = { authorization: `Bearer ${Redacted.value(bearer)}` }
      const response = await transcribed()(`${base_url}${path}`, { method, headers, signal })
      const body = (await response.json()) as { readonly error?: { readonly code: string } }
      return body.error?.code
    })

  return { base_url, scratch, admin, bridge, ask, via: transcribed() }
})
export type Stage = Effect.Success<ReturnType<typeof stage>>

export interface Scene {
  readonly title: string
  readonly play: (stage: Stage) => Effect.Effect<unknown, { readonly _tag: string; readonly message: string }>
}

class Killed extends Data.TaggedError("Killed") {}

const transport = (mishap?: Mishap) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(
      HttpClient.HttpClient,
      HttpClient.transform((exchange, { url }) => {
        if (mishap === undefined || !("kill" in mishap) || !url.endsWith(mishap.kill)) return exchange
        print(`  × The Bridge is killed before POST ${new URL(url).pathname}`)
        return Effect.die(new Killed())
      })
    )
  ).pipe(Layer.provide(FetchHttpClient.layer))

/** `fetch` that prints every request and response. */
const transcribed = (mishap?: Mishap): typeof fetch => {
  let lost = mishap !== undefined && "lose" in mishap ? mishap.lose : undefined
  return async (input, init) => {
    const { pathname } = new URL(String(input))
    const headers = new Headers(init?.headers)
    const sent = ["mcp-name", "authorization", "idempotency-key"].flatMap((name) =>
      headers.has(name) ? [`${name}: ${headers.get(name)}`] : []
    )
    print([`  ${init?.method ?? "GET"} ${pathname}`, ...sent].join("   "))
    const response = await fetch(input, init)
    const body = await response.text()
    const replayed = response.headers.get("idempotency-replayed") === null ? "" : " (replayed)"
    const [to] = response.headers.get("location")?.split("?") ?? []
    print(`    ${response.status}${replayed} ${to === undefined ? legible(body) : `to ${to}`}`)
    if (lost !== undefined && pathname.endsWith(lost)) {
      lost = undefined
      print("    × The response is lost.")
      throw new TypeError("lost")
    }
    return new Response(body, response)
  }
}

/** A page is reduced to its title. A tool's result is printed once, although MCP carries it both as text and as JSON. */
const legible = (body: string) => {
  if (!body.startsWith("{")) return /<title>(.*?)<\/title>/.exec(body)?.[1] ?? body
  const { result } = JSON.parse(body)
  return result === undefined
    ? body
    : result.isError === true
      ? result.content[0].text
      : JSON.stringify(result.structuredContent)
}

export const print = (line: string) => console.log(shown(line))

const temporary = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(join(tmpdir(), "bridge-demo-"))
    // The account that PostgreSQL runs under needs to traverse this folder.
    chmodSync(folder, 0o711)
    return folder
  }),
  (folder) =>
    Effect.sync(() => {
      const location = join(folder, "data", "location")
      if (existsSync(location)) rmSync(readFileSync(location, "utf8").trim(), { recursive: true, force: true })
      rmSync(folder, { recursive: true, force: true })
    })
)

const ownServer = Effect.fnUntraced(function* (scratch: string, more: Readonly<Record<string, string>>) {
  const port = yield* freePort
  const { DATABASE_URL: _, ...rest } = process.env
  const env: NodeJS.ProcessEnv = {
    ...rest,
    ...more,
    SERVICE_DATA_DIR: join(scratch, "data"),
    SERVICE_HOST: "127.0.0.1",
    SERVICE_PORT: String(port),
    SERVICE_BASE_URL: `http://127.0.0.1:${port}`,
    SERVICE_LOG_LEVEL: "Error"
  }
  yield* Console.log("Starting a server with a scratch database; both are removed at the end.")
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, node("src/main.ts"), { env, stdio: ["ignore", "ignore", "inherit"] })),
    stopped
  )
  yield* ready(`${env["SERVICE_BASE_URL"]}/readyz`, child)
  return env
})

const ready = (url: string, child: ChildProcess) =>
  Effect.tryPromise({
    try: () => fetch(url),
    catch: () => new DemoError({ message: "The server does not answer." })
  }).pipe(
    Effect.filterOrFail(
      ({ ok }) => ok,
      () => new DemoError({ message: "The server is not ready." })
    ),
    Effect.retry({ while: () => child.exitCode === null, schedule: Schedule.spaced("100 millis") }),
    Effect.timeout("60 seconds")
  )

const stopped = (child: ChildProcess) =>
  Effect.promise(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill("SIGTERM")
    await once(child, "exit")
  })
