/** Phones of one project, on servers that deliver to a simulator of APNs; and what became of their notifications. */
import { ConfigProvider, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { services } from "../../../src/App.ts"
import type { ApnsSimulator } from "./ApnsSimulator.ts"
import { everything, makePhone } from "./Phone.ts"
import { makePerson } from "../agents/SignIn.ts"

/** The services of a server, in this process: settings as it has them. */
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

  /** So many notifications for each phone, each about something else, in one statement. */
  const notify = (each: number) => sql`
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
      expires_at, created_at)
    select gen_random_uuid(), gen_random_uuid(), d.device_id, d.project_id, 'task.blocked', gen_random_uuid(), 2,
           't:' || gen_random_uuid(), 'pending', clock_timestamp(), clock_timestamp() + interval '1 day',
           clock_timestamp()
      from mobile_device d
     cross join generate_series(1, ${each}::int)`

  /** Of `count` notifications since `clean`: what was lost, how often one came again, and what is wrong with that. */
  const judge = Effect.fnUntraced(function* (count: number) {
    const seen = new Map<string, Set<string>>()
    for (const { collapse_id, delivery_id, payload } of simulator.received) {
      seen.set(delivery_id, (seen.get(delivery_id) ?? new Set()).add(`${collapse_id} ${payload}`))
    }
    const states = yield* sql<{ readonly state: string; readonly count: number }>`
      select state, count(*)::int as count from push_outbox group by state`
    const violations: Array<string> = []
    if (seen.size !== count) violations.push(`${seen.size} notifications came, of ${count}`)
    if (states.some(({ state }) => state !== "delivered"))
      violations.push(`not all delivered: ${JSON.stringify(states)}`)
    if ([...seen.values()].some((forms) => forms.size > 1)) violations.push("a repeated one looks different")
    return { came: seen.size, twice: simulator.received.length - seen.size, violations }
  })

  /** What the sign-in and the registrations have told is not counted. */
  const clean = Effect.gen(function* () {
    yield* settled
    yield* sql`delete from push_outbox`
    simulator.received.length = 0
  })
  yield* clean

  return { sql, person, phones, notify, settled, judge, clean }
})
