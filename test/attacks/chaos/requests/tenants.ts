/**
 * A hostile project beside an honest one, by every means of parts/tenants/Hostile.ts at once, in three phases of a minute:
 * the honest project alone; while the hostile one attacks another instance, with a database of its own; while it attacks
 * the same instance.
 *
 * The second phase is the control. All sides share two cores, so the attack slows down whatever runs beside it; what the
 * third phase costs on top is what projects of one service cost each other.
 *
 * The honest project is answered without an error, its p99 stays within 1.5 times of the control, and the hostile one stays
 * within its limits.
 *
 *     npm run chaos tenants -- --only dense-search,authorize      only some means
 *     npm run chaos tenants -- --each                             one means after the other, to find which one hurts
 */
import { Effect } from "effect"
import { parseArgs } from "node:util"
import { makeProject } from "../../../support/bridges/Bridge.ts"
import { beside, chaos, scratch, server, size, sliced } from "../harness.ts"
import { makeAttacker } from "../parts/tenants/Attacker.ts"
import { means } from "../parts/tenants/Hostile.ts"
import type { Report } from "../parts/tenants/HostileMain.ts"
import { makeHonest, type Timed } from "../parts/tenants/Honest.ts"
import { fillOrdinary } from "../parts/tenants/Projects.ts"
import { type Round, rowOf, rowsOf, shown } from "../parts/tenants/Table.ts"

const { each, only } = parseArgs({ options: { each: { type: "boolean" }, only: { type: "string" } } }).values
const chosen = only?.split(",") ?? Object.keys(means)
const unknown = chosen.filter((name) => means[name] === undefined)
if (unknown.length > 0) {
  process.stderr.write(`Unknown means: ${unknown.join(", ")}. Choose from: ${Object.keys(means).join(", ")}.\n`)
  process.exit(64)
}

/** The means of each round. */
const rounds = each === true ? chosen.map((name) => [name]) : [chosen]
/** Milliseconds of each phase. */
const phase = each === true ? 5000 : size(60_000, 1500)
const slowest = 1.5
/** Milliseconds after which no round starts: a service that stands still makes each take a minute. */
const longest = 600_000
const proxy = "127.0.9.9"

/** What a project may do in a minute, unless a refusal names another maximum; and what an address may guess. */
const budgets = { writes_per_minute: 600, searches_per_minute: 600, guesses: { burst: 200, perSecond: 20 } }

let answered = 0

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
    const holds = { entries: size(1500, 50), tasks: size(20_000, 500) }
    /** The hostile project on an instance. */
    const settle = Effect.fnUntraced(function* (target: typeof on) {
      const { play, project_id, rest } = yield* makeAttacker(target, { ...holds, proxy })
      /** Until the service has done what the attacker asked for: the next phase is not to pay for it. */
      const quiet = Effect.repeat(
        target.sql<{ readonly busy: number }>`
          select count(*)::int as busy
            from pg_stat_activity
           where state = 'active'
             and backend_type = 'client backend'
             and pid <> pg_backend_pid()`.pipe(Effect.tap(Effect.promise(() => fetch(`${target.url}/healthz`)))),
        { until: ([row]) => row!.busy === 0 }
      ).pipe(Effect.timeoutOption("20 seconds"))
      /** The honest project's requests while the hostile one attacks this instance. */
      const during = Effect.fnUntraced(function* (names: ReadonlyArray<string>, millis: number) {
        yield* play(names)
        const timed = yield* honest.during(millis)
        const report = yield* rest
        yield* quiet
        return { timed, report }
      })
      return { project_id, during }
    })
    const attacker = yield* settle(on)
    const elsewhere = sliced
      ? undefined
      : yield* Effect.gen(function* () {
          const folder = yield* scratch
          const { url } = yield* server(folder, settings)
          return yield* Effect.flatMap(beside(folder, { url }, settings), settle)
        })

    const measured: Array<Round> = []
    let report: Report = { outcomes: {}, unauthorized: {}, maxima: {}, failed: [] }
    let attackedFor = 0
    const from = new Date()
    const begun = performance.now()
    // A process that has just started is slow once at everything, which is no project's fault.
    for (const side of [elsewhere, attacker]) yield* side?.during(chosen, size(2000, 500)) ?? Effect.void
    for (const names of rounds) {
      if (performance.now() - begun > longest) break
      const alone = yield* honest.during(phase)
      const control = elsewhere === undefined ? [] : (yield* elsewhere.during(names, phase)).timed
      const started = performance.now()
      const beside = yield* attacker.during(names, phase)
      attackedFor += (performance.now() - started) / 1000
      report = beside.report
      answered += alone.length + control.length + beside.timed.length
      measured.push({ names, alone, control, attacked: beside.timed })
    }

    // Calls that take long because of the tests beside this slice make even an honest project the one that takes longest.
    const isBusy = sliced && measured.some((round) => rowOf(round, "all").alone_ms > 100)
    const isFailure = ({ outcome }: Timed) => !/^20\d$/.test(outcome) && !(isBusy && outcome === "200 limit_exceeded")
    for (const [when, timed] of measured.flatMap(({ alone, attacked, control, names }) => [
      ["alone", alone] as const,
      ["control", control] as const,
      [each === true ? `beside ${names.join()}` : "beside", attacked] as const
    ])) {
      const failed = timed.filter(isFailure)
      for (const [outcome, of] of Object.entries(Object.groupBy(failed, ({ group, outcome }) => `${group} ${outcome}`)))
        violations.push(`${when}: ${of!.length} of ${timed.length} honest requests were answered ${outcome}`)
    }

    const table = measured.flatMap(rowsOf)
    process.stderr.write(shown(table))
    // The p99 of fewer requests would be the slowest of them.
    const slower = table.filter(
      ({ beside_ms, control_ms, requests }) => !sliced && requests >= 100 && beside_ms > slowest * control_ms
    )
    for (const { beside_ms, control_ms, group, means } of slower)
      violations.push(
        `${means}: p99 of ${group} was ${beside_ms} ms beside the hostile project, ${control_ms} ms while it attacked another`
      )

    // Buckets: the burst at once, and what flows in from the first round to the end of the last.
    const seconds = (performance.now() - begun) / 1000
    const allowed = (burst: number, perSecond: number) => Math.ceil(burst + perSecond * seconds)
    const [written] = yield* sql<{ readonly writes: number }>`
      select count(*)::int as writes
        from audit_event
       where project_id = ${attacker.project_id}::uuid
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
        honest: measured.map((round) => rowOf(round, "all")),
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
  each === true ? "15 minutes" : "6 minutes"
)
