/** The edge: what every answer has, and what is refused before a domain sees the request (spec 2.7, 4, 7.1). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Effect, Option, Redacted, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { METHODS } from "node:http"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { networks } from "../../../src/platform/edge/Addresses.ts"
import { Api } from "../../../src/wire/Api.ts"
import { Base64Bytes, BridgeId, Fingerprint, Id, IdempotencyKey, nil, Uuid } from "../../../src/wire/Ids.ts"
import { hasPassed, Instant, secondsUntil } from "../../../src/wire/Instant.ts"
import { answer as answerTo, Refusal } from "../../../src/wire/Refusal.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { assertRefusal } from "../../support/bridges/Codes.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { recording } from "../../support/run/Lines.ts"
import { exchange, request } from "../../support/network/Raw.ts"
import { unchanged } from "../../support/database/Rows.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { ask, challenged, fresh, prove } from "../../support/bridges/Steps.ts"

const challenges = "/bridge/v1/enrollment/challenges"
const proofs = "/bridge/v1/enrollment/proofs"
const json = { "content-type": "application/json" }

const isRefusal = (answer: Answer, status: number, code: string) => {
  assert.deepStrictEqual([answer.status, answer.code], [status, code], answer.text)
  assertRefusal(answer)
}

/** Path -> the methods it serves. */
const served: Readonly<Record<string, ReadonlyArray<string>>> = {
  ...Object.fromEntries(
    Object.entries(OpenApi.fromApi(Api).paths).map(([path, operations]) => [
      path.replaceAll(/\{\w+\}/g, "7b8f1c1e-0f4e-4d0c-9a5e-111111111111"),
      Object.keys(operations).map((method) => method.toUpperCase())
    ])
  ),
  "/healthz": ["GET"],
  "/readyz": ["GET"],
  "/openapi.json": ["GET"],
  "/": ["GET"],
  "/docs": ["GET"]
}

layer(Service.layer)("a route", (it) => {
  for (const [path, methods] of Object.entries(served)) {
    it.effect(`${path} serves ${methods.join(", ")}; every other method is refused with Allow`, () =>
      Effect.gen(function* () {
        const { url } = yield* Service
        const heads = methods.includes("GET") ? ["HEAD"] : []
        const others = METHODS.filter((one) => ![...methods, ...heads, "CONNECT"].includes(one))
        const answers = yield* Effect.forEach(others, (method) => request(url, method, path), { concurrency: 8 })
        for (const answer of answers) {
          assert.strictEqual(answer.status, 405)
          assert.sameMembers(answer.headers.get("allow")!.split(", "), [...methods, ...heads])
          // The answer to HEAD has no body.
          if (answer.text !== "") isRefusal(answer, 405, "method_not_allowed")
        }
      })
    )
  }

  it.effect("is found by its exact path only", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const strays = [
        "/Healthz",
        "/healthz/",
        "//healthz",
        "/healthz/x",
        "/bridge",
        "/bridge/v1/enrollment",
        challenges.toUpperCase(),
        `${challenges}/`,
        challenges.replace("/v1/", "/v1//"),
        challenges.replace("v1", "V1"),
        `${challenges}%00`,
        "/bridge/v1/../v1/enrollment/proofs",
        "/%",
        "/%ff",
        "/%c3%bf",
        "*"
      ]
      for (const path of strays) isRefusal(yield* request(url, "POST", path), 404, "not_found")
    })
  )

  it.effect("has the same address with a query", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      isRefusal(yield* request(url, "POST", `${challenges}?a=%ff&b`), 401, "bridge_enrollment_credential_required")
    })
  )
})

layer(Service.layer)("a header that is sent twice", (it) => {
  it.effect("makes the credential malformed, whichever of the two is valid", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { challengeBody, credential } = yield* fresh()
      for (const [authorization, Authorization] of [
        [credential, "x"],
        ["x", credential]
      ].map((both) => both.map((one) => `Bearer ${one}`))) {
        const headers = {
          ...json,
          "idempotency-key": "k",
          authorization: authorization!,
          Authorization: Authorization!
        }
        const answer = yield* unchanged(request(url, "POST", challenges, headers, JSON.stringify(challengeBody)))
        isRefusal(answer, 401, "bridge_enrollment_credential_invalid")
      }
    })
  )

  it.effect("makes the media type another one", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const headers = { ...json, "Content-Type": "application/json", "idempotency-key": "k" }
      isRefusal(yield* request(url, "POST", proofs, headers, "{}"), 415, "unsupported_media_type")
    })
  )
})

layer(Service.layer)("a body", (it) => {
  /** The proof endpoint's answer to these bytes. */
  const posted = (body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}) =>
    Effect.flatMap(Service, ({ url }) =>
      request(url, "POST", proofs, { "idempotency-key": "k", ...json, ...headers }, body)
    )

  const chunk = (body: string) => `${body.length.toString(16)}\r\n${body}\r\n`
  const chunked = (body: string) =>
    Effect.flatMap(Service, ({ url }) =>
      Effect.map(
        exchange(
          url,
          `POST ${proofs} HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-type: application/json\r\n` +
            `connection: close\r\ntransfer-encoding: chunked\r\n\r\n${body}0\r\n\r\n`
        ),
        (text) => [text.slice(9, 12), /"code":"(\w+)"/.exec(text)?.[1]]
      )
    )

  it.effect("of more than 16 KiB is refused by its announced length", () =>
    Effect.gen(function* () {
      isRefusal(yield* posted(" ".repeat(16 * 1024 + 1)), 413, "payload_too_large")
    })
  )

  it.effect("of exactly 16 KiB is read", () =>
    Effect.gen(function* () {
      isRefusal(yield* posted(" ".repeat(16 * 1024)), 400, "invalid_request")
    })
  )

  it.effect("of more than 16 KiB is refused in chunks too", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* chunked(chunk(" ".repeat(10_000)).repeat(2)), ["413", "payload_too_large"])
    })
  )

  it.effect("in chunks is read", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* chunked(chunk("{") + chunk("}")), ["400", "invalid_request"])
    })
  )

  it.effect("that is not declared as JSON is refused", () =>
    Effect.gen(function* () {
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x"]) {
        // A browser gets a page only for an address that does not exist.
        const refused = yield* posted("{}", { "content-type": type, accept: "text/html" })
        isRefusal(refused, 415, "unsupported_media_type")
      }
    })
  )

  it.effect("may name its character set", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const body = JSON.stringify(yield* bridge.proofBody(challenge))
      const answer = yield* posted(body, { "content-type": "Application/JSON; charset=UTF-8" })
      assert.strictEqual(answer.status, 200, answer.text)
    })
  )

  const malformed: Readonly<Record<string, string | Uint8Array>> = {
    empty: "",
    "not JSON": "{",
    "two values": "{} {}",
    "null, not an object": "null",
    "an array, not an object": "[]",
    "a number, not an object": "1e999",
    "without its fields": "{}",
    "with __proto__": '{"__proto__":{"project_id":"x"}}',
    "nested 8,000 deep": "[".repeat(8000) + "]".repeat(8000),
    "in UTF-16": Buffer.from("{}", "utf16le")
  }
  for (const [name, body] of Object.entries(malformed)) {
    it.effect(`that is ${name} is malformed`, () =>
      Effect.gen(function* () {
        isRefusal(yield* posted(body), 400, "invalid_request")
      })
    )
  }

  it.effect("with a duplicate field uses the last one, as any JSON parser does", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const body = JSON.stringify(yield* bridge.proofBody(challenge))
      const answer = yield* posted(body.replace("{", '{"challenge_id":"x",'))
      assert.strictEqual(answer.status, 200, answer.text)
    })
  )

  it.effect("that is not UTF-8 is malformed", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const bridge = yield* fresh()
      const bytes = Buffer.from(JSON.stringify({ ...bridge.challengeBody, display_name: "caf~~" }))
      const broken = [
        [0xff, 0xff],
        [0xc3, 0x28],
        [0xc0, 0xaf],
        [0xed, 0xa0]
      ]
      for (const [first, second] of broken) {
        const body = Buffer.from(bytes)
        body.set([first!, second!], body.indexOf("~~"))
        const headers = { ...json, authorization: `Bearer ${bridge.credential}`, "idempotency-key": "k" }
        isRefusal(yield* unchanged(request(url, "POST", challenges, headers, body)), 400, "invalid_request")
      }
    })
  )

  const notText: Readonly<Record<string, unknown>> = {
    empty: "",
    "white space": " \t ",
    "with NUL": "a\0b",
    "with a control character": "a\u001bb",
    "with a line break": "a\nb",
    "with a C1 control character": "a\u0085b",
    "with a reversed direction": "\u202eabc",
    "with a character that is not seen": "a\u200bb",
    "with a joiner that joins nothing": "ad\u200dmin",
    "with a line separator": "a\u2028b",
    "with a hidden text": "a\u{e0041}\u{e0042}",
    "with a lone surrogate": "a\ud800b",
    "of 129 characters": "x".repeat(129),
    "of 129 astral characters": "\u{1f600}".repeat(129),
    "a number": 1,
    "an object": { a: 1 },
    null: null
  }
  for (const [name, value] of Object.entries(notText)) {
    it.effect(`whose text is ${name} is malformed`, () =>
      Effect.gen(function* () {
        const bridge = yield* fresh()
        for (const field of ["device_id", "display_name", "bridge_id", "project_id", "public_key_fingerprint"]) {
          isRefusal(yield* unchanged(ask(bridge, { body: { [field]: value } })), 400, "invalid_request")
        }
      })
    )
  }

  it.effect("with a name that hides text is refused with the name of the field, without its text", () =>
    Effect.gen(function* () {
      const answer = yield* ask(yield* fresh(), { body: { display_name: "fdp\u202etxt" } })
      assert.match(answer.body.error.message, / display_name: Expected visible text without characters that control/)
      assert.notInclude(answer.text, "fdp")
    })
  )

  it.effect("may hold any other text, up to its limit", () =>
    Effect.gen(function* () {
      for (const display_name of ["\u{1f600}".repeat(120), "'; drop table project; --", "می\u200cخواهم", "<script>"]) {
        const bridge = yield* fresh()
        const [bridge_id, device_id] = ["b".repeat(128), "\u{10ffff}".repeat(128)]
        const answer = yield* ask(bridge, { body: { bridge_id, device_id, display_name } })
        assert.strictEqual(answer.status, 201, answer.text)
      }
    })
  )
})

layer(Service.layer)("Authorization", (it) => {
  const asked = Effect.fnUntraced(function* (authorization: (credential: string) => string) {
    const { url } = yield* Service
    const bridge = yield* fresh()
    const headers = { ...json, "idempotency-key": "k", authorization: authorization(bridge.credential) }
    return yield* request(url, "POST", challenges, headers, JSON.stringify(bridge.challengeBody))
  })

  for (const scheme of ["Bearer ", "bearer ", "BEARER "]) {
    it.effect(`may begin with "${scheme}"`, () =>
      Effect.gen(function* () {
        assert.strictEqual((yield* asked((credential) => scheme + credential)).status, 201)
      })
    )
  }

  const absent = {
    "an empty value": () => "",
    "a scheme alone": () => "Bearer",
    "a scheme and spaces": () => "Bearer    ",
    "no scheme": (credential: string) => credential,
    "another scheme": (credential: string) => `Basic ${credential}`,
    "a longer scheme": (credential: string) => `Bearers ${credential}`,
    "a tab": (credential: string) => `Bearer\t${credential}`
  }
  for (const [name, authorization] of Object.entries(absent)) {
    it.effect(`with ${name} counts as no credential`, () =>
      Effect.gen(function* () {
        isRefusal(yield* asked(authorization), 401, "bridge_enrollment_credential_required")
      })
    )
  }

  const bad = {
    "two spaces": (credential: string) => `Bearer  ${credential}`,
    "a space and a tab": (credential: string) => `Bearer \t${credential}`,
    "two credentials": (credential: string) => `Bearer ${credential}, Bearer ${credential}`,
    "a credential and more": (credential: string) => `Bearer ${credential} x`,
    "bytes beyond ASCII": (credential: string) => `Bearer ${credential}\u00e9`
  }
  for (const [name, authorization] of Object.entries(bad)) {
    it.effect(`with ${name} is an invalid credential`, () =>
      Effect.gen(function* () {
        isRefusal(yield* asked(authorization), 401, "bridge_enrollment_credential_invalid")
      })
    )
  }
})

layer(Service.layer)("the client's address", (it) => {
  /** The address in the audit row of a challenge that was requested with this X-Forwarded-For. */
  const recorded = Effect.fnUntraced(function* (forwarded: string, proxies = "") {
    const sql = yield* SqlClient.SqlClient
    const on = yield* instance({ SERVICE_TRUSTED_PROXIES: proxies })
    const bridge = yield* Bridge.make(on)
    const answer = yield* send(on.url + challenges, {
      bearer: bridge.credential,
      key: "k",
      body: bridge.challengeBody,
      headers: { "x-forwarded-for": forwarded }
    })
    assert.strictEqual(answer.status, 201, answer.text)
    const [row] = yield* sql<{ address: string }>`
      select address
        from audit_event
       where action = 'bridge.challenge_created'
         and subject ->> 'credential_id' = ${bridge.credential_id}`
    return row!.address
  })

  const cases = [
    ["is not what X-Forwarded-For says", "203.0.113.7", "", "127.0.0.1"],
    ["is what a trusted proxy says", "203.0.113.7", "127.0.0.0/8", "203.0.113.7"],
    ["is the nearest that is not a trusted proxy", "198.51.100.1, 203.0.113.7", "127.0.0.1", "203.0.113.7"],
    ["is found behind several trusted proxies", "203.0.113.7, 10.1.2.3", "127.0.0.1,10.0.0.0/8", "203.0.113.7"],
    ["may be IPv6", "2001:db8::1", "127.0.0.1", "2001:db8::1"],
    ["is the proxy's if the header has no address", "nonsense", "127.0.0.1", "127.0.0.1"],
    ["is the last proxy's if no address follows it", "x, 10.1.2.3", "127.0.0.1,10.0.0.0/8", "10.1.2.3"],
    ["is the IPv4 address that an IPv6 address stands for", "::ffff:203.0.113.7", "127.0.0.1", "203.0.113.7"]
  ] as const
  for (const [name, forwarded, proxies, address] of cases) {
    it.effect(name, () =>
      Effect.gen(function* () {
        assert.strictEqual(yield* recorded(forwarded, proxies), address)
      })
    )
  }
})

describe("the networks of trusted proxies", () => {
  it.effect.each(["10.0.0.0/", "10.0.0.0/8/8", "10.0.0.0/33", "10.0.0.0/x", "nginx"])("cannot be %s", (network) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(networks([network])))._tag, "ConfigurationError")
    })
  )
})

layer(Service.layer)("a client that sends too many requests", (it) => {
  it.effect("gets 429 with Retry-After; other clients are served", () =>
    Effect.gen(function* () {
      const { url } = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_TRUSTED_PROXIES: "127.0.0.1" })
      const from = (address: string) => send(url + proofs, { key: "k", headers: { "x-forwarded-for": address } })
      yield* Effect.all(
        Array.from({ length: 1000 }, () => from("203.0.113.7")),
        { concurrency: 50 }
      )
      const refused = yield* from("203.0.113.7")
      isRefusal(refused, 429, "rate_limited")
      assert.strictEqual(refused.headers.get("retry-after"), "1")
      isRefusal(yield* from("203.0.113.8"), 400, "invalid_request")
      assert.strictEqual((yield* send(`${url}/healthz`, { method: "GET" })).status, 200)
      yield* TestClock.adjust("1 second")
      isRefusal(yield* from("203.0.113.7"), 400, "invalid_request")
    })
  )
})

layer(Service.layer)("every answer", (it) => {
  it.effect("has a Date from the clock that decides what has expired", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      yield* TestClock.adjust("1 hour")
      const now = new Date(yield* Clock.currentTimeMillis).toUTCString()
      for (const path of ["/healthz", "/nowhere", "/bridge/v1/tokens/self"]) {
        const { headers } = yield* request(url, "GET", path)
        assert.strictEqual(headers.get("date"), now)
      }
    })
  )

  it.effect("has a new request id, even if the client sent one", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const ids = new Set<string>()
      const paths = ["/healthz", "/readyz", "/openapi.json", "/nowhere", challenges, proofs]
      for (const path of paths) {
        const { headers } = yield* request(url, "GET", path, { "x-request-id": "mine" })
        assert.match(headers.get("x-request-id")!, /^[0-9a-f-]{36}$/)
        assert.match(headers.get("x-content-type-options")!, /nosniff/)
        ids.add(headers.get("x-request-id")!)
      }
      assert.strictEqual(ids.size, paths.length)
    })
  )

  it.effect("of the Bridge endpoints has Cache-Control: no-store", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const proof = yield* prove(bridge, challenge)
      for (const answer of [challenge, proof]) {
        assert.strictEqual(answer.headers.get("cache-control"), "no-store")
        assert.match(answer.headers.get("content-type")!, /^application\/json/)
      }
    })
  )

  it.effect("is one log line, with the request id of the answer", () =>
    Effect.gen(function* () {
      const { lines, record } = recording()
      const { url } = yield* record(instance({ SERVICE_LOG_LEVEL: "Debug" }))
      const answers = yield* Effect.forEach(["/healthz", "/nowhere%0a"], (path) => request(url, "GET", path))
      const logged = lines.map((line) => JSON.parse(line)).filter(({ message }) => message === "Answered")
      assert.deepStrictEqual(
        logged.map(({ annotations }) => [annotations.request_id, annotations.status]),
        answers.map(({ headers, status }) => [headers.get("x-request-id"), status])
      )
    })
  )

  it.effect(
    "that refuses is logged with the caller's address, the path and the code, and with no credential, header or body",
    () =>
      Effect.gen(function* () {
        const { lines, record } = recording()
        const on = yield* record(instance({ SERVICE_LOG_LEVEL: "Info", SERVICE_TRUSTED_PROXIES: "127.0.0.0/8" }))
        const spt = Redacted.value(yield* Tokens.mint("spt"))
        const ask = (path: string, body: unknown, headers = {}) =>
          send(`${on.url}${path}`, {
            bearer: spt,
            key: "k",
            body,
            headers: { "x-forwarded-for": "203.0.113.7", "user-agent": "\u009b31m", ...headers }
          })
        const challenge = "/bridge/v1/enrollment/challenges"
        yield* ask(challenge, (yield* fresh()).challengeBody)
        yield* ask("/nowhere", {})
        yield* ask("/mcp", {})
        const { token: bearer } = yield* Agent.make(on)
        yield* send(`${on.url}/mcp`, { bearer, body: "{", headers: { "x-forwarded-for": "203.0.113.7" } })
        const form = { "content-type": "application/x-www-form-urlencoded" }
        yield* ask("/token", "grant_type=refresh_token&client_id=nobody&refresh_token=x", form)
        const logged = lines.map((line) => JSON.parse(line)).filter(({ message }) => message === "Answered")
        assert.deepStrictEqual(
          logged.map(({ annotations: { address, code, path, status } }) => [path, status, code, address]),
          [
            [challenge, 401, "bridge_enrollment_credential_invalid", "203.0.113.7"],
            ["/nowhere", 404, "not_found", "203.0.113.7"],
            ["/mcp", 401, "unauthorized", "203.0.113.7"],
            ["/mcp", 400, "-32700", "203.0.113.7"],
            ["/token", 401, "invalid_client", "203.0.113.7"]
          ]
        )
        assert.notInclude(lines.join(""), spt)
        assert.notInclude(lines.join(""), "\u009b")
        // A refusal is no failure.
        assert.lengthOf(lines, logged.length)
      })
  )

  it.effect("that refuses has a line 200 times for one address, then one a second with a count; a path is cut", () =>
    Effect.gen(function* () {
      const { lines, record } = recording()
      const on = yield* record(
        instance({
          SERVICE_LOG_LEVEL: "Info",
          SERVICE_RATE_LIMITS: "on",
          SERVICE_TRUSTED_PROXIES: "127.0.0.0/8"
        })
      )
      // Addresses that no other test here uses: a line of one address is still counted when the next test begins.
      const ask = (host: number) =>
        send(`${on.url}/${"a/".repeat(7000)}`, { method: "GET", headers: { "x-forwarded-for": `198.51.100.${host}` } })
      yield* Effect.replicateEffect(ask(7), 230, { concurrency: 30 })
      yield* ask(8)
      const counted = lines
        .map((line) => JSON.parse(line))
        .filter(({ message }) => message === "Answered")
        .slice(200)
        .map(({ annotations }) => annotations)
      assert.isTrue(counted.some(({ count, network }) => network === "198.51.100.7" && count >= 1))
      assert.isTrue(
        counted.some(
          ({ address, code, count }) => address === "198.51.100.8" && code === "not_found" && count === undefined
        )
      )
      assert.isBelow(counted.length, 30)
      assert.isTrue(lines.every((line) => line.length < 1000))
    })
  )

  it.effect("that refuses has 1,000 lines for all addresses together, then one a second with a count", () =>
    Effect.gen(function* () {
      const { lines, record } = recording()
      const on = yield* record(
        instance({ SERVICE_LOG_LEVEL: "Info", SERVICE_RATE_LIMITS: "on", SERVICE_TRUSTED_PROXIES: "127.0.0.0/8" })
      )
      yield* Effect.forEach(
        Array.from({ length: 1050 }, (_, n) => `198.18.${n >> 8}.${n & 255}`),
        (address) => send(`${on.url}/nowhere`, { method: "GET", headers: { "x-forwarded-for": address } }),
        { concurrency: 30 }
      )
      const answered = lines.map((line) => JSON.parse(line)).filter(({ message }) => message === "Answered")
      const { alone = [], counted = [] } = Object.groupBy(answered, ({ annotations: { count } }) =>
        count === undefined ? "alone" : "counted"
      )
      assert.lengthOf(alone, 1000)
      assert.isNotEmpty(counted)
      assert.isBelow(counted.length, 30)
    })
  )

  it.effect("to a request with a token in its path or user agent leaves it in no log line and no row", () =>
    Effect.gen(function* () {
      const { lines, record } = recording()
      const agent = yield* record(
        Effect.gen(function* () {
          const on = yield* instance({ SERVICE_LOG_LEVEL: "All" })
          const agent = yield* Agent.make(on)
          const headers = { "user-agent": `curl ${agent.token}` }
          yield* send(`${on.url}/no/${agent.token}/x`, { headers })
          const given = { name: "memory_add", arguments: { kind: "note", body: "x" } }
          yield* agent.post("tools/call", given, headers)
          return agent
        })
      )
      assert.include(lines.join("\n"), "/no/<redacted>/x")
      assert.notInclude(lines.join("\n"), agent.token)
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly user_agent: string }>`
        select user_agent from audit_event where project_id = ${agent.project_id}::uuid and action = 'mcp.write'`
      assert.strictEqual(row?.user_agent, "curl <redacted>")
    })
  )

  it.effect("to a request whose user agent commands a terminal leaves 200 characters, escaped, in the audit log", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const agent = yield* Agent.make(on)
      const headers = { "user-agent": `curl\u009b31m\u00ad${" curl".repeat(50)}` }
      yield* agent.post("tools/call", { name: "memory_add", arguments: {} }, headers)
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly user_agent: string }>`
        select user_agent from audit_event where project_id = ${agent.project_id}::uuid and action = 'mcp.write'`
      const escaped = String.raw`curl\u009b31m\u00ad`
      assert.strictEqual(row?.user_agent, `${escaped}${" curl".repeat(50)}`.slice(0, 200))
    })
  )

  it.effect("to a defect does not describe it; the log names its place", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { lines, record } = recording()
      const on = yield* record(instance({ SERVICE_LOG_LEVEL: "Debug" }))
      const bridge = yield* Bridge.make(on)
      const challenge = yield* bridge.askChallenge(on)
      const broken = Effect.acquireUseRelease(
        sql`alter table bridge_token add constraint key_id_is_broken check (key_id = '') not valid`,
        () => unchanged(bridge.prove(on, challenge)),
        () => sql`alter table bridge_token drop constraint key_id_is_broken`
      )
      const answer = yield* broken
      isRefusal(answer, 500, "internal_error")
      assert.notMatch(answer.text, /key_id|constraint|bridge_token|select|sql|\/src\//i)
      const errors = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === "ERROR" || level === "Error")
      assert.strictEqual(errors.length, 1, lines.join("\n"))
      assert.strictEqual(errors[0].annotations.request_id, answer.headers.get("x-request-id"))
      assert.strictEqual(errors[0].annotations.sqlstate, "23514")
      assert.strictEqual((yield* bridge.prove(on, challenge)).status, 200)
    })
  )
})

describe("a value on the wire", () => {
  const decoded = <A>(schema: Schema.Codec<A, string>, given: string) => Schema.decodeOption(schema)(given)
  const hex = "0123456789abcdef".repeat(4)
  it.each<readonly [string, Schema.Codec<unknown, string>, ReadonlyArray<string>, ReadonlyArray<string>]>([
    ["Idempotency-Key", IdempotencyKey, ["k", "~".repeat(255)], ["", "k".repeat(256), "a b", "\u00e9"]],
    ["bridge_id", BridgeId, ["b", "1._:-", "b".repeat(128)], ["", "-b", "b".repeat(129), "a b"]],
    [
      "fingerprint",
      Fingerprint,
      [`sha256:${hex}`],
      [`sha256:${hex.toUpperCase()}`, `sha256:${hex}0`, `sha256:${hex.slice(1)}`, hex]
    ],
    [
      "base64",
      Base64Bytes,
      ["QQ", "QQ==", "QUI=", "-_-_", "+/+/", "A".repeat(1024)],
      ["", "Q", "QR", "QQ=", "QUI==", "Q Q", "A".repeat(1028)]
    ],
    [
      "instant",
      Instant,
      ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.123456789+14:00"],
      [
        "1969-12-31T23:59:59Z",
        "2026-02-29T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.1234567890Z",
        "2026-01-01"
      ]
    ]
  ])("%s is read or refused", (_, schema, accepted, refused) => {
    for (const given of accepted) assert.isTrue(Option.isSome(decoded(schema, given)), given)
    for (const given of refused) assert.isTrue(Option.isNone(decoded(schema, given)), given)
  })

  it("that is a UUID is compared in lower case; as a reference it is the nil UUID if it is none", () => {
    const upper = "7B8F1C1E-0F4E-4D0C-9A5E-111111111111"
    for (const schema of [Uuid, Id]) assert.deepStrictEqual(decoded(schema, upper), Option.some(upper.toLowerCase()))
    assert.isTrue(Option.isNone(decoded(Uuid, "x")))
    assert.deepStrictEqual(decoded(Id, "x"), Option.some(nil))
  })

  it("that ends has ended at its end, and Retry-After is at least a second before", () => {
    const at = (millis: number) => new Date(1_000_000 + millis)
    assert.deepStrictEqual(
      [-1, 0, 1].map((left) => hasPassed(at(left), at(0))),
      [true, true, false]
    )
    assert.deepStrictEqual(
      [-5000, 0, 1, 1000, 1001].map((left) => secondsUntil(at(left), at(0))),
      [1, 1, 1, 1, 2]
    )
  })
})

describe("a refusal", () => {
  it.each<readonly [number, object, object]>([
    [409, {}, {}],
    [409, { retryAfter: 0 }, { "retry-after": "0" }],
    [503, {}, { "retry-after": "1" }],
    [503, { retryAfter: 7 }, { "retry-after": "7" }],
    [401, {}, { "www-authenticate": "Bearer" }],
    [401, { challenge: "DPoP" }, { "www-authenticate": "DPoP" }],
    [403, { challenge: "Bearer scope" }, { "www-authenticate": "Bearer scope" }]
  ])("of status %i with %j has the headers %j", (status, more, expected) => {
    const { headers } = answerTo(new Refusal({ _tag: "x", status, message: "m", ...more }))
    const { "cache-control": cacheControl, "content-length": _, "content-type": __, ...rest } = { ...headers }
    assert.deepStrictEqual([cacheControl, { ...rest }], ["no-store", expected])
  })
})
