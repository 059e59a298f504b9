/**
 * What grows with the number of Bridges: the hot paths, a page of every list, `status`, /metrics, the gauges, the pages of
 * the console, and every sweep with nothing due and with a thousand rows due, in a database filled with 1,000 identities
 * and in one with `--identities`. Each row is measured at the larger size, beside the figure at the smaller one; the hot
 * paths alternate between both.
 *
 * Filling a million takes minutes: with `--folder DIR` the databases stay there. A run that finds one missing fills it, and
 * ends without measuring.
 */
import { NodeRuntime } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { existsSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { forCommands, sweeps } from "../../src/App.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { Database } from "../../src/platform/database/Database.ts"
import { type Sweep, sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { Gauges } from "../../src/people/operator/Gauges.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { Sessions } from "../../src/signin/sessions/Sessions.ts"
import { Person } from "../../test/support/people/Console.ts"
import { bigProject, fill } from "../../test/support/database/Fill.ts"
import * as harness from "../support/harness.ts"
import { figure, ratio, report, type Round } from "../support/report.ts"

/** Of one round of a hot path. */
const seconds = Math.max(1, Math.floor(harness.seconds / (3 * 2 * harness.rounds)))
/** Of the embedded database. */
const account = { username: "postgres", database: "postgres" }
const page = { after: undefined, limit: 101 }
/** For each identity there are ten audit rows, an entry in one project, and a tenth of a project. */
const sizesOf = (identities: number) => ({ projects: identities / 10, audit: 10 * identities, entries: identities })

const round = (millis: ReadonlyArray<number>): Partial<Round> => {
  const sorted = millis.toSorted((a, b) => a - b)
  const quantile = (q: number) => sorted[Math.floor(sorted.length * q)]!
  return { p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
}

const timed = <A, E, R>(times: number, work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    yield* work
    const millis: Array<number> = []
    while (millis.length < times) {
      const startedAt = performance.now()
      yield* work
      millis.push(performance.now() - startedAt)
    }
    return round(millis)
  })

/** One page of each list, `status` and /metrics. */
const reads = Effect.fnUntraced(function* (on: harness.Bench, metricsPort: string) {
  const services = yield* Effect.provide(Effect.all(forCommands), on.context)
  const [device] = yield* on.sql`select project_id from mobile_device limit 1`
  const named: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
    "list-projects": services.projects.list(page),
    "list-account-references": services.projects.listReferences(bigProject, page),
    "list-bridge-enrollment-credentials": services.credentials.list(bigProject, page),
    "list-bridges": services.bridges.list(bigProject, page),
    "list-project-tokens": services.projectTokens.list(bigProject, page),
    "list-oauth-clients": services.oauthClients.list(page),
    "list-oauth-grants": services.oauthGrants.list(bigProject, page),
    "list-documents": services.documents.list(bigProject, page),
    "list-devices": services.devices.list(String(device!["project_id"]), page),
    "list-push-dead-letters": services.pushAdmin.listDead(page),
    "list-audit-events": services.audit.list(undefined, page),
    "list-audit-events of a project": services.audit.list(bigProject, page),
    "status, without starting the command": services.overview.take,
    "/metrics": Effect.promise(async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()),
    gauges: Context.get(yield* Layer.build(Gauges.layer).pipe(Effect.provide(on.context)), Gauges).measured
  }
  const measured: Record<string, Partial<Round>> = {}
  for (const [name, read] of Object.entries(named)) measured[name] = yield* timed(20, read)
  return measured
})

/** Pages of the console, as an operator sees them. */
const pages = Effect.fnUntraced(function* (on: harness.Bench) {
  const operator = new Person(on.url, on.url)
  const link = yield* Context.get(on.context, Sessions).makeLink("operator:bench@here", undefined)
  const { pathname, search, searchParams } = new URL(Redacted.value(link.url))
  yield* operator.get(`${pathname}${search}`)
  yield* operator.post(pathname, { code: searchParams.get("code")! })
  const measured: Record<string, Partial<Round>> = {}
  const sections = ["", "/tasks", "/memory", "/bridges", "/documents", "/agents", "/phones", "/activity", "/limits"]
  const paths = [
    ...sections.map((section) => `/${bigProject}${section}`),
    "/projects",
    "/bridges",
    "/access",
    "/push",
    "/health",
    "/activity"
  ]
  for (const path of paths) {
    const read = Effect.filterOrFail(
      operator.get(`/console${path}`),
      ({ status }) => status === 200,
      ({ status }) => `${path}: ${status}`
    )
    measured[`page: /console${path.replace(bigProject, "PROJECT")}`] = yield* timed(10, read)
  }
  return measured
})

/** One batch of each sweep, in order, so that each finds what the ones before it have left. */
const batches = Effect.fnUntraced(function* (on: harness.Bench, days: number, label: string, times: number) {
  const measured: Record<string, Partial<Round>> = {}
  const now = Effect.succeed(new Date(Date.now() + Duration.toMillis(Duration.days(days))))
  const clock = DatabaseClock.of({ now, nowIfKnown: Effect.asSome(now), offset: Effect.succeed(0) })
  for (const { name, run } of sweeps) {
    const millis: Array<number> = []
    let changed = 0
    const once = Effect.suspend(() => {
      let first = true
      const batch: Sweep<Settings> = {
        name: `bench ${name}`,
        run: Effect.fnUntraced(function* (sql, at, limit) {
          if (!first) return []
          first = false
          const startedAt = performance.now()
          const done = yield* run(sql, at, limit)
          millis.push(performance.now() - startedAt)
          changed = done.length
          return done
        })
      }
      return sweepOnce([batch])
    })
    yield* Effect.replicateEffect(once, times).pipe(
      Effect.provideService(DatabaseClock, clock),
      Effect.provideService(Settings, Context.get(on.context, Settings))
    )
    const figures = days === 0 ? name : `${name}, ${changed} rows`
    measured[`${label}: ${figures}`] = round(millis)
  }
  return measured
})

const operations = { self: "tokens/self", rotate: "rotation", enroll: "enrollment" } as const

/** The rounds of each hot path, at the smaller size and at the larger one in turns. */
const hotPaths = Effect.fnUntraced(function* (small: harness.Bench, large: harness.Bench) {
  const load = Effect.fnUntraced(function* (on: harness.Bench, operation: keyof typeof operations, seconds: number) {
    const enrolls = operation === "enroll"
    const first = yield* on.issue(enrolls ? seconds * 3000 : harness.connections * 4)
    const { project_id, url: service } = on
    const count = enrolls ? seconds * 2500 : 1_000_000
    const asked = { operation, service, seconds, count, project_id, first, connections: 4 }
    return yield* harness.measure(on, on, asked)
  })
  return yield* Effect.forEach(Object.keys(operations) as ReadonlyArray<keyof typeof operations>, (operation) =>
    Effect.gen(function* () {
      for (const on of [small, large]) yield* load(on, operation, 2)
      const turns = { before: () => load(small, operation, seconds), now: () => load(large, operation, seconds) }
      const { before, now } = yield* harness.inTurns(turns, Infinity)
      return figure(`${operations[operation]}; p99 ${median(before).toFixed(1)} ms at 1,000`, now, {
        ratio: ratio("p99", now, before, { most: 1.2 })
      })
    })
  )
})

const median = (rounds: ReadonlyArray<Round>) =>
  rounds.map(({ p99_ms }) => p99_ms).toSorted((a, b) => a - b)[rounds.length >> 1]!

/** Everything else, by name. */
const rest = Effect.fnUntraced(function* ({ metricsPort, on }: Opened) {
  const work = Effect.gen(function* () {
    const nothing = yield* batches(on, 0, "sweep, nothing due", 10)
    return { ...nothing, ...(yield* batches(on, 500, "sweep", 1)) }
  })
  const { dedicated } = Context.get(on.context, Database)
  return { ...(yield* reads(on, metricsPort)), ...(yield* pages(on)), ...(yield* dedicated(work)) }
})

type Opened = { readonly on: harness.Bench; readonly metricsPort: string }

/** Undefined if the database was only filled. */
const opened = Effect.fnUntraced(function* (identities: number) {
  const metricsPort = String(yield* harness.freePort)
  const kept = harness.folder === undefined ? undefined : resolve(harness.folder, String(identities))
  const isFilled = kept !== undefined && existsSync(join(kept, "filled"))
  const on = yield* harness.startWith({
    SERVICE_METRICS_PORT: metricsPort,
    ...(kept !== undefined && { SERVICE_DATA_DIR: kept })
  })
  if (isFilled) return { on, metricsPort }
  const startedAt = performance.now()
  // Not a dedicated connection: those have ten minutes.
  const connection = { ...on.database, ...account, password: Redacted.make(on.database.password), maxConnections: 1 }
  yield* Effect.provide(fill(identities, sizesOf(identities)), PgClient.layer(connection))
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  process.stderr.write(`${identities} identities: filled in ${seconds} s\n`)
  if (kept === undefined) return { on, metricsPort }
  writeFileSync(join(kept, "filled"), "")
  return undefined
})

const main = Effect.gen(function* () {
  const small = yield* opened(1000)
  const large = yield* opened(harness.identities)
  if (small === undefined || large === undefined) return
  const hot = yield* hotPaths(small.on, large.on)
  const [before, now] = [yield* rest(small), yield* rest(large)]
  // A small database may have fewer rows due.
  const alike = (name: string) => name.replace(/, \d+ rows$/, "")
  const smaller = new Map(Object.entries(before).map(([name, measured]) => [alike(name), measured]))
  const others = Object.entries(now).map(([name, measured]) => {
    const { p50_ms } = smaller.get(alike(name))!
    return figure(name, [measured], { note: `p50 ${p50_ms!.toFixed(1)} ms at 1,000` })
  })
  report("scale", [...hot, ...others])
})

NodeRuntime.runMain(Effect.scoped(main))
