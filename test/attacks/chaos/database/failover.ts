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
import { Context, Effect, References } from "effect"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Channels } from "../../../../src/people/channels/Channels.ts"
import { makeSecret } from "../../../../src/push/channels/webhook/webhook.ts"
import { makeProject } from "../../../support/bridges/Bridge.ts"
import {
  awaiting,
  balancer,
  beside,
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
import { newcomers, notifying, refreshing, rotatingFolders } from "../parts/Callers.ts"
import { makeLoad } from "../parts/Load.ts"
import { drained } from "../parts/Outbox.ts"
import { cannotRun, type Fault, faultsOf, patroniCluster } from "../parts/database/Patroni.ts"
import { settingsOver } from "../parts/database/Postgres.ts"
import { bareWriter } from "../parts/database/Writer.ts"

const unsafe = process.argv.includes("--unsafe")

const all: Readonly<Record<Fault, number>> = {
  "postgres killed": 2,
  "node killed": 3,
  "planned switch": 3,
  "node frozen and woken": 1,
  "postgres frozen and woken": 1,
  "primary cut off": 1,
  "standby killed": 1,
  "etcd away for a minute": 1
}
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
  const series = { proxied: load.acknowledgedAt, named: other.acknowledgedAt, bare: bare.acknowledgedAt }

  const given = { on, load, project_id }
  const enrolling = yield* newcomers({
    ...given,
    rest: size(300, 1500),
    most: size(2000, 200),
    replicas: [proxied, named]
  })
  const renewing = yield* refreshing({ ...given, rest: 1000 })
  const { port: hook } = receiver.address() as AddressInfo
  yield* Context.get(on.services, Channels).create({
    project_id,
    kind: "webhook",
    url: `http://${host}:${hook}/hook`,
    secret: makeSecret(),
    titles: false
  })
  const ringing = yield* notifying({ ...given, rest: 500 })
  const bridges = yield* rotatingFolders({ ...given, rest: 1000, count: size(4, 2), folder })
  const callers = [enrolling, renewing, ringing, bridges]
  failures = () => [
    ...load.violations,
    ...other.violations,
    ...enrolling.violations,
    ...bridges.violations,
    ...violations
  ]

  const whole = awaiting("a whole cluster", cluster.whole)
  const strike = faultsOf(cluster)
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
      yield* enrolling.probeRevoked
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
  yield* other.during(load.during(striking, callers.flatMap(({ turns }) => turns).map(Effect.orDie)).pipe(Effect.orDie))

  yield* load.settled(sql)
  yield* other.settled(sql)
  yield* enrolling.settled
  yield* bridges.settled
  const stored = new Set((yield* sql<{ n: number }>`select n from bare_writer`).map(({ n }) => n))
  const lost = bare.acknowledged.filter((n) => !stored.has(n)).length
  if (lost > 0) violations.push(`${lost} of ${bare.acknowledged.length} acknowledged rows of the bare writer are lost`)

  yield* drained(sql)
  const { blocked } = ringing
  const silent = [...blocked].filter((id) => !delivered.has(id)).length
  if (silent > 0) violations.push(`${silent} of ${blocked.size} notifications did not come`)

  const found = failures()
  return {
    figures: {
      faults: seen,
      ...(unsafe && { found }),
      ...load.counts(),
      notifications: delivered.size,
      outcomes: { proxied: load.outcomes(), named: other.outcomes() },
      calls_judged: bridges.calls(),
      bare_rows: bare.acknowledged.length
    },
    violations: unsafe ? (found.length === 0 ? ["nothing was seen to be lost"] : []) : found
  }
})

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
