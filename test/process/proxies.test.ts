/** deploy/nginx.conf in front of replicas that die while they handle a request: what it repeats, and what it does not. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"

const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      await once(server.listen(0, "127.0.0.1"), "listening")
      return (server.address() as AddressInfo).port
    }),
    () => Effect.promise(() => new Promise((resolve) => server.close(resolve)))
  )

/** A replica that sees a request and ends the connection. */
const dying = Effect.gen(function* () {
  const seen: Array<string> = []
  const port = yield* listening(
    createServer((request) => {
      seen.push(`${request.method} ${request.url}`)
      request.socket.destroy()
    })
  )
  return { port, seen }
})

const freePort = Effect.scoped(listening(createServer()))

/** nginx with the shipped file, without TLS. */
const nginx = Effect.fnUntraced(function* (ports: readonly [number, number]) {
  const home = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "proxies-test-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const port = yield* freePort
  const site = readFileSync(join(packageRoot, "deploy/nginx.conf"), "utf8")
    .replace(/^server \{\n {2}listen 80;[^]*?^\}\n/m, "")
    .replaceAll(/^ +(ssl_|listen \[::\]).*\n/gm, "")
    .replace("listen 443 ssl http2", `listen 127.0.0.1:${port}`)
    .replace("127.0.0.1:8787", `127.0.0.1:${ports[0]}`)
    .replace("127.0.0.1:8788", `127.0.0.1:${ports[1]}`)
  const written = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((of) => `${of}_temp_path ${home}/${of};`)
  const config = join(home, "nginx.conf")
  writeFileSync(
    config,
    `daemon off; pid ${home}/pid; events {}\nhttp { access_log off; ${written.join(" ")}\n${site}}\n`
  )
  yield* Effect.acquireRelease(
    Effect.sync(() => spawn("nginx", ["-p", home, "-e", join(home, "error.log"), "-c", config], { stdio: "ignore" })),
    (child) =>
      Effect.promise(async () => {
        const closed = once(child, "close")
        child.kill("SIGQUIT")
        await closed
      })
  )
  const url = `http://127.0.0.1:${port}`
  yield* Effect.tryPromise(() => fetch(url)).pipe(
    Effect.retry({ times: 100, schedule: Schedule.spaced("50 millis") }),
    Effect.orDie
  )
  return url
})

describe("deploy/nginx.conf", () => {
  it.live(
    "repeats a request under /bridge/v1/ at the other replica, but never one that carries a DPoP proof",
    (context) =>
      Effect.gen(function* () {
        if (spawnSync("nginx", ["-v"]).status !== 0) return context.skip("needs nginx")
        const [first, second] = [yield* dying, yield* dying]
        const url = yield* nginx([first.port, second.port])
        for (const [method, path] of [
          ["GET", "/bridge/v1/tokens/self"],
          ["POST", "/bridge/v1/tokens/rotate/prepare"]
        ] as const) {
          for (const [headers, times] of [
            [{}, 2],
            [{ dpop: "a.b.c" }, 1]
          ] as const) {
            first.seen.length = second.seen.length = 0
            const answer = yield* Effect.promise(() => fetch(`${url}${path}`, { method, headers }))
            assert.strictEqual(answer.status, 502)
            assert.deepStrictEqual([...first.seen, ...second.seen], Array(times).fill(`${method} ${path}`))
          }
        }
      }).pipe(Effect.scoped)
  )
})
