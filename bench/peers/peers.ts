/** Starts the servers that the service is compared with. */
import { Effect, Schedule } from "effect"
import { execFile, fork, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { end } from "../../test/support/database/PostgresUser.ts"
import { open } from "../support/load/connection.ts"
import { type Bench, freePort, poolSize, started } from "../support/harness.ts"
import type { Raw } from "./raw.ts"
import { redirect_uri } from "../support/seeds.ts"
import type { Recorded } from "../support/statements.ts"

const isInstalled = (program: string) => spawnSync(program, ["--version"]).error === undefined

/** Starts raw.ts with these statements. */
export const raw = Effect.fnUntraced(function* (
  { database }: Pick<Bench, "database">,
  statements: ReadonlyArray<Recorded>
) {
  const port = yield* freePort
  const argument = JSON.stringify({ database, port, poolSize, statements } satisfies Raw)
  const child = yield* started(["bench/peers/raw.ts", argument])
  const url = `http://127.0.0.1:${port}`
  yield* listening(url)
  return { url, pid: child.pid! }
})

/** Let's Encrypt's ACME test server, from Debian: TLS, everything in memory. Undefined if it is not installed. */
export const pebble = Effect.gen(function* () {
  if (!isInstalled("pebble") || !isInstalled("openssl")) return undefined
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "bridge-service-bench-"))),
    (made) => Effect.sync(() => rmSync(made, { recursive: true }))
  )
  const [certificate, privateKey] = [join(folder, "cert.pem"), join(folder, "key.pem")]
  const flags = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
  yield* Effect.promise(() =>
    promisify(execFile)("openssl", ["req", ...flags, "-out", certificate, "-keyout", privateKey])
  )
  const [port, management] = [yield* freePort, yield* freePort]
  const listenAddress = `127.0.0.1:${port}`
  const config = join(folder, "config.json")
  const settings = { listenAddress, managementListenAddress: `127.0.0.1:${management}`, certificate, privateKey }
  writeFileSync(config, JSON.stringify({ pebble: { ...settings, httpPort: 5002, tlsPort: 5001 } }))
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      // By default it rejects some valid nonces, to test clients.
      spawn("pebble", ["-config", config], { env: { PEBBLE_WFE_NONCEREJECT: "0" }, stdio: "ignore" })
    ),
    (process) => end(process, "SIGTERM")
  )
  const url = `https://${listenAddress}`
  yield* listening(url)
  return { url, pid: child.pid! }
})

/** oidc-provider on this database, or in memory; `codes` creates authorization codes without its pages. */
export const oidcProvider = Effect.fnUntraced(function* (database?: Bench["database"]) {
  const storage = database === undefined ? [] : [JSON.stringify({ ...database, max: poolSize })]
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      fork("bench/peers/oidc-provider.mjs", [redirect_uri, ...storage], {
        env: { NODE_ENV: "production" },
        stdio: ["ignore", "ignore", "inherit", "ipc"]
      })
    ),
    (running) => end(running, "SIGTERM")
  )
  const answer = Effect.map(
    Effect.promise(() => once(child, "message")),
    ([message]) => message
  )
  const { port } = yield* answer
  const codes = (count: number, code_challenge: string): Effect.Effect<ReadonlyArray<string>> =>
    Effect.andThen(
      Effect.sync(() => child.send({ count, code_challenge })),
      answer
    )
  return { url: `http://127.0.0.1:${port}`, pid: child.pid!, client_id: "bench", codes }
})

export const listening = (url: string) =>
  Effect.tryPromise(async () => (await open(url)).close()).pipe(
    Effect.retry(Schedule.spaced("20 millis")),
    Effect.timeout("10 seconds")
  )
