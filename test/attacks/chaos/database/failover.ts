/**
 * The database cluster of deploy/ha loses its primary in every way, while Bridges enroll, rotate and revoke, a client
 * refreshes, agents write, and a channel gets the notifications. One replica reaches the primary through HAProxy, the other
 * knows every server by name.
 *
 * Nothing acknowledged is lost, nothing revoked works again, no Bridge is stranded, each Bridge's history is linearizable,
 * and clients see only 503. The service writes again at most a second later than a bare writer.
 *
 *     npm run chaos failover -- --only "primary cut off,standby killed"
 *     npm run chaos failover -- --unsafe     the pair that deploy/ha/check refuses: fails if it is not seen to lose writes
 */
import { Context, Effect, Redacted, References } from "effect"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Credentials } from "../../../../src/bridges/enrollment/Credentials.ts"
import { isTransient } from "../../../../src/client/Client.ts"
import { generateKeyPair } from "../../../../src/client/Crypto.ts"
import { Channels } from "../../../../src/people/channels/Channels.ts"
import { makeSecret } from "../../../../src/push/channels/webhook/webhook.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { makePerson } from "../../../support/agents/SignIn.ts"
import { Bridge, makeProject } from "../../../support/bridges/Bridge.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { type Answer, send } from "../../../support/network/Http.ts"
import {
  awaiting,
  balancer,
  beside,
  bridge,
  chaos,
  draw,
  freePort,
  ledger,
  scratch,
  server,
  sliced,
  size,
  until
} from "../harness.ts"
import { makeHistory } from "../parts/History.ts"
import { httpOutcome, makeLoad, toolOutcome } from "../parts/Load.ts"
import { cannotRun, type Node, patroniCluster } from "../parts/Patroni.ts"
import { settingsOver } from "../parts/Postgres.ts"
import { bareWriter } from "../parts/Writer.ts"

const unsafe = process.argv.includes("--unsafe")

const all = {
  "postgres killed": 2,
  "node killed": 3,
  "planned switch": 3,
  "node frozen and woken": 1,
  "postgres frozen and woken": 1,
  "primary cut off": 1,
  "standby killed": 1,
  "etcd away for a minute": 1
} as const
type Fault = keyof typeof all
const full = Object.entries(all)
  .flatMap(([fault, times]) => Array.from({ length: times }, () => ({ fault: fault as Fault, order: draw() })))
  .toSorted((left, right) => left.order - right.order)
  .map(({ fault }) => fault)
const only = process.argv[process.argv.indexOf("--only") + 1]!.split(",")
const faults: ReadonlyArray<Fault> = unsafe
  ? ["postgres frozen and woken"]
  : sliced
    ? ["postgres killed"]
    : process.argv.includes("--only")
      ? full.filter((fault) => only.includes(fault))
      : full

const [folders, newcomers] = [size(4, 2), size(2000, 200)]
const host = "hooks.example"
const seen: Array<object> = []
const violations: Array<string> = []
let failures = () => violations

const attack = Effect.gen(function* () {
  const folder = yield* scratch
  const delivered = new Set<string>()
  const receiver = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      delivered.add(JSON.parse(Buffer.concat(chunks).toString()).data.subject_id)
      response.end()
    })
  })
  yield* Effect.promise(() => once(receiver.listen(0, "127.0.0.1"), "listening"))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      receiver.closeAllConnections()
      receiver.close()
    })
  )
  Object.assign(process.env, {
    SERVICE_PUSH_TOKEN_KEYS: `k1:${randomBytes(32).toString("base64")}`,
    SERVICE_CHANNEL_PRIVATE_HOSTS: host,
    NODE_OPTIONS: `--import ${pathToFileURL(join(import.meta.dirname, "../parts/Names.mjs"))}`
  })

  const cluster = yield* awaiting("the cluster", patroniCluster(folder, { unsafe }))
  const port = yield* freePort
  const settings = (DATABASE_URL: string) => ({
    ...settingsOver({ port }, "", ""),
    DATABASE_URL,
    SERVICE_BASE_URL: `http://127.0.0.1:${port}`,
    // A used refresh token must still be answered after a failover.
    SERVICE_OAUTH_REFRESH_GRACE_SECONDS: "60"
  })
  const proxied = yield* server(folder, settings(cluster.proxied))
  const named = yield* server(folder, settings(cluster.named))
  const url = yield* balancer([proxied.port, named.port], port)
  const on = yield* beside(folder, { url }, settings(cluster.proxied))
  const { sql } = on
  const bare = yield* bareWriter(cluster.proxied)

  const project_id = yield* makeProject(on)
  const journal = yield* ledger(folder)
  const load = yield* makeLoad({ ...on, url: proxied.url }, journal, { bridges: 3, agents: 2, label: "a", project_id })
  const other = yield* makeLoad({ ...on, url: named.url }, journal, { bridges: 3, agents: 2, label: "b", project_id })
  failures = () => [...load.violations, ...other.violations, ...violations]
  const series = { proxied: load.acknowledgedAt, named: other.acknowledgedAt, bare: bare.acknowledgedAt }

  // Newcomers: they enroll, and every other one revokes its token.
  const credentials = Context.get(on.services, Credentials)
  const secrets = yield* Effect.replicateEffect(credentials.mint, newcomers)
  const request = { project_id, account_references: ["github:octo"], ttl: { hours: 1 }, reenroll_bridge_id: undefined }
  for (let n = 0; n < newcomers; n += 100) yield* credentials.issue(request as never, secrets.slice(n, n + 100))
  const living: Array<string> = []
  const revoked: Array<string> = []
  const enrolling = load.again((n) =>
    Effect.gen(function* () {
      const { credential, credential_id } = secrets[n % newcomers]!
      const fields = { project_id, bridge_id: `newcomer-${n}`, credential: Redacted.value(credential), credential_id }
      const newcomer = new Bridge({ ...fields, keys: yield* generateKeyPair })
      const challenge = yield* load.mutate(`challenge n ${n}`, newcomer.askChallenge({ url }), httpOutcome, () => "")
      if (challenge === undefined) return
      const proof = yield* load.mutate(`proof n ${n}`, newcomer.prove({ url }, challenge), httpOutcome, () => "")
      if (proof === undefined) return
      const token: string = proof.body.access_token
      yield* Effect.sleep("300 millis")
      if (n % 2 === 0) return void living.push(token)
      yield* load.mutate(`revoke n ${n}`, tokens({ url }).revoke(token), ended, () => "")
      revoked.push(token)
    })
  )

  const person = yield* makePerson(on as never, { project_id })
  let refresh_token = Redacted.value(person.refresh_token)
  const refreshing = load.again((n) => {
    const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token, client_id: person.client_id })
    const headers = { "content-type": "application/x-www-form-urlencoded" }
    return load
      .mutate(`renewal n ${n}`, send(`${url}/token`, { headers, body: `${body}` }), plainOutcome, () => "")
      .pipe(
        Effect.tap((answer) =>
          Effect.sync(() => {
            refresh_token = answer?.body.refresh_token ?? refresh_token
          })
        ),
        Effect.andThen(Effect.sleep("1 second"))
      )
  })

  const { port: hook } = receiver.address() as AddressInfo
  yield* Context.get(on.services, Channels).create({
    project_id,
    kind: "webhook",
    url: `http://${host}:${hook}/hook`,
    secret: makeSecret(),
    titles: false
  })
  const notifier = yield* Agent.make(on, { project_id })
  const blocked = new Set<string>()
  const notifying = load.again((n) =>
    Effect.gen(function* () {
      const write = (tool: string, what: string, given: Readonly<Record<string, unknown>>) =>
        load.mutate(
          what,
          notifier.write(tool, { ...given, idempotency_key: what.replaceAll(" ", "-") }),
          toolOutcome,
          ({ output }) => output.task.id
        )
      const created = yield* write("task_create", `task n ${n}`, { title: `task n ${n}` })
      if (created === undefined) return
      const { id, version } = created.output.task
      const reason = { status: "blocked", blocked_reason: "x", blocked_kind: "decision" }
      if ((yield* write("task_update", `block n ${n}`, { id, expected_version: version, ...reason })) !== undefined)
        blocked.add(id)
      yield* Effect.sleep("500 millis")
    })
  )

  // Reference Bridges, of which an observer presents old tokens, too.
  const histories = Array.from({ length: folders }, () => makeHistory())
  const stranded = new Set<string>()
  const fleet = yield* Effect.forEach(histories, ({ begin, watch }, index) =>
    Effect.gen(function* () {
      const identity = { project_id, bridge_id: `folder-${index}`, device_id: "chaos", display_name: "chaos" }
      const one = yield* bridge(join(folder, "states", `${index}`), watch)
      const secret = yield* credentials.mint
      yield* credentials.issue(request as never, [secret])
      yield* one.enroll({ base_url: url, identity, credential: secret.credential })
      begin(yield* one.token)
      return one
    })
  )
  const strands = (index: number) => (failure: { readonly _tag: string }) =>
    Effect.sync(() => {
      if (isTransient(failure as never)) return
      violations.push(`Bridge ${index} is stranded: ${failure._tag}`)
      stranded.add(`${index}`)
    })
  const rotating = fleet.map((one, index) =>
    load.again(() =>
      stranded.has(`${index}`)
        ? Effect.sleep("1 second")
        : one.rotate.pipe(Effect.catch(strands(index)), Effect.andThen(Effect.sleep("1 second")))
    )
  )

  const whole = awaiting("a whole cluster", cluster.whole)
  const anotherPrimary = (than: Node) =>
    awaiting("another primary", Effect.repeat(cluster.primary, { until: (node) => node !== than }))
  const frozenAndWoken = Effect.fnUntraced(function* (what: string, primary: Node) {
    yield* cluster.run("freeze", what)
    yield* anotherPrimary(primary)
    yield* Effect.sleep("8 seconds")
    yield* cluster.run("wake", what)
    yield* Effect.sleep("5 seconds")
  })
  const strike: Readonly<Record<Fault, (primary: Node) => Effect.Effect<void, unknown>>> = {
    "postgres killed": (primary) =>
      Effect.andThen(cluster.run("kill", `postgres${primary}`), Effect.asVoid(anotherPrimary(primary))),
    "node killed": (primary) =>
      Effect.gen(function* () {
        yield* cluster.run("kill", `db${primary}`, `etcd${primary}`)
        yield* anotherPrimary(primary)
        yield* cluster.run("start", `etcd${primary}`, `db${primary}`)
      }),
    "planned switch": (primary) => Effect.andThen(cluster.run("switch"), Effect.asVoid(anotherPrimary(primary))),
    "node frozen and woken": (primary) => frozenAndWoken(`db${primary}`, primary),
    // Patroni waits for an answer of PostgreSQL, and goes on from there.
    "postgres frozen and woken": (primary) => frozenAndWoken(`postgres${primary}`, primary),
    "primary cut off": (primary) =>
      Effect.gen(function* () {
        yield* cluster.cutOff(primary)
        yield* anotherPrimary(primary)
        yield* Effect.sleep("8 seconds")
        yield* cluster.heal
      }),
    "standby killed": () =>
      Effect.gen(function* () {
        const standby = yield* cluster.standby
        yield* cluster.run("kill", `db${standby}`)
        yield* awaiting("another standby", Effect.repeat(cluster.standby, { until: (node) => node !== standby }))
        yield* cluster.run("start", `db${standby}`)
      }),
    "etcd away for a minute": () =>
      Effect.gen(function* () {
        yield* cluster.run("freeze", "etcd1", "etcd2", "etcd3")
        yield* Effect.sleep("60 seconds")
        yield* cluster.run("wake", "etcd1", "etcd2", "etcd3")
      })
  }
  const everybodyWrites = (since: number) =>
    Effect.forEach(
      Object.entries(series),
      ([name, times]) => until(`a write: ${name}`, () => (times.at(-1) ?? 0) > since || failures().length > 0),
      { concurrency: "unbounded", discard: true }
    )
  /** The longest time without an acknowledgement, in milliseconds. */
  const gap = (times: ReadonlyArray<number>, from: number) => {
    const first = times.findLastIndex((time) => time <= from)
    const within = times.slice(Math.max(0, first))
    return Math.round(Math.max(...within.map((time, index) => time - (within[index - 1] ?? time))))
  }
  /** What was revoked is refused at both replicas, and what was not works. A loss of either is a violation. */
  const probe = (which: ReadonlyArray<string>, expected: string) =>
    Effect.forEach(
      which,
      (token) =>
        Effect.forEach([proxied, named], (replica) =>
          tokens(replica)
            .self(token)
            .pipe(
              Effect.repeat({ until: ({ status }) => status !== 503, times: 50 }),
              Effect.map((answer) => {
                if (httpOutcome(answer) !== expected)
                  violations.push(`a newcomer's token was answered ${httpOutcome(answer)} instead of ${expected}`)
              })
            )
        ),
      { concurrency: 8, discard: true }
    )
  const revokedCode = "401 bridge_token_revoked"

  const striking = Effect.gen(function* () {
    yield* until("writes before the first fault", () => Object.values(series).every((times) => times.length > 20))
    for (const fault of faults) {
      if (failures().length > 0) return
      yield* whole
      const primary = yield* cluster.primary
      yield* everybodyWrites(performance.now())
      const from = performance.now()
      yield* awaiting(fault, strike[fault](primary))
      const struck = performance.now()
      yield* everybodyWrites(struck)
      yield* probe(revoked.slice(-20), revokedCode)
      const gaps = { proxied: gap(series.proxied, from), named: gap(series.named, from), bare: gap(series.bare, from) }
      seen.push({ fault, seconds: Math.round((struck - from) / 1000), ...gaps })
      if (sliced || unsafe) continue
      for (const replica of ["proxied", "named"] as const) {
        const most = fault === "etcd away for a minute" ? 1000 : gaps.bare + 1000
        if (gaps[replica] > most)
          violations.push(`${fault}: no write at the replica "${replica}" for ${gaps[replica]} ms, bare ${gaps.bare}`)
      }
    }
  })
  yield* other.during(
    load.during(striking, [...rotating, enrolling, refreshing, notifying].map(Effect.orDie)).pipe(Effect.orDie)
  )

  yield* load.settled(sql)
  yield* other.settled(sql)
  yield* probe(revoked, revokedCode)
  yield* probe(living, "200")
  yield* Effect.forEach(fleet, ({ status }, index) => status.pipe(Effect.asVoid, Effect.catch(strands(index))))
  for (const [index, history] of histories.entries()) {
    violations.push(...history.violations)
    if (!history.isLinearizable()) violations.push(`the history of Bridge ${index} is not linearizable`)
  }
  const stored = new Set((yield* sql<{ n: number }>`select n from bare_writer`).map(({ n }) => n))
  const lost = bare.acknowledged.filter((n) => !stored.has(n)).length
  if (lost > 0) violations.push(`${lost} of ${bare.acknowledged.length} acknowledged rows of the bare writer are lost`)

  const makeDue = Effect.all([
    sql`update mobile_device set resting_until = null where resting_until is not null`,
    sql`update push_outbox set not_before = clock_timestamp() where state = 'pending' and not_before > clock_timestamp()`,
    sql`
      update push_outbox set lease_until = clock_timestamp()
       where state = 'leased' and lease_until > clock_timestamp() + interval '10 seconds'`
  ])
  const waiting = sql<{ n: number }>`
    select count(*)::int as n from push_outbox where state in ('pending', 'leased')`
  yield* awaiting(
    "an empty outbox",
    Effect.repeat(Effect.andThen(makeDue, Effect.delay(waiting, "200 millis")), { until: ([row]) => row!.n === 0 })
  )
  const silent = [...blocked].filter((id) => !delivered.has(id)).length
  if (silent > 0) violations.push(`${silent} of ${blocked.size} notifications did not come`)

  const calls = histories.flatMap((history) => history.calls)
  const found = failures()
  return {
    figures: {
      faults: seen,
      ...(unsafe && { found }),
      ...load.counts(),
      notifications: delivered.size,
      outcomes: { proxied: load.outcomes(), named: other.outcomes() },
      calls_judged: calls.length,
      bare_rows: bare.acknowledged.length
    },
    violations: unsafe ? (found.length === 0 ? ["nothing was seen to be lost"] : []) : found
  }
})

/** A token that had already ended when its revocation was repeated is revoked. */
const ended = (answer: Answer) => (answer.code === "bridge_token_revoked" ? "200" : httpOutcome(answer))

const plainOutcome = ({ status, body }: Answer) =>
  status === 503 ? "503 bridge_persistence_error" : status === 200 ? "200" : `${status} ${body?.error}`

const reason = cannotRun()
if (reason === undefined)
  chaos(
    "failover",
    () => ({ faults: seen, seen_until_then: failures() }),
    // Stdout is for the figures.
    Effect.provideService(attack, References.MinimumLogLevel, "Error"),
    "530 seconds"
  )
else process.stdout.write(`${JSON.stringify({ chaos: "failover", skipped: reason, violations: [] })}\n`)
