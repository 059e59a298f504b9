/** The phones of one project on servers that deliver to an APNs simulator, and a check of what they received. */
import { ConfigProvider, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { services } from "../../../src/App.ts"
import type { ApnsSimulator } from "./ApnsSimulator.ts"
import { everything, makePhone } from "./Phone.ts"
import { makePerson } from "../people/SignIn.ts"

/** The services of a server in this process, with its settings. */
export const servicesOf = (settings: Readonly<Record<string, string | undefined>>) =>
  Layer.build(services.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(settings)))))

export const fleet = Effect.fnUntraced(function* (
  on: { readonly url: string; readonly services: Effect.Success<ReturnType<typeof servicesOf>> },
  simulator: ApnsSimulator,
  devices: number
) {
  const sql = Context.get(on.services, SqlClient.SqlClient)
  const person = yield* makePerson(on as never)
  const phones = yield* Effect.forEach(Array.from({ length: devices }), () =>
    Effect.gen(function* () {
      const phone = makePhone(on, person)
      const { body } = yield* phone.register({ preferences: everything })
      return { ...phone, device_id: body.device_id as string }
    })
  )

  const waiting = Effect.map(
    sql<{ readonly n: number }>`
      select count(*)::int as n from push_outbox where state in ('pending', 'leased')`,
    ([row]) => row!.n
  )
  const settled = Effect.repeat(Effect.delay(waiting, "20 millis"), { until: (n) => n === 0 })

  /** Writes `each` notifications for each phone, all about different subjects, in one statement. */
  const notify = (each: number) => sql`
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
      expires_at, created_at)
    select gen_random_uuid(), gen_random_uuid(), d.device_id, d.project_id, 'task.blocked', gen_random_uuid(), 2,
           't:' || gen_random_uuid(), 'pending', clock_timestamp(), clock_timestamp() + interval '1 day',
           clock_timestamp()
      from mobile_device d
     cross join generate_series(1, ${each}::int)`

  /** Checks the `count` notifications since `clean`: how many arrived, how many repeats, and what is wrong. */
  const judge = Effect.fnUntraced(function* (count: number) {
    const seen = new Map<string, Set<string>>()
    for (const { collapse_id, delivery_id, payload } of simulator.received) {
      seen.set(delivery_id, (seen.get(delivery_id) ?? new Set()).add(`${collapse_id} ${payload}`))
    }
    const states = yield* sql<{ readonly state: string; readonly count: number }>`
      select state, count(*)::int as count from push_outbox group by state`
    const violations: Array<string> = []
    if (seen.size !== count) violations.push(`${seen.size} of ${count} notifications arrived`)
    if (states.some(({ state }) => state !== "delivered"))
      violations.push(`not all delivered: ${JSON.stringify(states)}`)
    if ([...seen.values()].some((forms) => forms.size > 1))
      violations.push("a repeated notification differs from the first")
    return { came: seen.size, twice: simulator.received.length - seen.size, violations }
  })

  /** Removes the notifications of the sign-in and the registrations. */
  const clean = Effect.gen(function* () {
    yield* settled
    yield* sql`delete from push_outbox`
    simulator.received.length = 0
  })
  yield* clean

  return { sql, person, phones, notify, settled, judge, clean }
})
