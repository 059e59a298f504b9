/**
 * APNs fails in every way it can (503, GOAWAY after each answer, no answer at all) while tasks change and clients call
 * the API.
 *
 * The API answers as fast as before, no notification is lost, and the outbox drains when the outage is over.
 */
import { Effect } from "effect"
import { apnsSimulator, settingsFor } from "../../../support/phones/ApnsSimulator.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { makeRegisteredPhone } from "../../../support/phones/Phone.ts"
import { makePerson } from "../../../support/people/SignIn.ts"
import { awaiting, beside, chaos, percentile, scratch, server, size, sliced } from "../harness.ts"

const phones = 4
/** How often each kind of failure occurs, and the milliseconds that it lasts. */
const [rounds, duration] = [size(3, 1), size(2500, 600)]

const conditions = (["fair", "503", "goaway", "hang"] as const).slice(0, size(4, 3))
const millis: Record<(typeof conditions)[number], Array<number>> = { fair: [], 503: [], goaway: [], hang: [] }

chaos(
  "push-outage",
  () => ({ calls: Object.values(millis).flat().length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const simulator = yield* apnsSimulator()
    const settings = settingsFor(simulator, folder)
    const first = yield* server(folder, settings)
    const on = yield* beside(folder, first, settings)
    const violations: Array<string> = []

    const person = yield* Effect.orDie(makePerson(on))
    const agent = yield* Effect.orDie(Agent.make(on, { project_id: person.project_id }))
    const tokens = yield* Effect.forEach(Array.from({ length: phones }), () =>
      Effect.map(makeRegisteredPhone(on, person), ({ token }) => token)
    )

    const setCondition = (which: (typeof conditions)[number]) =>
      Effect.sync(() => {
        simulator.faults.clear()
        simulator.goawayAfter = which === "goaway" ? 1 : undefined
        if (which === "fair" || which === "goaway") return
        const fault = which === "hang" ? "hang" : ({ status: 503, reason: "ServiceUnavailable" } as const)
        for (const token of tokens) simulator.faults.set(token, fault)
      })

    // A pause lasts up to an hour and a delivery waits for its next attempt: both are made due at once.
    const makeDue = Effect.all(
      [
        on.sql`
          update push_provider_state set paused_until = clock_timestamp() where paused_until > clock_timestamp()`,
        on.sql`
          update push_outbox set not_before = clock_timestamp()
           where state = 'pending' and not_before > clock_timestamp()`
      ],
      { discard: true }
    ).pipe(Effect.orDie)

    let changes = 0
    /** A task that notifies a person, and two reads. */
    const work = (times: Array<number>) =>
      Effect.gen(function* () {
        const timed = <A>(call: Effect.Effect<A>) =>
          Effect.suspend(() => {
            const from = performance.now()
            return Effect.tap(call, () => Effect.sync(() => times.push(performance.now() - from)))
          })
        const task = yield* timed(agent.task("To be blocked"))
        const blocked = { status: "blocked", blocked_reason: "x", blocked_kind: "decision" }
        const { code } = yield* timed(agent.update(task, blocked))
        if (code === undefined) changes++
        else violations.push(`an update was answered ${code}`)
        yield* timed(agent.call("task_list", {}))
        yield* Effect.sleep("20 millis")
      })
    for (let round = 0; round < rounds; round++) {
      for (const which of conditions) {
        yield* setCondition(which)
        yield* makeDue
        const until = performance.now() + duration
        yield* Effect.repeat(work(millis[which]), { while: () => performance.now() < until })
      }
    }
    yield* setCondition("fair")

    const waiting = Effect.map(
      on.sql<{ readonly n: number }>`
        select count(*)::int as n from push_outbox where state in ('pending', 'leased')`,
      ([row]) => row!.n
    ).pipe(Effect.orDie)
    const left = yield* waiting
    const outageEnd = performance.now()
    yield* awaiting(
      "an empty outbox",
      Effect.repeat(Effect.andThen(makeDue, Effect.delay(waiting, "200 millis")), { until: (n) => n === 0 })
    )
    const drained_ms = Math.round(performance.now() - outageEnd)

    const states = yield* Effect.orDie(on.sql<{ readonly state: string; readonly count: number }>`
      select state, count(*)::int as count from push_outbox where kind = 'task.needs_decision' group by state`)
    const delivered = states.find(({ state }) => state === "delivered")?.count ?? 0
    if (delivered !== changes * phones) violations.push(`${changes * phones} were due: ${JSON.stringify(states)}`)
    const shown = new Set(simulator.received.map(({ delivery_id }) => delivery_id)).size
    if (shown < delivered) violations.push(`only ${shown} notifications reached a phone`)

    const p = (share: number) =>
      Object.fromEntries(conditions.map((which) => [which, Math.round(percentile(millis[which], share) * 10) / 10]))
    const [p50, p99] = [p(0.5), p(0.99)]
    // A tenth, and the time that the simulator's TLS handshakes take from this process, which measures.
    for (const which of conditions) {
      if (!sliced && p99[which]! > p99["fair"]! * 1.1 + 50) violations.push(`p99 was ${p99[which]} ms in ${which}`)
    }
    for (const line of first.output.filter((line) => /"level":"(ERROR|FATAL)"/.test(line)).slice(0, 3))
      violations.push(line)

    return {
      figures: { changes, notifications: delivered, waiting_at_the_end: left, drained_ms, p50_ms: p50, p99_ms: p99 },
      violations
    }
  })
)
