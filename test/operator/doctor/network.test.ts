/** `doctor` checks proxy, base URL, certificate, APNs and disk: each problem with the message that the operator reads. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import * as http from "node:http"
import * as http2 from "node:http2"
import * as https from "node:https"
import { type AddressInfo, createServer } from "node:net"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import * as tls from "node:tls"
import { afterAll } from "vitest"
import { apns } from "../../../cli/support/checks/apns.ts"
import { baseUrl } from "../../../cli/support/checks/baseUrl.ts"
import { disk } from "../../../cli/support/checks/dataFolder.ts"
import { proxy } from "../../../cli/support/checks/proxy.ts"
import { server } from "../../../cli/support/checks/server.ts"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { throwAwayCertificate } from "../../support/phones/ThrowAwayCertificate.ts"

const folder = mkdtempSync(join(tmpdir(), "doctor-test-"))
const trusted = tls.getCACertificates("default")
afterAll(() => {
  tls.setDefaultCACertificates(trusted)
  rmSync(folder, { recursive: true })
})

const day = 86_400_000
const inDays = (days: number) => new Date(Math.ceil(Date.now() / 1000) * 1000 + days * day)

const listening = <Server extends tls.Server | http.Server | http2.Http2SecureServer | ReturnType<typeof createServer>>(
  make: () => Server
) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = make().listen(0, "127.0.0.1")
      await once(server, "listening")
      return { server, port: (server.address() as AddressInfo).port }
    }),
    ({ server }) => Effect.sync(() => server.close())
  )

/** The messages about an https server that answers `body`; this machine trusts its certificate unless `isTrusted` is false. */
const examined = Effect.fnUntraced(function* (
  certificate: Parameters<typeof throwAwayCertificate>[0] = {},
  { body = "", isTrusted = true, named = "" } = {}
) {
  const { cert, key } = throwAwayCertificate(certificate)
  if (isTrusted) tls.setDefaultCACertificates([...trusted, cert])
  const { port } = yield* listening(() =>
    https.createServer({ cert, key }, (_, response) => response.end(body === "" ? text : body))
  )
  const origin = `https://localhost:${port}`
  const resource = `${origin}/mcp`
  const text = JSON.stringify({ resource: named === "" ? resource : named })
  const checks = yield* baseUrl({ baseUrl: new URL(origin), resource })
  return checks.map(({ message, name, status }) => `${status} ${name}: ${message.replaceAll(origin, "https://HOST")}`)
})

describe("the base URL", () => {
  it.live("leads to this service, and its certificate is valid", () =>
    Effect.gen(function* () {
      const until = inDays(60)
      assert.deepStrictEqual(yield* examined({ until }), [
        "ok base_url: https://HOST leads to this service.",
        `ok certificate: The certificate of https://HOST is valid and expires on ${until.toISOString()}.`
      ])
    })
  )

  it.live("has a certificate that expires in ten days, has expired, is not valid yet, or is another host's", () =>
    Effect.gen(function* () {
      const until = inDays(10.5)
      assert.deepStrictEqual(yield* examined({ until }), [
        "ok base_url: https://HOST leads to this service.",
        `warn certificate: The certificate of https://HOST expires on ${until.toISOString()}, in 10 days: renew it.`
      ])
      const [, later] = yield* examined({ until: inDays(14.5) })
      assert.match(later!, /^ok certificate: /)
      assert.deepStrictEqual(yield* examined({ until: inDays(-1) }), [
        "fail certificate: https://HOST presents an expired certificate: renew it."
      ])
      assert.deepStrictEqual(yield* examined({ from: inDays(1) }), [
        "fail certificate: https://HOST presents a certificate that is not valid yet: check the clocks."
      ])
      assert.deepStrictEqual(yield* examined({ host: "elsewhere.example" }), [
        "fail certificate: https://HOST presents the certificate of another host: get one for this name."
      ])
    })
  )

  it.live("has a certificate of an authority that this machine does not trust", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* examined({}, { isTrusted: false }), [
        "warn certificate: https://HOST presents a certificate that this machine does not trust (DEPTH_ZERO_SELF_SIGNED_CERT). If your own authority signed it, install that authority on every client, and here name its file in NODE_EXTRA_CA_CERTS."
      ])
    })
  )

  it.live("leads to a page of the proxy, or to a service with another base URL", () =>
    Effect.gen(function* () {
      const page = yield* examined({}, { body: "<h1>Welcome to nginx</h1>" })
      assert.strictEqual(
        page[0],
        "warn base_url: https://HOST answers 200, but not as this service: check that the service runs and that the proxy forwards to it."
      )
      const other = yield* examined({}, { named: "https://old.example/mcp" })
      assert.strictEqual(
        other[0],
        "fail base_url: https://HOST leads to a service whose MCP address is https://old.example/mcp: set SERVICE_BASE_URL there to this address too."
      )
    })
  )

  it.live("cannot be reached", () =>
    Effect.gen(function* () {
      assert.deepInclude(yield* baseUrl({ baseUrl: new URL("https://localhost:1"), resource: "" }), {
        name: "base_url",
        status: "warn",
        message: "https://localhost:1 cannot be reached from this machine (ECONNREFUSED): check DNS and the proxy."
      })
    })
  )

  it.effect("accepts the connection but stays silent: the check gives up after five seconds", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => createServer())
      const origin = `https://localhost:${port}`
      const check = yield* Effect.forkChild(baseUrl({ baseUrl: new URL(origin), resource: "" }), {
        startImmediately: true
      })
      yield* TestClock.adjust("4999 millis")
      assert.isUndefined(check.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const message = `${origin} cannot be reached from this machine (no answer in 5 s): check DNS and the proxy.`
      assert.deepStrictEqual(yield* Fiber.join(check), [{ name: "base_url", status: "warn", message }])
    })
  )

  it.effect("is not checked without TLS: no proxy is involved", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* baseUrl({ baseUrl: new URL("http://127.0.0.1:8787"), resource: "" }), [])
    })
  )
})

describe("the proxy", () => {
  const examine = (trustedProxies: ReadonlyArray<string>, host = "127.0.0.1", url = "https://bridge.example") =>
    Effect.map(proxy({ baseUrl: new URL(url), http: { host, trustedProxies } as never }), (checks) =>
      checks.map(({ message, status }) => `${status} ${message}`)
    )
  const right = ["ok X-Forwarded-For is accepted from SERVICE_TRUSTED_PROXIES only."]

  it.effect.each([
    [["127.0.0.1"], "127.0.0.1", right],
    [["10.0.0.0/8"], "0.0.0.0", right],
    [["::1"], "::1", right],
    [
      [],
      "127.0.0.1",
      [
        "warn SERVICE_TRUSTED_PROXIES is empty: all callers appear with the proxy's address and share its rate limits. Set it to the proxy's address, such as 127.0.0.1."
      ]
    ],
    [
      ["::/0"],
      "127.0.0.1",
      [
        "fail SERVICE_TRUSTED_PROXIES trusts every address: any caller can forge X-Forwarded-For. Set it to the proxy's address only."
      ]
    ],
    [
      ["10.0.0.0/8"],
      "localhost",
      [
        "fail SERVICE_HOST accepts only connections from this machine, so the proxy connects from 127.0.0.1: add that address to SERVICE_TRUSTED_PROXIES."
      ]
    ],
    [["nginx"], "127.0.0.1", ["fail SERVICE_TRUSTED_PROXIES: nginx is not a network such as 10.0.0.0/8."]]
  ] as const)("%j with SERVICE_HOST %s: %j", ([networks, host, messages]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* examine(networks, host), [...messages])
    })
  )

  it.effect("is not checked without TLS", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* examine([], "127.0.0.1", "http://127.0.0.1:8787"), [])
    })
  )
})

describe("Apple's push service", () => {
  const { cert, key } = throwAwayCertificate()
  const file = (name: string, text: string) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  }
  const p8 = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ type: "pkcs8", format: "pem" })
  const keyFile = file("key.p8", p8 as string)
  const caFile = file("ca.pem", cert)

  const examine = (given: { readonly origin?: string; readonly keyFile?: string; readonly caFile?: string }) =>
    Effect.map(
      apns({
        push: {
          apns: { teamId: "T", keyId: "K", keyFile: given.keyFile ?? keyFile },
          caFile: given.caFile ?? caFile,
          environments: ["production"],
          origins: { production: given.origin ?? "https://127.0.0.1:1", development: "" }
        } as never
      }),
      (checks) => checks.map(({ message, status }) => `${status} ${message.replace(/:\d+ /, " ")}`)
    )

  it.effect("is not configured", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* apns({ push: { apns: undefined } as never }), [
        { name: "apns", status: "ok", message: "Not configured: notifications are only logged." }
      ])
    })
  )

  it.live("answers, and no request is sent to it", () =>
    Effect.gen(function* () {
      let requests = 0
      const { port } = yield* listening(() => http2.createSecureServer({ cert, key }, () => requests++))
      assert.deepStrictEqual(yield* examine({ origin: `https://localhost:${port}` }), [
        "ok https://localhost answers over HTTP/2; nothing was sent."
      ])
      assert.strictEqual(requests, 0)
    })
  )

  it.live("cannot be reached, has an untrusted certificate, or does not speak HTTP/2", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* examine({}), [
        "fail https://127.0.0.1 cannot be reached (ECONNREFUSED): allow outgoing connections to it."
      ])
      const untrusted = throwAwayCertificate()
      const other = yield* listening(() => http2.createSecureServer(untrusted))
      assert.deepStrictEqual(yield* examine({ origin: `https://localhost:${other.port}` }), [
        "fail https://localhost cannot be reached (DEPTH_ZERO_SELF_SIGNED_CERT): allow outgoing connections to it."
      ])
      const old = yield* listening(() =>
        tls.createServer({ cert, key }, (socket) => socket.end("HTTP/1.1 400\r\n\r\n"))
      )
      const [message] = yield* examine({ origin: `https://localhost:${old.port}` })
      assert.match(message!, /^fail https:\/\/localhost cannot be reached \(.+\): allow outgoing connections/)
    })
  )

  it.effect("accepts the connection but stays silent: the check gives up after five seconds", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => createServer())
      const check = yield* Effect.forkChild(examine({ origin: `https://localhost:${port}` }), {
        startImmediately: true
      })
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* Fiber.join(check), [
        "fail https://localhost cannot be reached (no answer in 5 s): allow outgoing connections to it."
      ])
    })
  )

  it.effect("needs a readable key and readable certificate authorities", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* examine({ keyFile: caFile }), [
        `fail SERVICE_APNS_KEY_FILE: ${caFile} holds no readable P-256 key (.p8).`
      ])
      assert.deepStrictEqual(yield* examine({ caFile: "/nowhere.pem" }), [
        "fail SERVICE_APNS_CA_FILE: /nowhere.pem holds no readable certificate (PEM)."
      ])
    })
  )
})

it("the disk has room, is filling up, or is almost full", () => {
  assert.deepStrictEqual([1024, 1023, 100, 99].map(disk), [
    { name: "disk", status: "ok", message: "1024 MiB are free." },
    { name: "disk", status: "warn", message: "Only 1023 MiB are free: free up space for the database." },
    { name: "disk", status: "warn", message: "Only 100 MiB are free: free up space for the database." },
    { name: "disk", status: "fail", message: "Only 99 MiB are free: free up space for the database." }
  ])
})

describe("the server", () => {
  const resource = "http://127.0.0.1:8787/mcp"
  const checked = (port: number) => server({ http: { host: "0.0.0.0", port }, resource } as Settings["Service"])
  const answering = (bodies: Readonly<Record<string, readonly [number, string]>>) =>
    listening(() =>
      http.createServer(({ url }, response) => {
        const [status, body] = bodies[url ?? ""] ?? [404, "Not found"]
        response.writeHead(status).end(body)
      })
    )
  /** Only Linux says who listens. */
  const me = process.platform === "linux" ? ` (${basename(process.execPath)}, process ${process.pid})` : ""
  const metadata = "/.well-known/oauth-protected-resource/mcp"
  const own = [200, JSON.stringify({ resource })] as const

  it.live.each<readonly [string, Readonly<Record<string, readonly [number, string]>>, string]>([
    ["runs", { [metadata]: own, "/readyz": [200, "{}"] }, "ok The server runs at AT, and is ready."],
    [
      "is not ready",
      { [metadata]: own, "/readyz": [503, "{}"] },
      "warn The server runs at AT, and is not ready: its log says why."
    ],
    [
      "has other settings",
      { [metadata]: [200, JSON.stringify({ resource: "https://other.example/mcp" })] },
      "warn The server at AT has another base URL (https://other.example/mcp): it runs with other settings."
    ],
    ["is another program", {}, `fail Another program answers at AT${me}: stop it, or set another SERVICE_PORT.`]
  ])("%s", ([, bodies, expected]) =>
    Effect.gen(function* () {
      const { port } = yield* answering(bodies)
      const [{ message, status } = { message: "", status: "" }] = yield* checked(port)
      assert.strictEqual(`${status} ${message}`.replace(`127.0.0.1:${port}`, "AT"), expected)
    })
  )

  it.live("does not run, or something that speaks no HTTP has its port", () =>
    Effect.gen(function* () {
      const silent = yield* listening(() => createServer((socket) => socket.end("220 mail\r\n")))
      const at = `127.0.0.1:${silent.port}`
      assert.deepStrictEqual(yield* checked(silent.port), [
        {
          name: "server",
          status: "fail",
          message: `What listens at ${at}${me} does not answer HTTP: stop it, or set another SERVICE_PORT.`
        }
      ])
      silent.server.close()
      assert.deepStrictEqual(yield* checked(silent.port), [
        { name: "server", status: "ok", message: `No server runs at ${at}.` }
      ])
    })
  )

  it.effect("has three seconds to answer", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => createServer())
      const checking = yield* Effect.forkChild(checked(port), { startImmediately: true })
      yield* TestClock.adjust("2999 millis")
      assert.isUndefined(checking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const [{ message, status } = { message: "", status: "" }] = yield* Fiber.join(checking)
      assert.strictEqual(status, "fail")
      assert.include(message, "does not answer HTTP")
    })
  )
})
