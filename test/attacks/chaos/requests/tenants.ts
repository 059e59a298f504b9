/**
 * A hostile project beside an honest one, by every means of parts/tenants/Hostile.ts at once. Phases with the honest one
 * alone and beside the hostile one take turns, so that noise of the machine reaches both.
 *
 * The honest project is answered without an error, its p99 stays within 1.5 times of what it is alone, and the hostile
 * one stays within its limits.
 *
 *     npm run chaos tenants -- --only dense-search,authorize      only some means
 *     npm run chaos tenants -- --each                             one means after the other, to find which one hurts
 */
import { Context, Effect } from "effect"
import { fork } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Projects } from "../../../../src/operator/projects/Projects.ts"
import { makeClient } from "../../../support/agents/Agent.ts"
import { Agent, issueToken } from "../../../support/agents/McpAgent.ts"
import { makeProject } from "../../../support/bridges/Bridge.ts"
import { beside, chaos, scratch, server, size, sliced } from "../harness.ts"
import { type Given, means } from "../parts/tenants/Hostile.ts"
import type { Order, Report } from "../parts/tenants/HostileMain.ts"
import { makeHonest } from "../parts/tenants/Honest.ts"
import { dense, fillHostile, fillOrdinary } from "../parts/tenants/Projects.ts"
import { merged, type Round, rowOf, rowsOf, shown } from "../parts/tenants/Table.ts"

const { each, only } = parseArgs({ options: { each: { type: "boolean" }, only: { type: "string" } } }).values
const chosen = only?.split(",") ?? Object.keys(means)
const unknown = chosen.filter((name) => means[name] === undefined)
if (unknown.length > 0) {
  process.stderr.write(`Unknown means: ${unknown.join(", ")}. Choose from: ${Object.keys(means).join(", ")}.\n`)
  process.exit(64)
}

/** The means of each round. */
const rounds = each === true ? chosen.map((name) => [name]) : Array.from({ length: size(4, 1) }, () => chosen)
/** Milliseconds alone, and as many beside the hostile project. */
const phase = each === true ? 5000 : size(7500, 1500)
const slowest = 1.5
/** Milliseconds after which no round starts: a service that stands still makes each take a minute. */
const longest = each === true ? 600_000 : 60_000
const proxy = "127.0.9.9"

/** What a project may do in a minute, unless a refusal names another maximum; and what an address may guess. */
const budgets = { writes_per_minute: 600, searches_per_minute: 600, guesses: { burst: 200, perSecond: 20 } }

let answered = 0

/** The hostile project's process. */
const hostile = (given: Given) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => fork(join(import.meta.dirname, "../parts/tenants/HostileMain.ts"), [JSON.stringify(given)])),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    ),
    (child) => {
      const order = (order: Order) => Effect.sync(() => child.send(order))
      const reported = Effect.promise(async () => (await once(child, "message"))[0] as Report)
      return {
        play: (names: ReadonlyArray<string>) => order({ play: names }),
        rest: Effect.andThen(order({}), reported)
      }
    }
  )

chaos(
  "tenants",
  () => ({ answered }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const settings = { SERVICE_RATE_LIMITS: "on", SERVICE_TRUSTED_PROXIES: `${proxy}/32` }
    const { url } = yield* server(folder, settings)
    const on = yield* beside(folder, { url }, settings)
    const { services, sql } = on
    const violations: Array<string> = []

    const ours = yield* makeProject(on)
    const entries = yield* fillOrdinary(services, ours, { entries: size(3000, 100), tasks: size(1000, 50) })
    const honest = yield* makeHonest(on, ours, entries)
    const { project_id: theirs } = yield* Context.get(services, Projects).create("Hostile")
    const tasks = size(20_000, 500)
    yield* fillHostile(services, theirs, { entries: size(1500, 50), tasks })
    const { token, write_context } = yield* Agent.make(on, { project_id: theirs })
    const others = yield* Effect.forEach(Array.from({ length: 19 }), () => issueToken(on, theirs))
    const client_id = yield* makeClient(on)
    const attacker = yield* hostile({ url, proxy, tokens: [token, ...others], write_context, client_id, dense, tasks })

    /** Until the service has done what the attacker asked for: the next phase is not to pay for it. */
    const quiet = Effect.repeat(
      sql<{ readonly busy: number }>`
        select count(*)::int as busy
          from pg_stat_activity
         where state = 'active'
           and backend_type = 'client backend'
           and pid <> pg_backend_pid()`.pipe(Effect.tap(Effect.promise(() => fetch(`${url}/healthz`)))),
      { until: ([row]) => row!.busy === 0 }
    ).pipe(Effect.timeoutOption("20 seconds"))

    const measured: Array<Round> = []
    let report: Report = { outcomes: {}, unauthorized: {}, maxima: {} }
    let attackedFor = 0
    const from = new Date()
    const begun = performance.now()
    // A process that has just started is slow once at everything, which is no project's fault.
    yield* attacker.play(chosen)
    yield* honest.during(size(2000, 500))
    yield* attacker.rest
    yield* quiet
    for (const names of rounds) {
      if (performance.now() - begun > longest) break
      const alone = yield* honest.during(phase)
      yield* attacker.play(names)
      const started = performance.now()
      const attacked = yield* honest.during(phase)
      report = yield* attacker.rest
      attackedFor += (performance.now() - started) / 1000
      answered += alone.length + attacked.length
      measured.push({ names, alone, attacked })
      yield* quiet
    }

    for (const [when, timed] of measured.flatMap(({ alone, attacked, names }) => [
      ["alone", alone] as const,
      [each === true ? `beside ${names.join()}` : "beside", attacked] as const
    ])) {
      const failed = timed.filter(({ outcome }) => !/^20\d$/.test(outcome))
      for (const [outcome, of] of Object.entries(Object.groupBy(failed, ({ group, outcome }) => `${group} ${outcome}`)))
        violations.push(`${when}: ${of!.length} of ${timed.length} honest requests were answered ${outcome}`)
    }

    const together = each === true ? measured : [merged(measured)]
    const table = together.flatMap(rowsOf)
    process.stderr.write(shown(table))
    // The p99 of fewer requests would be the slowest of them.
    const slower = table.filter(
      ({ alone_ms, beside_ms, requests }) => !sliced && requests >= 100 && beside_ms > slowest * alone_ms
    )
    for (const { alone_ms, beside_ms, group, means } of slower)
      violations.push(`${means}: p99 of ${group} was ${beside_ms} ms beside the hostile project, ${alone_ms} ms alone`)

    // Buckets: the burst at once, and what flows in from the first round to the end of the last.
    const seconds = (performance.now() - begun) / 1000
    const allowed = (burst: number, perSecond: number) => Math.ceil(burst + perSecond * seconds)
    const [written] = yield* sql<{ readonly writes: number }>`
      select count(*)::int as writes
        from audit_event
       where project_id = ${theirs}::uuid
         and action in ('memory.added', 'task.created', 'task.updated')
         and at >= ${from}`
    const searched = ["dense-search", "dense-search-batch"].reduce(
      (sum, name) => sum + (report.outcomes[name]?.["ok"] ?? 0),
      0
    )
    for (const [limit, value] of [
      ["writes_per_minute", written!.writes],
      ["searches_per_minute", searched]
    ] as const) {
      const maximum = report.maxima[limit] ?? budgets[limit]
      if (value > allowed(maximum, maximum / 60))
        violations.push(
          `${value} calls of the hostile project passed ${limit} of ${maximum} in ${Math.round(seconds)} s`
        )
    }
    const guesses = Math.max(0, ...Object.values(report.unauthorized))
    if (guesses > allowed(budgets.guesses.burst, budgets.guesses.perSecond))
      violations.push(`${guesses} guesses of one address were answered in ${Math.round(seconds)} s`)

    return {
      figures: {
        honest: together.map((round) => rowOf(round, "all")),
        attacked_for: Math.round(attackedFor),
        writes: written!.writes,
        searches: searched,
        guesses,
        maxima: report.maxima,
        hostile: report.outcomes
      },
      violations
    }
  }).pipe(Effect.orDie),
  each === true ? "15 minutes" : "3 minutes"
)
