/**
 * The statements for a provider's feedback about a device: send nothing for a while, or the app was removed. They lock
 * the device before its deliveries, as registrations and sign-outs do; any other order could deadlock with them.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import type { Lane } from "../../wire/mobile/Notifications.ts"
import { firstRow } from "../../platform/sql/Rows.ts"

/** An answered delivery, under the lease with which it was claimed. */
interface Answered {
  readonly delivery_id: string
  readonly lease_token: string
  /** The registration time of the push token that was used. */
  readonly token_updated_at: Date
  readonly status: number | null
  readonly reason: string | null
}

/** How many deliveries are read for the answers of one environment. */
const looked = 10_000

export const make = (sql: SqlClient.SqlClient) => {
  const rest = (device_id: string, until: Date) => sql`
    update mobile_device
       set resting_until = ${until}
     where device_id = ${device_id}::uuid`

  /**
   * The app was removed: deactivates the device and suppresses its waiting deliveries. Changes and returns nothing if
   * the lease has been lost, if the device has another push token by now, or if its token was registered after `since`.
   */
  const deactivate = (
    { delivery_id, lease_token, reason, status, token_updated_at }: Answered,
    since: Date | null,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Schema.Struct({ device_id: Schema.String }))(sql`
      with mine as materialized (
        select delivery_id, device_id
          from push_outbox
         where delivery_id = ${delivery_id}::uuid
           and lease_token = ${lease_token}::uuid
      ), gone as (
        update mobile_device d
           set state = 'inactive', state_reason = ${reason}, ended_at = ${now}, token_key_id = null,
               token_sealed = null, token_lookup = null
          from mine
         where d.device_id = mine.device_id
           and d.state = 'active'
           and d.token_updated_at = ${token_updated_at}
           and (${since}::timestamptz is null or d.token_updated_at < ${since}::timestamptz)
        returning d.device_id, d.project_id, d.provider
      ), silenced as (
        update push_outbox o
           set state = 'suppressed', settled_at = ${now}, last_reason = ${reason}
          from gone
         where o.device_id = gone.device_id
           and o.state = 'pending'
      ), ended as (
        update push_outbox o
           set state = 'suppressed', settled_at = ${now}, lease_token = null, lease_until = null,
               last_status = ${status}, last_reason = ${reason}
          from mine
          join gone on gone.device_id = mine.device_id
         where o.delivery_id = mine.delivery_id
      ), audited as (${auditRow(sql, trace, {
        action: "mobile_device.gone",
        from: "gone",
        project: sql`project_id`,
        actor: sql`'push_provider:' || provider`,
        subject: sql`jsonb_build_object('device_id', device_id)`
      })})
      select device_id from gone`)

  /**
   * Counts the last 50 devices of the environment that got an answer, and how many of them the provider did not know. Looks
   * for them among the last deliveries of all environments, because no index tells these apart.
   */
  const countBadTokens = (environment: Lane) =>
    firstRow(Schema.Struct({ devices: Schema.Int, bad: Schema.Int }))(sql`
      with settled as (
        select device_id, settled_at, last_status, last_reason
          from push_outbox
         where settled_at is not null
         order by settled_at desc
         limit ${looked}
      ), recent as (
        select o.device_id, o.settled_at, o.last_reason is not distinct from 'BadDeviceToken' as bad
          from settled o
          join mobile_device d on d.device_id = o.device_id
         where o.last_status is not null
           and d.environment = ${environment}
         order by o.settled_at desc
         limit 500
      ), latest as (
        select distinct on (device_id) device_id, settled_at, bad
          from recent
         order by device_id, settled_at desc
      ), last as (
        select bad from latest order by settled_at desc limit 50
      )
      select count(*)::int as devices, count(*) filter (where bad)::int as bad
        from last`)

  return { rest, deactivate, countBadTokens }
}
