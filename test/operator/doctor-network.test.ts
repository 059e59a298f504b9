/** `doctor` on what lies around the service: each thing that can be wrong, in the words that it says to the operator. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import * as http2 from "node:http2"
import * as https from "node:https"
import { type AddressInfo, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as tls from "node:tls"
import { afterAll } from "vitest"
import { disk } from "../../cli/support/checks.ts"
import { address, apns, proxy } from "../../cli/support/networkChecks.ts"
import { throwAwayCertificate } from "../support/phones/ThrowAwayCertificate.ts"

const folder = mkdtempSync(join(tmpdir(), "doctor-test-"))
const trusted = tls.getCACertificates("default")
afterAll(() => {
  tls.setDefaultCACertificates(trusted)
  rmSync(folder, { recursive: true })
})

const day = 86_400_000
const inDays = (days: number) => new Date(Math.ceil(Date.now() / 1000) * 1000 + days * day)

const listening = <Server extends tls.Server | http2.Http2SecureServer | ReturnType<typeof createServer>>(
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

/** What a proxy shows that answers with `body`; this machine trusts its certificate unless told. */
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
  const checks = yield* address({ baseUrl: new URL(origin), resource })
  return checks.map(({ message, name, status }) => `${status} ${name}: ${message.replaceAll(origin, "https://HOST")}`)
})

describe("the address that clients are given", () => {
  it.live("leads here, and its certificate is good", () =>
    Effect.gen(function* () {
      const until = inDays(60)
      assert.deepStrictEqual(yield* examined({ until }), [
        "ok base_url: https://HOST leads to this service.",
        `ok certificate: The certificate of https://HOST is good; it ends on ${until.toISOString()}.`
      ])
    })
  )

  it.live("has a certificate that ends in ten days, has ended, is not valid yet, or is another host's", () =>
    Effect.gen(function* () {
      const until = inDays(10.5)
      assert.deepStrictEqual(yield* examined({ until }), [
        "ok base_url: https://HOST leads to this service.",
        `warn certificate: The certificate of https://HOST ends on ${until.toISOString()}, in 10 days: renew it.`
      ])
      assert.deepStrictEqual(yield* examined({ until: inDays(-1) }), [
        "fail certificate: https://HOST shows a certificate that has expired: renew it."
      ])
      assert.deepStrictEqual(yield* examined({ from: inDays(1) }), [
        "fail certificate: https://HOST shows a certificate that is not valid yet: is a clock wrong?"
      ])
      assert.deepStrictEqual(yield* examined({ host: "elsewhere.example" }), [
        "fail certificate: https://HOST shows the certificate of another host: get one for this name."
      ])
    })
  )

  it.live("has a certificate of an authority that this machine does not know", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* examined({}, { isTrusted: false }), [
        "warn certificate: https://HOST shows a certificate that this machine does not trust (DEPTH_ZERO_SELF_SIGNED_CERT): if its authority is your own, every client needs it, and here NODE_EXTRA_CA_CERTS."
      ])
    })
  )

  it.live("leads to a page of the proxy, or to a service of another name", () =>
    Effect.gen(function* () {
      const page = yield* examined({}, { body: "<h1>Welcome to nginx</h1>" })
      assert.strictEqual(
        page[0],
        "warn base_url: https://HOST answers 200, not as this service: does it run, does the proxy lead here?"
      )
      const other = yield* examined({}, { named: "https://old.example/mcp" })
      assert.strictEqual(
        other[0],
        "fail base_url: https://HOST leads to a service that calls itself https://old.example/mcp: set its SERVICE_BASE_URL too."
      )
    })
  )

  it.live("has nobody behind it", () =>
    Effect.gen(function* () {
      const baseUrl = new URL("https://localhost:1")
      assert.deepInclude(yield* address({ baseUrl, resource: "" }), {
        name: "base_url",
        status: "warn",
        message: "https://localhost:1 cannot be reached from here (ECONNREFUSED): name, proxy?"
      })
    })
  )

  it.effect("is this machine's own without TLS: there is nothing in between", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* address({ baseUrl: new URL("http://127.0.0.1:8787"), resource: "" }), [])
    })
  )
})

describe("the proxy in front", () => {
  const of = (trustedProxies: ReadonlyArray<string>, host = "127.0.0.1", url = "https://bridge.example") =>
    Effect.map(proxy({ baseUrl: new URL(url), http: { host, trustedProxies } as never }), (checks) =>
      checks.map(({ message, status }) => `${status} ${message}`)
    )
  const right = ["ok X-Forwarded-For is believed from the networks that are named."]

  it.effect.each([
    [["127.0.0.1"], "127.0.0.1", right],
    [["10.0.0.0/8"], "0.0.0.0", right],
    [["::1"], "::1", right],
    [
      [],
      "127.0.0.1",
      [
        "warn SERVICE_TRUSTED_PROXIES is empty: all callers share the proxy's address, and its rate limits. Name the proxy, such as 127.0.0.1."
      ]
    ],
    [["::/0"], "127.0.0.1", ["fail SERVICE_TRUSTED_PROXIES trusts everybody: any caller may choose its address."]],
    [
      ["10.0.0.0/8"],
      "localhost",
      [
        "fail SERVICE_HOST lets only this machine in, so the proxy comes from 127.0.0.1: SERVICE_TRUSTED_PROXIES has to name it."
      ]
    ],
    [["nginx"], "127.0.0.1", ["fail SERVICE_TRUSTED_PROXIES: nginx is not a network such as 10.0.0.0/8."]]
  ] as const)("%j at %s: %j", ([networks, host, said]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* of(networks, host), [...said])
    })
  )

  it.effect("is none without TLS", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* of([], "127.0.0.1", "http://127.0.0.1:8787"), [])
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

  const of = (given: { readonly origin?: string; readonly keyFile?: string; readonly caFile?: string }) =>
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

  it.live("answers; not one request is made", () =>
    Effect.gen(function* () {
      let requests = 0
      const { port } = yield* listening(() => http2.createSecureServer({ cert, key }, () => requests++))
      assert.deepStrictEqual(yield* of({ origin: `https://localhost:${port}` }), [
        "ok https://localhost answers over HTTP/2; nothing was sent."
      ])
      assert.strictEqual(requests, 0)
    })
  )

  it.live("cannot be reached, is not who it says, or speaks no HTTP/2", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* of({}), [
        "fail https://127.0.0.1 cannot be reached (ECONNREFUSED): outgoing connections to it have to be open."
      ])
      const stranger = throwAwayCertificate()
      const other = yield* listening(() => http2.createSecureServer(stranger))
      assert.deepStrictEqual(yield* of({ origin: `https://localhost:${other.port}` }), [
        "fail https://localhost cannot be reached (DEPTH_ZERO_SELF_SIGNED_CERT): outgoing connections to it have to be open."
      ])
      const old = yield* listening(() =>
        tls.createServer({ cert, key }, (socket) => socket.end("HTTP/1.1 400\r\n\r\n"))
      )
      const [said] = yield* of({ origin: `https://localhost:${old.port}` })
      assert.match(said!, /^fail https:\/\/localhost cannot be reached \(.+\): outgoing connections/)
    })
  )

  it.effect("takes the connection and says nothing: it is given up after five seconds", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => createServer())
      const looking = yield* Effect.forkChild(of({ origin: `https://localhost:${port}` }), { startImmediately: true })
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(yield* Fiber.join(looking), [
        "fail https://localhost cannot be reached (no answer in 5 s): outgoing connections to it have to be open."
      ])
    })
  )

  it.effect("has a key that is none, or authorities that are not there", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* of({ keyFile: caFile }), [
        `fail SERVICE_APNS_KEY_FILE: ${caFile} holds no readable P-256 key (.p8).`
      ])
      assert.deepStrictEqual(yield* of({ caFile: "/nowhere.pem" }), [
        "fail SERVICE_APNS_CA_FILE: /nowhere.pem holds no readable certificate (PEM)."
      ])
    })
  )
})

it("the disk is roomy, fills up, or is as good as full", () => {
  assert.deepStrictEqual([5000, 1023, 99].map(disk), [
    { name: "disk", status: "ok", message: "5000 MiB are free." },
    { name: "disk", status: "warn", message: "1023 MiB are free; make room for the database." },
    { name: "disk", status: "fail", message: "99 MiB are free; make room for the database." }
  ])
})
