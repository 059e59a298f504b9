/** The compiled edge and the router answer alike, byte for byte (decisions.md, The compiled edge). */
import { assert, it } from "@effect/vitest"
import { Context, Effect, Metric } from "effect"
import { OpenApi } from "effect/http-api"
import { randomUUID } from "node:crypto"
import { fingerprint } from "../../../src/platform/crypto/Fingerprint.ts"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { Shortcuts } from "../../../src/platform/edge/compiled/Compiled.ts"
import { Listeners } from "../../../src/platform/edge/Listener.ts"
import { Api } from "../../../src/wire/Api.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { type Endpoint, endpoints, proofFor } from "../../support/bridges/signatures/DpopProofs.ts"
import { confirmBody } from "../../support/bridges/KeyRotations.ts"
import { exchange } from "../../support/network/Raw.ts"
import { recording } from "../../support/run/Lines.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { makePhone } from "../../support/phones/Phone.ts"
import { instance } from "../../support/service/Service.ts"

type Settings = Parameters<typeof instance>[0]

/** One service without the compiled edge, and one with it, on one database. */
const bothWays = (settings: Settings = {}) =>
  Effect.all(
    [false, true].map((compiles) =>
      Effect.gen(function* () {
        const recorded = recording()
        const on = yield* recorded.record(Effect.provideService(instance(settings), Shortcuts, compiles))
        return { ...on, recorded }
      })
    )
  )
type Way = Effect.Success<ReturnType<typeof bothWays>>[number]

interface Raw {
  readonly method: string
  readonly path: string
  /** In this order, and repeated as often as they are given. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body?: string | Buffer
  readonly chunked?: boolean
}

const bytesOf = ({ body = "", chunked = false, headers, method, path }: Raw) => {
  const bytes = Buffer.from(body)
  const framing: Raw["headers"] = chunked
    ? [["transfer-encoding", "chunked"]]
    : bytes.length > 0 || method === "POST"
      ? [["content-length", String(bytes.length)]]
      : []
  const lines = [["host", "localhost"], ["connection", "close"], ...headers, ...framing]
  const head = `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`
  const chunks = [`${bytes.length.toString(16)}\r\n`, bytes, "\r\n0\r\n\r\n"].map((part) => Buffer.from(part))
  return Buffer.concat([Buffer.from(head, "latin1"), ...(chunked ? chunks : [bytes])])
}

/** What differs between two requests for the same thing: ids, secrets, times. */
const masked = (text: string) =>
  text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "<id>")
    .replaceAll(/\bsb[et]_\w{49}/g, "<token>")
    .replaceAll(/sha256:[0-9a-f]{64}/g, "<fingerprint>")
    .replaceAll(/"nonce_b64":"[\w-]{43}"/g, '"nonce_b64":"<nonce>"')
    .replaceAll(/"token_fingerprint":"[0-9a-f]{4}"/g, '"token_fingerprint":"<digits>"')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
    .replaceAll(/"fiberId":"#\d+"/g, '"fiberId":"<fiber>"')

const ask = (way: Way, raw: Raw) => Effect.map(exchange(way.url, bytesOf(raw)), masked)

/** The requests that were counted, by method, route and status. */
const requestsCounted = Effect.map(Metric.snapshot, (metrics) =>
  Object.fromEntries(
    metrics.flatMap((metric) =>
      metric.id === "service_http_requests_total" && metric.type === "Counter"
        ? [[JSON.stringify(metric.attributes), Number(metric.state.count)]]
        : []
    )
  )
)

/** Runs the same on each way. Answers, log lines, spans and counters must be the same. */
const compared = Effect.fnUntraced(function* (
  ways: ReadonlyArray<Way>,
  run: (way: Way) => Effect.Effect<ReadonlyArray<readonly [what: string, answer: string]>, unknown, TestDatabase>
) {
  const [router, compiled] = yield* Effect.forEach(ways, (way) =>
    Effect.gen(function* () {
      const before = yield* requestsCounted
      const { lines, spansAsText } = way.recorded
      const [linesBefore, spansBefore] = [lines.length, spansAsText().length]
      const answers = yield* run(way)
      const counted = Object.entries(yield* requestsCounted).map(([key, count]) => [key, count - (before[key] ?? 0)])
      return {
        answers,
        counted: counted.filter(([, count]) => count !== 0).toSorted(),
        lines: lines.slice(linesBefore).map(masked).toSorted(),
        spans: spansAsText()
          .slice(spansBefore)
          .filter((span) => span.startsWith('["Http.request"'))
          .map(masked)
          .toSorted()
      }
    })
  )
  for (const [index, [what, answer]] of router!.answers.entries()) {
    assert.deepStrictEqual(compiled!.answers[index], [what, answer], what)
  }
  assert.deepStrictEqual(compiled!.counted, router!.counted)
  assert.deepStrictEqual(compiled!.lines, router!.lines)
  assert.deepStrictEqual(compiled!.spans, router!.spans)
  return router!
})

const paths = Object.entries(OpenApi.fromApi(Api).paths).flatMap(([path, operations]) =>
  Object.keys(operations).map((method) => ({
    path: path.replaceAll(/\{\w+\}/g, "01990000-0000-7000-8000-000000000001"),
    method: method.toUpperCase()
  }))
)

const valid: Readonly<Record<string, object>> = {
  "/bridge/v1/tokens/rotate/confirm": { rotation_id: randomUUID() },
  "/bridge/v1/tokens/rotate/abort": { rotation_id: randomUUID() },
  "/bridge/v1/keys/rotate/prepare": { public_key_fingerprint: `sha256:${"0".repeat(64)}` },
  "/bridge/v1/keys/rotate/abort": { key_rotation_id: randomUUID() }
}

/** A request that is almost right, and what can be wrong with it. */
const variants = (method: string, path: string, credential: string): ReadonlyArray<readonly [string, Raw]> => {
  const authorization = ["authorization", `Bearer ${credential}`] as const
  const key = ["idempotency-key", "a-key"] as const
  const json = ["content-type", "application/json"] as const
  const hasBody = method !== "GET"
  const usual = [authorization, key, ...(hasBody ? [json] : [])]
  const body = JSON.stringify(valid[path] ?? {})
  const raw = (given: Partial<Raw>): Raw => ({ method, path, headers: usual, ...(hasBody && { body }), ...given })
  const withHeaders = (...headers: Raw["headers"]) => raw({ headers })
  const bodies: Readonly<Record<string, string | Buffer>> = {
    nothing: "",
    "half an object": '{"rotation_id":',
    "an array": "[]",
    null: "null",
    "another field": JSON.stringify({ ...valid[path], more: 1 }),
    "another type": JSON.stringify({ rotation_id: 7, public_key_fingerprint: 7, key_rotation_id: 7 }),
    "no UTF-8": Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]),
    "a byte order mark": `\ufeff${body}`,
    "16 KiB": `${body}${" ".repeat(16_384 - body.length)}`,
    "more than 16 KiB": `${body}${" ".repeat(16_385 - body.length)}`,
    "300 KiB": `${body}${" ".repeat(300 * 1024)}`
  }
  return [
    ["no credential", withHeaders(key, json)],
    ["an empty credential", withHeaders(["authorization", "Bearer "], key, json)],
    ["two spaces", withHeaders(["authorization", `Bearer  ${credential}`], key, json)],
    ["another scheme", withHeaders(["authorization", "Basic eDp5"], key, json)],
    ["the scheme DPoP", withHeaders(["authorization", `DPoP ${credential}`], key, json)],
    ["two credentials", withHeaders(authorization, ["authorization", "Bearer other"], key, json)],
    ["an unknown credential", withHeaders(["authorization", `Bearer sbt_${"x".repeat(49)}`], key, json)],
    ["a proof of another kind", raw({ headers: [...usual, ["dpop", "no proof"]] })],
    ["no key", withHeaders(authorization, json)],
    ["an empty key", withHeaders(authorization, ["idempotency-key", " "], json)],
    ["a key that is too long", withHeaders(authorization, ["idempotency-key", "k".repeat(256)], json)],
    ["a key that is not ASCII", withHeaders(authorization, ["idempotency-key", "k\u00fc"], json)],
    ["two keys", withHeaders(authorization, key, ["idempotency-key", "other"], json)],
    ["two media types", withHeaders(authorization, key, json, ["content-type", "text/plain"])],
    ["text", withHeaders(authorization, key, ["content-type", "text/plain"])],
    ["no media type", withHeaders(authorization, key)],
    ["a charset", withHeaders(authorization, key, ["content-type", "Application/JSON ; charset=latin1"])],
    ["If-Match", raw({ headers: [...usual, ["if-match", '"1", *']] })],
    ["a hostile user agent", raw({ headers: [...usual, ["user-agent", `\u001b[2J ${"x".repeat(300)}`]] })],
    ["a forged address", raw({ headers: [...usual, ["x-forwarded-for", "203.0.113.7"]] })],
    ["an upgrade", raw({ headers: [...usual, ["upgrade", "websocket"], ["connection", "upgrade"]] })],
    ["a slash", raw({ path: `${path}/` })],
    ["a query", raw({ path: `${path}?x=1` })],
    ["a fragment", raw({ path: `${path}#x` })],
    ["two slashes", raw({ path: path.replace("/v1/", "/v1//") })],
    ["capitals", raw({ path: path.replace("bridge", "Bridge") })],
    ["an encoded letter", raw({ path: path.replace("bridge", "%62ridge") })],
    ["an encoded slash", raw({ path: path.replace("v1/", "v1%2f") })],
    ["an absolute address", raw({ path: `http://localhost${path}` })],
    ...["HEAD", "OPTIONS", "GET", "POST", "PUT", "DELETE", "PROPFIND"].map(
      (other) => [other, raw({ method: other })] as const
    ),
    ...Object.entries(hasBody ? bodies : {}).flatMap(
      ([name, body]) =>
        [
          [`a body with ${name}`, raw({ body })],
          [`the same in chunks`, raw({ body, chunked: true })]
        ] as const
    )
  ]
}

/** Ids in a path that the compiled edge takes, and some that it leaves to the router. */
const ids = ["x", "0".repeat(64), "0".repeat(65), "0".repeat(200), "%30", "a.b", "a b", "a%2fb", ""]

it.effect("answers every request that is refused as the router does", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const ways = yield* bothWays({ SERVICE_LOG_LEVEL: "Info" })
      const [router] = ways
      const bridge = yield* Bridge.make(router!)
      const credentials = {
        enrollment: (yield* Bridge.make(router!)).credential,
        mobile: (yield* makePerson(router!)).bearer,
        tokens: yield* bridge.enroll(router!)
      }
      const credentialFor = (path: string) =>
        path.includes("/enrollment/")
          ? credentials.enrollment
          : path.includes("/mobile/")
            ? credentials.mobile
            : credentials.tokens
      // These succeed and change what the others meet.
      const changes = ["/bridge/v1/tokens/rotate/prepare", "/bridge/v1/tokens/revoke"]
      const requests = paths.flatMap(({ method, path }) => {
        const credential = changes.includes(path) ? "sbt_of_nobody" : credentialFor(path)
        return variants(method, path, credential).map(([name, raw]) => [`${method} ${path}, ${name}`, raw] as const)
      })
      const devices = ids.map(
        (id) =>
          [
            `the device ${id}`,
            {
              method: "GET",
              path: `/bridge/v1/mobile/devices/${id}`,
              headers: [["authorization", `Bearer ${credentials.mobile}`]]
            }
          ] as const
      )
      yield* compared(ways, (way) =>
        Effect.forEach(
          [...requests, ...devices],
          ([what, raw]) => Effect.map(ask(way, raw), (answer) => [what, answer] as const),
          { concurrency: 8 }
        )
      )
    })
  ).pipe(Effect.provide(TestDatabase.sql))
)

/** The life of a Bridge and of a phone; each answer that a client would act on, and the exact retry of each change. */
const life = (way: Way) =>
  Effect.gen(function* () {
    const answers: Array<readonly [string, string]> = []
    const send = Effect.fnUntraced(function* (what: string, raw: Raw) {
      const answer = yield* exchange(way.url, bytesOf(raw))
      answers.push([what, masked(answer)])
      return JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")) || "null")
    })
    const twice = (what: string, raw: Raw) => Effect.tap(send(what, raw), () => send(`${what}, again`, raw))
    const post = (path: string, headers: Raw["headers"], body?: object): Raw => ({
      method: "POST",
      path: `/bridge/v1${path}`,
      headers: body === undefined ? headers : [...headers, ["content-type", "application/json"]],
      ...(body !== undefined && { body: JSON.stringify(body) })
    })
    const key = (name: string) => ["idempotency-key", name] as const
    const bearer = (token: string) => ["authorization", `Bearer ${token}`] as const

    const bridge = yield* Bridge.make(way)
    const challenge = yield* twice(
      "challenge",
      post("/enrollment/challenges", [bearer(bridge.credential), key("e1")], bridge.challengeBody)
    )
    const proof = yield* bridge.proofBody({ body: challenge })
    const { access_token } = yield* twice("proof", post("/enrollment/proofs", [key("p1")], proof))
    const self = (token: string): Raw => ({ method: "GET", path: "/bridge/v1/tokens/self", headers: [bearer(token)] })
    yield* send("self", self(access_token))
    const prepared = yield* twice("prepare", post("/tokens/rotate/prepare", [bearer(access_token), key("r1")]))
    yield* send("another prepare", post("/tokens/rotate/prepare", [bearer(access_token), key("r2")]))
    const end = { rotation_id: prepared.rotation_id }
    const token = prepared.successor_token
    yield* twice("confirm", post("/tokens/rotate/confirm", [bearer(token), key("c1")], end))
    yield* send("a late abort", post("/tokens/rotate/abort", [bearer(token), key("a1")], end))
    yield* send("the revoked predecessor", self(access_token))

    const proven = (endpoint: Endpoint, name: string, body: object) =>
      Effect.flatMap(proofFor(bridge.keys, endpoint, token), (dpop) =>
        send(endpoint, post(endpoints[endpoint][1].slice(10), [bearer(token), key(name), ["dpop", dpop]], body))
      )
    const next = yield* generateKeyPair
    const declared = { public_key_fingerprint: fingerprint(next.publicKey) }
    const aborted = yield* proven("prepareKey", "k1", declared)
    yield* proven("abortKey", "k2", { key_rotation_id: aborted.key_rotation_id })
    const keyPrepared = yield* proven("prepareKey", "k3", declared)
    yield* proven("confirmKey", "k4", yield* confirmBody(keyPrepared, bridge.keys, next))
    yield* send("held to its key", self(token))
    yield* send("revoke", post("/tokens/revoke", [bearer(token)]))

    const phone = yield* makePerson(way)
    const registration = makePhone(way, phone).body()
    const device = yield* twice("register", post("/mobile/devices", [bearer(phone.bearer), key("d1")], registration))
    yield* send("register the same", post("/mobile/devices", [bearer(phone.bearer)], registration))
    const of = `/mobile/devices/${device.device_id}`
    yield* send("device", { method: "GET", path: `/bridge/v1${of}`, headers: [bearer(phone.bearer)] })
    const preferences = { kinds: {}, minimum_priority: "low", quiet_hours: null, paused_until: null }
    const prefer = (version: string): Raw => ({
      ...post(`${of}/preferences`, [bearer(phone.bearer), ["if-match", version]], preferences),
      method: "PUT"
    })
    yield* send("prefer", prefer('"1"'))
    yield* send("prefer at an old version", prefer('"1"'))
    yield* twice("revoke the device", post(`${of}/revoke`, [bearer(phone.bearer)]))
    yield* send("key for browsers", { method: "GET", path: "/bridge/v1/mobile/web-push-key", headers: [] })
    return answers
  })

it.effect("answers the life of a Bridge and of a phone as the router does", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const ways = yield* bothWays({ SERVICE_LOG_LEVEL: "Debug", SERVICE_APNS_TOPICS: "com.example.app" })
      const { answers } = yield* compared(ways, life)
      assert.includeMembers(
        answers.map(([, answer]) => answer.slice(9, 12)),
        ["200", "201", "409", "412"]
      )
    })
  ).pipe(Effect.provide(TestDatabase.sql))
)

it.effect("limits as the router does", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const ways = yield* bothWays({ SERVICE_RATE_LIMITS: "on" })
      const unknown = {
        method: "GET",
        path: "/bridge/v1/tokens/self",
        headers: [["authorization", "Bearer x"]]
      } as const
      const { answers } = yield* compared(ways, (way) =>
        Effect.forEach(Array.from({ length: 202 }), (_, index) =>
          Effect.map(ask(way, unknown), (answer) => [`request ${index}`, answer] as const)
        )
      )
      assert.match(answers.at(-1)![1], /^HTTP\/1.1 429 .*retry-after: 1\r\n/s)
    })
  ).pipe(Effect.provide(TestDatabase.sql))
)

it.effect("serves every endpoint of the contract", () =>
  Effect.scoped(
    Effect.gen(function* () {
      const { services } = yield* instance()
      const listeners = Context.get(services, Listeners)
      for (const { method, path } of paths) assert.isDefined(listeners.of({ method, url: path }), `${method} ${path}`)
      assert.isUndefined(listeners.of({ method: "GET", url: "/" }))
    })
  ).pipe(Effect.provide(TestDatabase.sql))
)
