/** Limits before authentication, over the real listener (spec 8; decisions.md, Rate limits). */
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes, randomUUID } from "node:crypto"
import { once } from "node:events"
import { Session } from "node:inspector/promises"
import { connect } from "node:net"
import { onTestFinished, vi } from "vitest"
import { format, type TokenKind } from "../../../src/platform/crypto/Tokens.ts"
import { makeFloodPauses, RoomToWait } from "../../../src/platform/edge/limits/Floods.ts"
import { exchange, makeClient, makeToken, obtainCode, pkce, post } from "../../support/agents/Agent.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { csrfOf, Person, signedInOperator } from "../../support/people/Console.ts"
import { rotating, successorOf, tokens } from "../../support/bridges/Tokens.ts"
import { type Answer, type Ask, send } from "../../support/network/Http.ts"
import { type RawLine, rawLine } from "../../support/network/RawLine.ts"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { instance, Service } from "../../support/service/Service.ts"

/** Statements then wait for a lock as long as a test holds it: on a machine that stalls, their own limits would pass. */
const patient = "select set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)"

/** An instance with limits that believes the test's X-Forwarded-For, and counts its statements. */
const limited = Effect.gen(function* () {
  let statements = 0
  const count = (statement: string) => {
    statements += 1
    return statement
  }
  const { layer } = faultyDatabase(count, undefined, patient)
  const settings = {
    SERVICE_RATE_LIMITS: "on",
    SERVICE_TRUSTED_PROXIES: "127.0.0.1",
    SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on"
  }
  const on = yield* instance(settings, layer)
  return { ...on, statements: () => statements }
})

const random = (kind: TokenKind) => Redacted.value(format(kind, randomBytes(32)))
const from = (address: string) => ({ "x-forwarded-for": address })

const unknownProof: Ask = {
  key: "k",
  body: {
    challenge_id: randomUUID(),
    project_id: randomUUID(),
    bridge_id: "b",
    nonce_b64: randomBytes(32).toString("base64url"),
    public_key_b64: randomBytes(32).toString("base64url"),
    signature_b64: randomBytes(64).toString("base64url")
  }
}

const mcp = { jsonrpc: "2.0", id: 1, method: "ping" }
const accept = { accept: "application/json, text/event-stream" }
const toMcp = (url: string, bearer: string, address: string) =>
  send(`${url}/mcp`, { bearer, headers: { ...accept, ...from(address) }, body: mcp })
const toSelf = (url: string, bearer: string, address: string) =>
  send(`${url}/bridge/v1/tokens/self`, { method: "GET", bearer, headers: from(address) })

/** Every endpoint that takes a bearer, and one that takes a credential in its body. */
const endpoints: Readonly<Record<string, { kind: TokenKind; path: string; ask: (token: string) => Ask }>> = {
  "/mcp": { kind: "sat", path: "/mcp", ask: (bearer) => ({ bearer, headers: accept, body: mcp }) },
  "/bridge/v1/tokens/self": {
    kind: "sbt",
    path: "/bridge/v1/tokens/self",
    ask: (bearer) => ({ method: "GET", bearer })
  },
  "/bridge/v1/tokens/revoke": { kind: "sbt", path: "/bridge/v1/tokens/revoke", ask: (bearer) => ({ bearer }) },
  "/bridge/v1/tokens/rotate/prepare": {
    kind: "sbt",
    path: "/bridge/v1/tokens/rotate/prepare",
    ask: (bearer) => ({ bearer, key: "k" })
  },
  "/bridge/v1/tokens/rotate/confirm": {
    kind: "sbt",
    path: "/bridge/v1/tokens/rotate/confirm",
    ask: (bearer) => ({ bearer, key: "k", body: { rotation_id: "7b8f1c1e-0f4e-4d0c-9a5e-111111111111" } })
  },
  "/bridge/v1/enrollment/challenges": {
    kind: "sbe",
    path: "/bridge/v1/enrollment/challenges",
    ask: (bearer) => ({
      bearer,
      key: "k",
      body: {
        project_id: "7b8f1c1e-0f4e-4d0c-9a5e-111111111111",
        bridge_id: "b",
        device_id: "d",
        display_name: "n",
        public_key_fingerprint: `sha256:${"0".repeat(64)}`
      }
    })
  },
  "/bridge/v1/mobile/devices": {
    kind: "sat",
    path: "/bridge/v1/mobile/devices/7b8f1c1e-0f4e-4d0c-9a5e-111111111111",
    ask: (bearer) => ({ method: "GET", bearer })
  },
  "/token": {
    kind: "srt",
    path: "/token",
    ask: (refresh_token) => ({
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ grant_type: "refresh_token", client_id: random("sci"), refresh_token }).toString()
    })
  }
}

const tally = (answers: ReadonlyArray<Answer>) => {
  const counts: Record<number, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

layer(Service.layer, { timeout: "2 minutes" })("of failed authentications", (it) => {
  for (const [name, { ask, kind, path }] of Object.entries(endpoints)) {
    it.effect(`at ${name}, an address gets 200, then 429 without a query`, () =>
      Effect.gen(function* () {
        const on = yield* limited
        const attempt = (address = "203.0.113.7") =>
          Effect.suspend(() => {
            const asked = ask(random(kind))
            return send(on.url + path, { ...asked, headers: { ...asked.headers, ...from(address) } })
          })
        const first = yield* Effect.replicateEffect(attempt(), 200, { concurrency: 8 })
        const rejected = first[0]!.status
        assert.include([400, 401], rejected)
        assert.deepStrictEqual(tally(first), { [rejected]: 200 })
        const before = on.statements()
        const rest = yield* Effect.replicateEffect(attempt(), 100, { concurrency: 8 })
        assert.deepStrictEqual(tally(rest), { 429: 100 })
        assert.strictEqual(
          rest[0]!.code ?? rest[0]!.body.error,
          path === "/token" ? "temporarily_unavailable" : "rate_limited"
        )
        assert.isTrue(rest.every(({ headers }) => headers.get("retry-after") === "1"))
        assert.strictEqual(on.statements(), before)
        assert.strictEqual((yield* attempt("203.0.113.8")).status, rejected)
        yield* TestClock.adjust("1 second")
        const later = yield* Effect.replicateEffect(attempt(), 30, { concurrency: 8 })
        assert.deepStrictEqual(tally(later), { [rejected]: 20, 429: 10 })
      })
    )
  }

  it.effect("counts malformed credentials and wrong checksums, over all endpoints together", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const bad = ["x", "sbt_short", `${random("sbt").slice(0, -1)}!`, `${random("sat")}, Bearer x`]
      for (let n = 0; n < 50; n++) {
        for (const token of bad) yield* (n % 2 === 0 ? toMcp : toSelf)(url, token, "203.0.113.7")
      }
      assert.strictEqual((yield* toMcp(url, random("sat"), "203.0.113.7")).status, 429)
      assert.strictEqual((yield* toSelf(url, random("sbt"), "203.0.113.7")).status, 429)
    })
  )

  it.effect("counts a credential that was refused before it was looked up as unknown", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const { ask, path } = endpoints["/bridge/v1/enrollment/challenges"]!
      const challenge = (token: string, more = {}) => {
        const { body, ...asked } = ask(token)
        return send(url + path, { ...asked, headers: from("203.0.113.7"), body: { ...(body as object), ...more } })
      }
      const credential = random("sbe")
      assert.strictEqual((yield* challenge(credential, { display_name: random("spt") })).code, "secret_detected")
      yield* Effect.replicateEffect(challenge(random("sbe")), 200, { concurrency: 8 })
      assert.strictEqual((yield* challenge(credential)).status, 429)
    })
  )

  it.effect("does not count a request without a credential", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const ask = send(`${url}/mcp`, { headers: { ...accept, ...from("203.0.113.7") }, body: mcp })
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(ask, 300, { concurrency: 8 })), { 401: 300 })
      assert.strictEqual((yield* toMcp(url, random("sat"), "203.0.113.7")).status, 401)
    })
  )

  it.effect("does not count a credential that is accepted", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const valid = yield* Effect.replicateEffect(makeToken(on), 250)
      const answers = yield* Effect.forEach(valid, ({ token }) => toMcp(on.url, token, "203.0.113.7"))
      assert.deepStrictEqual(tally(answers), { 200: 250 })
      assert.strictEqual((yield* toMcp(on.url, random("sat"), "203.0.113.7")).status, 401)
    })
  )

  it.effect("does not lock out a token that was accepted here in the last ten minutes", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const { project_id, token: project } = yield* makeToken(on)
      const client_id = yield* makeClient(on)
      const { code, verifier } = yield* obtainCode(on, { client_id, token: project })
      const { access_token } = (yield* exchange(on, { client_id, code, code_verifier: verifier })).body
      const bridge = yield* Bridge.make(on)
      const proof = yield* bridge.prove(on, yield* bridge.askChallenge(on))
      const { token: stranger } = yield* makeToken(on, { project_id })
      const shared = "203.0.113.7"
      const neighbours = [
        toMcp(on.url, project, shared),
        toMcp(on.url, access_token, shared),
        toSelf(on.url, proof.body.access_token, shared)
      ]
      const flood = Effect.replicateEffect(
        Effect.suspend(() => toMcp(on.url, random("sat"), shared)),
        250,
        { concurrency: 8 }
      )
      for (const ask of neighbours) assert.strictEqual((yield* ask).status, 200)
      yield* flood
      for (const ask of neighbours) assert.strictEqual((yield* ask).status, 200)
      // The credential is looked up as always, and its bucket is the address's again once it has been idle.
      assert.strictEqual((yield* toMcp(on.url, stranger, shared)).status, 429)
      yield* TestClock.adjust("10 minutes")
      yield* flood
      for (const ask of neighbours) assert.strictEqual((yield* ask).status, 429)
    })
  )

  it.effect("does not lock out a token that was issued here and is used for the first time", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const { token: project } = yield* makeToken(on)
      const client_id = yield* makeClient(on)
      const { code, verifier } = yield* obtainCode(on, { client_id, token: project })
      const { access_token } = (yield* exchange(on, { client_id, code, code_verifier: verifier })).body
      const enrolled = Effect.gen(function* () {
        const bridge = yield* Bridge.make(on)
        return (yield* bridge.prove(on, yield* bridge.askChallenge(on))).body.access_token as string
      })
      const bridge = yield* enrolled
      const { rotation_id, successor } = successorOf(yield* tokens(on).prepare(yield* enrolled))
      const shared = "203.0.113.7"
      yield* Effect.replicateEffect(toMcp(on.url, random("sat"), shared), 250, { concurrency: 8 })
      const confirmed = send(`${on.url}/bridge/v1/tokens/rotate/confirm`, {
        bearer: successor,
        key: "k",
        body: { rotation_id },
        headers: from(shared)
      })
      for (const ask of [toMcp(on.url, access_token, shared), toSelf(on.url, bridge, shared), confirmed])
        assert.strictEqual((yield* ask).status, 200)
      assert.strictEqual((yield* toMcp(on.url, (yield* makeToken(on)).token, shared)).status, 429)
    })
  )

  it.effect("does not lock out a token whose request was refused for the state of its rotation", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const lapsed = yield* rotating()
      yield* TestClock.adjust("5 minutes")
      const [first, second] = [yield* rotating(), yield* rotating()]
      const shared = "203.0.113.7"
      const at = (step: string, bearer: string, key: string, body?: object) =>
        send(`${on.url}/bridge/v1/tokens/rotate/${step}`, { bearer, key, body, headers: from(shared) })
      const refused = [
        [403, at("prepare", first.successor, "k")],
        [404, at("confirm", second.successor, "k", { rotation_id: randomUUID() })],
        [409, at("prepare", first.token, "k")],
        [410, at("prepare", lapsed.token, "bridge-rotate-1")]
      ] as const
      for (const [status, ask] of refused) assert.strictEqual((yield* ask).status, status)
      yield* Effect.replicateEffect(toMcp(on.url, random("sat"), shared), 250, { concurrency: 8 })
      for (const [status, ask] of refused) assert.strictEqual((yield* ask).status, status)
    })
  )

  it.effect("counts a token that was accepted before and has ended since", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const bridge = yield* Bridge.make(on)
      const { access_token } = (yield* bridge.prove(on, yield* bridge.askChallenge(on))).body
      const self = toSelf(on.url, access_token, "203.0.113.7")
      assert.strictEqual((yield* self).status, 200)
      yield* send(`${on.url}/bridge/v1/tokens/revoke`, { bearer: access_token })
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(self, 100)), { 401: 100 })
      const stranger = Effect.suspend(() => toSelf(on.url, random("sbt"), "203.0.113.7"))
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(stranger, 110)), { 401: 100, 429: 10 })
    })
  )

  it.effect("counts all addresses of one IPv6 network as one", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const answers = yield* Effect.forEach(
        Array.from({ length: 300 }, (_, n) => `2001:db8:1:2:${(n + 1).toString(16)}::${n}`),
        (address) => toSelf(url, random("sbt"), address),
        { concurrency: 8 }
      )
      assert.deepStrictEqual(tally(answers), { 401: 200, 429: 100 })
      assert.strictEqual((yield* toSelf(url, random("sbt"), "2001:db8:1:3::1")).status, 401)
    })
  )
})

layer(Service.layer, { timeout: "2 minutes" })("of one credential", (it) => {
  it.effect("is the same whatever the spelling of Bearer", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const bridge = yield* Bridge.make(on)
      const { access_token } = (yield* bridge.prove(on, yield* bridge.askChallenge(on))).body
      const spellings = Array.from({ length: 64 }, (_, bits) =>
        [..."bearer"].map((letter, at) => ((bits >> at) & 1 ? letter.toUpperCase() : letter)).join("")
      )
      assert.strictEqual(new Set(spellings).size, 64)
      const answers = yield* Effect.forEach(
        Array.from({ length: 640 }, (_, n) => spellings[n % 64]!),
        (scheme) =>
          send(`${on.url}/bridge/v1/tokens/self`, {
            method: "GET",
            headers: { authorization: `${scheme} ${access_token}` }
          }),
        { concurrency: 8 }
      )
      assert.deepStrictEqual(tally(answers), { 200: 200, 429: 440 })
    })
  )

  it.effect("holds at /mcp before anything is looked up", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const { token } = yield* makeToken(on)
      const get = send(`${on.url}/mcp`, { method: "GET", bearer: token })
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(get, 500, { concurrency: 8 })), { 405: 500 })
      const before = on.statements()
      assert.strictEqual((yield* get).status, 429)
      assert.strictEqual(on.statements(), before)
    })
  )
})

layer(Service.layer)("a flood", (it) => {
  /** What a flood from many addresses asks, and the table that it waits for. */
  const floods: Readonly<Record<string, { readonly table: string; readonly path: string; readonly ask: () => Ask }>> = {
    "project tokens": { table: "project_token", path: "/mcp", ask: () => endpoints["/mcp"]!.ask(random("spt")) },
    "Bridge tokens": {
      table: "bridge_token",
      path: "/bridge/v1/tokens/self",
      ask: () => ({ method: "GET", bearer: random("sbt") })
    },
    proofs: { table: "enrollment_challenge", path: "/bridge/v1/enrollment/proofs", ask: () => unknownProof },
    "consent pages": {
      table: "oauth_request",
      path: `/oauth/consent?request=${randomUUID()}`,
      ask: () => ({ method: "GET" })
    },
    registrations: {
      table: "oauth_client",
      path: "/register",
      ask: () => ({ body: { client_name: "A", redirect_uris: ["http://127.0.0.1/callback"] } })
    }
  }
  /** Runs `beside` while the flood has all connections of strangers; returns its result and how the flood was answered. */
  const flooded = Effect.fnUntraced(function* <A, E, R>(
    url: string,
    { ask, path, table }: (typeof floods)[string],
    beside: Effect.Effect<A, E, R>
  ) {
    const locked = yield* Deferred.make<void>()
    const done = yield* Deferred.make<void>()
    const holder = yield* SqlClient.SqlClient.use((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`lock table ${sql(table)} in access exclusive mode`
          yield* Deferred.succeed(locked, undefined)
          yield* Deferred.await(done)
        })
      )
    ).pipe(Effect.forkChild)
    yield* Deferred.await(locked)
    let answered = 0
    const one = (_: unknown, n: number) => {
      const asked = ask()
      return Effect.tap(
        send(`${url}${path}`, { ...asked, headers: { ...asked.headers, ...from(`203.0.113.${n}`) } }),
        () => Effect.sync(() => (answered += 1))
      )
    }
    const flood = yield* Effect.forkChild(Effect.forEach(Array.from({ length: 40 }), one, { concurrency: "unbounded" }))
    yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 300)))
    const result = yield* beside
    assert.strictEqual(answered, 0)
    yield* Deferred.succeed(done, undefined)
    yield* Fiber.join(holder)
    const statuses = tally(yield* Fiber.join(flood))
    assert.isUndefined(statuses[503])
    return result
  })
  for (const [name, flood] of Object.entries(floods)) {
    it.effect(`of unknown ${name} leaves connections for callers who were there before`, () =>
      Effect.gen(function* () {
        const on = yield* limited
        const { token } = yield* makeToken(on)
        const bridge = yield* Bridge.make(on)
        const { access_token } = (yield* bridge.prove(on, yield* bridge.askChallenge(on))).body
        assert.strictEqual((yield* toMcp(on.url, token, "198.51.100.1")).status, 200)
        const known =
          flood.table === "bridge_token"
            ? toMcp(on.url, token, "203.0.113.7")
            : toSelf(on.url, access_token, "203.0.113.7")
        assert.strictEqual((yield* flooded(on.url, flood, known)).status, 200)
      })
    )
  }

  it.effect("of strangers leaves connections for the forms of people and operators who are signed in", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const { project_id, token } = yield* makeToken(on)
      const [person, operator] = [new Person(on.url), yield* signedInOperator(on)]
      yield* person.signIn(token)
      const [csrf, csrfOfOperator] = [
        csrfOf(yield* person.get("/console/apps")),
        csrfOf(yield* operator.get("/console/projects"))
      ]
      const answers = yield* flooded(
        on.url,
        floods["consent pages"]!,
        Effect.all([
          person.post("/console/apps", { csrf, grant: randomUUID() }),
          person.post(`/console/${project_id}/phones`, { csrf, action: "end-own-device", device: randomUUID() }),
          operator.post("/console/projects", { csrf: csrfOfOperator, action: "disable-project", project: project_id })
        ])
      )
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [404, 409, 303]
      )
    })
  )

  it.effect("of bodies that never arrive keeps no other caller waiting", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const { hostname, port } = new URL(on.url)
      let answered = 0
      const slow = (path: string, type: string) =>
        Effect.acquireRelease(
          Effect.sync(() => connect(Number(port), hostname).once("data", () => (answered += 1))),
          (socket) => Effect.sync(() => socket.destroy())
        ).pipe(
          Effect.tap((socket) =>
            Effect.sync(() =>
              socket.write(
                `POST ${path} HTTP/1.1\r\nHost: x\r\nOrigin: http://127.0.0.1:8787\r\nAuthorization: Bearer ${random("sbe")}\r\nIdempotency-Key: k\r\nContent-Type: ${type}\r\nContent-Length: 100\r\n\r\n{`
              )
            )
          )
        )
      for (let n = 0; n < 10; n++) {
        yield* slow("/bridge/v1/enrollment/challenges", "application/json")
        yield* slow("/oauth/consent", "application/x-www-form-urlencoded")
      }
      yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 200)))
      assert.strictEqual((yield* toMcp(on.url, random("spt"), "203.0.113.9")).status, 401)
      const { status } = yield* send(`${on.url}/oauth/consent?request=x`, {
        method: "GET",
        headers: from("203.0.113.9")
      })
      assert.strictEqual(status, 404)
      assert.strictEqual(answered, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("of large bodies counts by their size", () =>
    Effect.gen(function* () {
      const { url, ...on } = yield* limited
      const { token } = yield* makeToken({ url, ...on })
      const large = send(`${url}/mcp`, { bearer: token, headers: accept, body: { ...mcp, pad: "x".repeat(1_000_000) } })
      // 62 of 500 for each body of 62 times 16 KiB.
      const answers = yield* Effect.replicateEffect(large, 9)
      assert.deepStrictEqual(
        answers.map(({ status }) => status === 429),
        [...Array.from({ length: 8 }, () => false), true]
      )
    })
  )

  it.effect("of requests that need no credential, from one address, is answered, beyond a thousand late", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const kinds = [
        { path: "/healthz", method: "GET", status: 200 },
        { path: "/readyz", method: "GET", status: 200 },
        { path: "/.well-known/oauth-protected-resource/mcp", method: "GET", status: 200 },
        { path: "/mcp", method: "OPTIONS", status: 204 },
        { path: "/mcp", method: "POST", status: 401 },
        { path: "/mcp", method: "POST", status: 401, sent: { authorization: "Basic x" } },
        { path: "/mcp", method: "POST", status: 403, sent: { authorization: "Bearer x", origin: "https://a.example" } },
        { path: "/token", method: "PUT", status: 405, sent: { authorization: "Bearer x" } }
      ]
      const asked = Effect.forEach(
        kinds,
        ({ method, path, sent, status }) =>
          Effect.gen(function* () {
            const since = performance.now()
            const answer = yield* send(url + path, { method, headers: { ...from("203.0.113.7"), ...sent } })
            assert.strictEqual(answer.status, status)
            return performance.now() - since >= 250
          }),
        { concurrency: kinds.length }
      )
      // If one kind did not count, the others would not be late yet.
      yield* Effect.replicateEffect(asked, 1000 / kinds.length, { concurrency: 2 })
      assert.deepStrictEqual(
        yield* asked,
        kinds.map(() => true)
      )
    })
  )

  it.effect(
    "from one address is answered the later the more of its requests wait, except on connections that are new",
    () =>
      Effect.gen(function* () {
        const { url } = yield* limited
        const headers = from("203.0.113.7")
        yield* Effect.replicateEffect(send(`${url}/healthz`, { method: "GET", headers }), 1000, { concurrency: 16 })
        const probe = Buffer.from("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n")
        const line = Effect.acquireRelease(
          Effect.sync(() => rawLine(url)),
          ({ close }) => Effect.sync(close)
        )
        const timed = (asked: RawLine) =>
          Effect.promise(async () => {
            const since = performance.now()
            const answers = await asked.send(probe, [])
            assert.deepStrictEqual(
              answers?.map(({ status }) => status),
              [200]
            )
            return performance.now() - since
          })
        const lines = yield* Effect.replicateEffect(line, 128)
        yield* Effect.forEach(lines, timed, { concurrency: "unbounded" })
        const fresh = yield* line
        const [first, ...further] = yield* Effect.forEach([fresh, ...lines], timed, { concurrency: "unbounded" })
        assert.isAtLeast(Math.max(...further), 495)
        assert.isBelow(first!, Math.max(...further))
      }).pipe(Effect.scoped)
  )

  it.effect("from one address is answered at once where no more may wait, and its connection is closed", () =>
    Effect.gen(function* () {
      // Room for one request.
      const { url } = yield* Effect.provideService(limited, RoomToWait, 20_000)
      const headers = from("203.0.113.7")
      yield* Effect.replicateEffect(send(`${url}/healthz`, { method: "GET", headers }), 1000, { concurrency: 16 })
      const asking = (address: string, times = 1) =>
        Effect.promise(async () => {
          const line = rawLine(url)
          const asked = `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n\r\n`
          const expected = Array.from({ length: times }, () => false)
          const answers = await line.send(Buffer.from(asked.repeat(times)), expected)
          await new Promise((resume) => setTimeout(resume, 50))
          const isOpen = line.isOpen()
          line.close()
          return { statuses: answers?.map(({ status }) => status), isOpen }
        })
      const outcomes = yield* Effect.all(
        [asking("203.0.113.7"), asking("203.0.113.7"), asking("203.0.113.7"), asking("203.0.113.9")],
        { concurrency: "unbounded" }
      )
      const kept = { statuses: [200], isOpen: true }
      const closed = { statuses: [200], isOpen: false }
      assert.deepStrictEqual(outcomes.pop(), kept)
      assert.sameDeepMembers(outcomes, [kept, closed, closed])
      // The second answer would wait for the first.
      assert.deepStrictEqual(yield* asking("203.0.113.7", 2), { statuses: [], isOpen: false })
      assert.deepStrictEqual(yield* asking("203.0.113.7"), kept)
    })
  )

  it.effect("of large bodies that are refused late leaves none of them in memory meanwhile", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const headers = from("203.0.113.7")
      yield* Effect.replicateEffect(send(`${on.url}/healthz`, { method: "GET", headers }), 1000, { concurrency: 16 })
      const tokens = yield* Effect.replicateEffect(makeToken(on), 2)
      const later = globalThis.setTimeout
      const late: Array<() => void> = []
      const timers = vi
        .spyOn(globalThis, "setTimeout")
        .mockImplementation(((run: () => void, millis: number) =>
          millis === 250 ? late.push(run) : later(run, millis)) as typeof setTimeout)
      const answerAll = Effect.sync(() => late.forEach((run) => run()))
      yield* Effect.addFinalizer(() =>
        Effect.andThen(
          answerAll,
          Effect.sync(() => timers.mockRestore())
        )
      )
      const session = new Session()
      session.connect()
      yield* Effect.addFinalizer(() => Effect.sync(() => session.disconnect()))
      const memory = Effect.promise(async () => {
        await session.post("HeapProfiler.collectGarbage")
        return process.memoryUsage().arrayBuffers
      })

      const { hostname, port } = new URL(on.url)
      const body = Buffer.alloc(1_000_000, "x")
      const before = yield* memory
      const answers = Array.from({ length: 16 }, (_, n) => {
        const socket = connect(Number(port), hostname)
        socket.write(
          `POST /mcp HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.7\r\nAuthorization: Bearer ${tokens[n % 2]!.token}\r\nAccept: ${accept.accept}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
        )
        socket.write(body)
        return once(socket, "data").finally(() => socket.destroy())
      })
      yield* Effect.repeat(
        Effect.promise(() => new Promise((resume) => later(resume, 10))),
        { until: () => late.length === answers.length }
      )
      assert.isBelow((yield* memory) - before, 4 * body.length)
      yield* answerAll
      for (const [answer] of yield* Effect.promise(() => Promise.all(answers))) {
        assert.match(String(answer), /^HTTP\/1.1 400 /)
      }
    }).pipe(Effect.scoped)
  )

  it("of refusals waits for most of its answers; a few refusals do not wait", async () => {
    // So that all of them fall into one second.
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now())
    onTestFinished(() => clock.mockRestore())
    const { waitIfMany } = makeFloodPauses(2 ** 20)
    const pause = (millis: number) => new Promise((resume) => setTimeout(resume, millis))
    let answered = 0
    const refuse = () =>
      Effect.runPromise(
        Effect.andThen(
          waitIfMany("203.0.113.7", { rawHeaders: [], socket: {} }),
          Effect.sync(() => (answered += 1))
        )
      )
    const refusals = Array.from({ length: 260 }, refuse)
    await pause(50)
    assert.strictEqual(answered, 200)
    await Promise.all(refusals)
    assert.strictEqual(answered, 260)
  })
})

layer(Service.layer)("of refusals", (it) => {
  it.effect("answers 200 in a second at once, and a further one later, whatever they are about", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const guess = post(`${url}/console/sign-in`, { project_token: "wrong" }, { origin: "http://127.0.0.1:8787" })
      yield* Effect.replicateEffect(guess, 20, { concurrency: 20 })
      // So that all of them fall into one second.
      const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now())
      yield* Effect.addFinalizer(() => Effect.sync(() => clock.mockRestore()))
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(guess, 200, { concurrency: 20 })), { 429: 200 })
      const started = process.hrtime.bigint()
      assert.strictEqual((yield* guess).status, 429)
      assert.isAtLeast(Number(process.hrtime.bigint() - started) / 1e6, 245)
    })
  )
})

layer(Service.layer)("of requests to /revoke", (it) => {
  it.effect("counts each token, known or not, and no token that was just accepted", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const client_id = yield* makeClient(on)
      const revoke = (token: string) => post(`${on.url}/revoke`, { client_id, token }, from("203.0.113.7"))
      const flood = yield* Effect.replicateEffect(
        Effect.suspend(() => revoke(random("srt"))),
        210
      )
      assert.deepStrictEqual(tally(flood), { 200: 200, 429: 10 })
      const { code, verifier } = yield* obtainCode(on, { client_id })
      const { access_token } = (yield* exchange(on, { client_id, code, code_verifier: verifier })).body
      yield* toMcp(on.url, access_token, "203.0.113.9")
      assert.strictEqual((yield* revoke(access_token)).status, 200)
      assert.strictEqual((yield* toMcp(on.url, access_token, "203.0.113.9")).status, 401)
    })
  )
})

layer(Service.layer)("of registrations", (it) => {
  it.effect("an address gets 60 at once, then one a second", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const register = send(`${url}/register`, { body: {}, headers: from("203.0.113.7") })
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(register, 62)), { 400: 60, 429: 2 })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(tally(yield* Effect.replicateEffect(register, 2)), { 400: 1, 429: 1 })
    })
  )
})

layer(Service.layer)("of requests to /token", (it) => {
  it.effect("counts each wrong proof of a key", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const ask = Effect.suspend(() => {
        const fields = { grant_type: "authorization_code", client_id: random("sci"), code: random("sac") }
        return post(
          `${url}/token`,
          { ...fields, code_verifier: pkce().verifier },
          { dpop: "x", ...from("203.0.113.7") }
        )
      })
      const answers = yield* Effect.replicateEffect(ask, 210, { concurrency: 8 })
      assert.strictEqual(answers[0]!.body.error, "invalid_dpop_proof")
      assert.deepStrictEqual(tally(answers), { 400: 200, 429: 10 })
    })
  )
})

layer(Service.layer)("the readiness check", (it) => {
  it.effect("runs once a second, however often it is asked for", () =>
    Effect.gen(function* () {
      const on = yield* limited
      const ask = send(`${on.url}/readyz`, { method: "GET" })
      const flood = Effect.replicateEffect(ask, 200, { concurrency: 16 })
      const before = on.statements()
      yield* ask
      const once = on.statements() - before
      assert.isAbove(once, 0)
      assert.deepStrictEqual(tally(yield* flood), { 200: 200 })
      assert.strictEqual(on.statements() - before, once)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(tally(yield* flood), { 200: 200 })
      assert.strictEqual(on.statements() - before, 2 * once)
    })
  )
})

layer(Service.layer)("of pages", (it) => {
  for (const path of ["/console/sign-in", "/authorize"])
    it.effect(`at ${path}, an address gets 200, then a page that says when to come again`, () =>
      Effect.gen(function* () {
        const { url } = yield* limited
        const asked = send(url + path, { method: "GET", headers: from("203.0.113.7") })
        const served = yield* Effect.replicateEffect(asked, 200, { concurrency: 8 })
        assert.isTrue(served.every(({ status }) => status !== 429))
        const { headers, status } = yield* asked
        assert.deepStrictEqual([status, headers.get("retry-after")], [429, "1"])
        assert.include(headers.get("content-type"), "text/html")
      })
    )

  it.effect("an address gets 200, pages and unknown paths together, then 429; probes are served", () =>
    Effect.gen(function* () {
      const { url } = yield* limited
      const get = (path: string, address = "203.0.113.7") =>
        Effect.map(send(url + path, { method: "GET", headers: from(address) }), ({ status }) => status)
      const paths = ["/", "/docs", "/openapi.json", "/nowhere"]
      const asked = Array.from({ length: 220 }, (_, n) => paths[n % 4]!)
      const statuses = yield* Effect.forEach(asked, (path) => get(path))
      assert.deepStrictEqual(
        statuses,
        asked.map((path, n) => (n >= 200 ? 429 : path === "/nowhere" ? 404 : 200))
      )
      for (const probe of ["/healthz", "/readyz"]) assert.strictEqual(yield* get(probe), 200)
      assert.strictEqual(yield* get("/docs", "203.0.113.8"), 200)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* get("/docs"), 200)
    })
  )
})
