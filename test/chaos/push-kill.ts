/**
 * Two servers deliver notifications, and one or the other is killed ten times meanwhile.
 *
 * None is lost. One that was on its way at a kill may come twice, with the same id and the same collapse id, so that the
 * phone shows it once.
 */
import { Effect } from "effect"
import { apnsSimulator } from "../support/ApnsSimulator.ts"
import { everything, makePhone } from "../support/Phone.ts"
import { makePerson } from "../support/SignIn.ts"
import { apnsSettings, beside, chaos, draw, percentile, scratch, server, size } from "./harness.ts"

const notifications = size(6000, 600)
const kills = size(10, 1)
const devices = 3

const starts: Array<number> = []

chaos(
  "push-kill",
  () => ({ kills: starts.length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const simulator = yield* apnsSimulator()
    const settings = apnsSettings(folder, simulator)
    const first = yield* server(folder, settings)
    const on = yield* beside(folder, first, settings)
    const { sql } = on
    const person = yield* Effect.orDie(makePerson(on))
    for (let i = 0; i < devices; i++) yield* makePhone(first, person).register({ preferences: everything })
    const second = yield* server(folder, settings)

    const waiting = Effect.map(
      sql<{ readonly n: number }>`
        select count(*)::int as n from push_outbox where state in ('pending', 'leased')`,
      ([row]) => row!.n
    ).pipe(Effect.orDie)
    yield* Effect.repeat(Effect.delay(waiting, "100 millis"), { until: (n) => n === 0 })
    simulator.received.length = 0
    yield* sql`delete from push_outbox`.pipe(Effect.orDie)

    const changing = Effect.forEach(
      Array.from({ length: notifications / devices / 20 }),
      () =>
        sql`
          insert into push_outbox (
            delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
            expires_at, created_at)
          select gen_random_uuid(), gen_random_uuid(), d.device_id, d.project_id, 'task.blocked', gen_random_uuid(), 2,
                 't:' || gen_random_uuid(), 'pending', clock_timestamp(), clock_timestamp() + interval '1 day',
                 clock_timestamp()
            from mobile_device d
           cross join generate_series(1, 20)`.pipe(Effect.orDie, Effect.andThen(Effect.sleep("40 millis"))),
      { discard: true }
    )
    const killing = Effect.gen(function* () {
      while (starts.length < kills) {
        yield* Effect.sleep(100 + draw() * 300)
        starts.push(yield* (starts.length % 2 === 0 ? first : second).killAndRestart)
      }
    })
    yield* Effect.all([changing, killing], { concurrency: 2 })
    // What a killed server had claimed comes back when its lease is over.
    yield* Effect.repeat(Effect.delay(waiting, "200 millis"), { until: (n) => n === 0 })

    const seen = new Map<string, Set<string>>()
    for (const { collapse_id, delivery_id, payload } of simulator.received) {
      seen.set(delivery_id, (seen.get(delivery_id) ?? new Set()).add(`${collapse_id} ${payload}`))
    }
    const states = yield* sql<{ readonly state: string; readonly count: number }>`
      select state, count(*)::int as count from push_outbox group by state`.pipe(Effect.orDie)
    const violations: Array<string> = []
    if (seen.size !== notifications) violations.push(`${notifications - seen.size} notifications are lost`)
    if (states.some(({ state }) => state !== "delivered"))
      violations.push(`not all delivered: ${JSON.stringify(states)}`)
    if ([...seen.values()].some((forms) => forms.size > 1)) violations.push("a repeated one looks different")
    const twice = simulator.received.length - seen.size
    if (twice > kills * 100) violations.push(`${twice} came twice, more than were on their way`)

    return {
      figures: {
        notifications: seen.size,
        came_twice: twice,
        kills: starts.length,
        median_restart_ms: percentile(starts, 0.5)
      },
      violations
    }
  })
)
