/** The statements of pauses, which all replicas share. */
import { Duration, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Lane } from "../../wire/mobile/Notifications.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

const At = Schema.Date

const providerOf = (environment: Lane) =>
  ({ production: "apns", development: "apns", web: "webpush", channel: "channel" })[environment]

export const make = (sql: SqlClient.SqlClient) => {
  const findPause = (environment: Lane) =>
    firstRow(Schema.Struct({ paused_until: Schema.NullOr(At), failures: Schema.Int }))(sql`
      select paused_until, failures
        from push_provider_state
       where provider = ${providerOf(environment)}
         and environment = ${environment}`)

  /** The probe after a pause: of all replicas, only the one that gets the row may send a delivery. */
  const takeProbe = (environment: Lane, now: Date, until: Date) =>
    firstRow(Schema.Struct({ environment: Schema.String }))(sql`
      update push_provider_state s
         set paused_until = ${until}
       where s.provider = ${providerOf(environment)}
         and s.environment = ${environment}
         and s.paused_until <= ${now}
         and exists (
           select 1
             from push_outbox o
             join mobile_device d on d.device_id = o.device_id
            where d.environment = s.environment
              and o.state in ('pending', 'leased')
              and o.not_before <= ${now}
              and o.expires_at > ${now})
      returning environment`)

  /** Starts or doubles the pause. A failure that another replica reports meanwhile does not double it again. */
  const pause = (
    environment: Lane,
    { atLeast, base, max }: Record<"base" | "max" | "atLeast", Duration.Duration>,
    reason: string,
    now: Date,
    probing: Date
  ) => {
    const span = (duration: Duration.Duration) => sql`make_interval(secs => ${Duration.toSeconds(duration)}::float8)`
    return firstRow(Schema.Struct({ paused_until: At }))(sql`
      insert into push_provider_state as s (provider, environment, paused_until, reason, failures)
      values (${providerOf(environment)}, ${environment}, ${now}::timestamptz + greatest(${span(base)}, ${span(atLeast)}), ${reason}, 1)
          on conflict (provider, environment) do update
         set paused_until = ${now}::timestamptz
               + greatest(${span(atLeast)}, least(${span(max)}, ${span(base)} * power(2, least(s.failures, 20)))),
             reason = excluded.reason,
             failures = s.failures + 1
       where s.paused_until is null
          or s.paused_until <= ${probing}
      returning paused_until`)
  }

  const resume = (environment: Lane) =>
    rows(Schema.Struct({ environment: Schema.String }))(sql`
      update push_provider_state
         set paused_until = null, reason = null, failures = 0
       where provider = ${providerOf(environment)}
         and environment = ${environment}
         and failures > 0
      returning environment`)

  /** Makes every pause due for its probe. Deliveries held back as the possible cause of a pause wait until `behind`. */
  const endPauses = (now: Date, behind: Date) => sql`
    with ended as (
      update push_provider_state
         set paused_until = ${now}
       where paused_until > ${now}
      returning environment, reason
    )
    update push_outbox o
       set not_before = ${behind}
      from ended e
      join mobile_device d on d.environment = e.environment
     where o.device_id = d.device_id
       and o.state = 'pending'
       and o.last_reason = e.reason
       and o.not_before > ${behind}`

  return { findPause, takeProbe, pause, resume, endPauses }
}
