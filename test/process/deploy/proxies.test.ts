/** The shipped proxies in front of replicas that die while they handle a request: what they repeat, and what they do not. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../support/network/FreePort.ts"
import { packageRoot } from "../../support/run/Root.ts"

const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      await once(server.listen(0, "127.0.0.1"), "listening")
      return (server.address() as AddressInfo).port
    }),
    () => Effect.promise(() => new Promise((resolve) => server.close(resolve)))
  )

/** A replica that sees a request and ends the connection. To the proxy's own checks it is ready. */
const dying = Effect.gen(function* () {
  const seen: Array<string> = []
  const port = yield* listening(
    createServer((request, response) => {
      if (request.url === "/readyz") return void response.end()
      seen.push(`${request.method} ${request.url}`)
      request.socket.destroy()
    })
  )
  return { port, seen }
})

const scratch = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "proxies-test-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** Runs a proxy until the scope closes, and waits until it answers. */
const running = Effect.fnUntraced(function* (
  port: number,
  stop: NodeJS.Signals,
  program: string,
  ...args: ReadonlyArray<string>
) {
  yield* Effect.acquireRelease(
    Effect.sync(() => spawn(program, args, { stdio: "ignore" })),
    (child) =>
      Effect.promise(async () => {
        const closed = once(child, "close")
        child.kill(stop)
        await closed
      })
  )
  const url = `http://127.0.0.1:${port}`
  yield* Effect.tryPromise(() => fetch(`${url}/readyz`)).pipe(
    Effect.retry({ times: 100, schedule: Schedule.spaced("50 millis") }),
    Effect.orDie
  )
  return url
})

type Ports = readonly [number, number]

/** nginx with the shipped file, without TLS. */
const nginx = Effect.fnUntraced(function* (ports: Ports) {
  const home = yield* scratch
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
  return yield* running(port, "SIGQUIT", "nginx", "-p", home, "-e", join(home, "error.log"), "-c", config)
})

/** HAProxy with the shipped file, without TLS. */
const haproxy = Effect.fnUntraced(function* (ports: Ports) {
  const port = yield* freePort
  const config = join(yield* scratch, "haproxy.cfg")
  const shipped = readFileSync(join(packageRoot, "deploy/haproxy.cfg"), "utf8")
    .replaceAll(/^ +(log |option httplog|http-request redirect|bind :80).*\n/gm, "")
    .replace(/bind :443 .*/, `bind 127.0.0.1:${port}`)
    .replace("127.0.0.1:8787", `127.0.0.1:${ports[0]}`)
    .replace("127.0.0.1:8788", `127.0.0.1:${ports[1]}`)
  writeFileSync(config, shipped)
  return yield* running(port, "SIGTERM", "haproxy", "-db", "-f", config)
})

describe.each([
  ["deploy/nginx.conf", nginx, 2],
  ["deploy/haproxy.cfg", haproxy, 4]
] as const)("%s", (file, proxy, most) => {
  it.live(
    "repeats a request under /bridge/v1/ at the other replica, but never one that carries a DPoP proof",
    (context) =>
      Effect.gen(function* () {
        const program = proxy === nginx ? "nginx" : "haproxy"
        if (spawnSync(program, ["-v"]).status !== 0) return context.skip(`${file} needs ${program}`)
        const [first, second] = [yield* dying, yield* dying]
        const url = yield* proxy([first.port, second.port])
        for (const [method, path, otherwise] of [
          ["GET", "/bridge/v1/tokens/self", most],
          ["POST", "/bridge/v1/tokens/rotate/prepare", most],
          ["POST", "/bridge/v1/keys/rotate/confirm", most],
          ["POST", "/mcp", 1],
          ["POST", "/token", 1]
        ] as const) {
          for (const [headers, times] of [
            [{}, otherwise],
            [{ dpop: "a.b.c" }, 1]
          ] as const) {
            first.seen.length = second.seen.length = 0
            // When a connection to a replica that it has used before ends, HAProxy ends the one to the client.
            const status = yield* Effect.promise(() =>
              fetch(`${url}${path}`, { method, headers }).then(
                ({ status }) => status,
                () => "no answer"
              )
            )
            assert.include([502, "no answer"], status)
            assert.deepStrictEqual([...first.seen, ...second.seen], Array(times).fill(`${method} ${path}`))
            if (times > 1) assert.isNotEmpty(second.seen)
          }
        }
      }).pipe(Effect.scoped)
  )
})
