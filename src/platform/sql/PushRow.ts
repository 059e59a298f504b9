/** The notifications of a change as clauses of its statement (spec 6.3): neither is written without the other. */
import { Duration } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import {
  isForChannels,
  type NotificationKind,
  notificationKinds,
  priorities,
  rank
} from "../../wire/mobile/Notifications.ts"

export interface Notice {
  readonly kind: NotificationKind
  /** The clause whose rows are the events; the expressions below call it `e`. */
  readonly from: string
  /** The uuid of the event: a repeated event notifies nobody twice. */
  readonly event: Statement.Fragment
  /** The uuid of the project. */
  readonly project: Statement.Fragment
  /** The uuid of the subject: an opaque id that the app can look up at the service. */
  readonly about: Statement.Fragment
  /** A condition on the device `d`; absent: every device of the project. */
  readonly only?: Statement.Fragment
}

/**
 * The clauses `heard`, `outdated` and `notified`: they insert one row for each device that wants the notification, and
 * supersede older pending ones about the same subject and whatever is beyond 300 pending ones of a device. In a project
 * without devices they cost one index lookup. Channels get what concerns tasks only (spec 6.1).
 */
export const notified = (sql: SqlClient.SqlClient, now: Date, { about, event, from, kind, only, project }: Notice) => {
  const { byDefault, collapse, lasts, optional, priority } = notificationKinds[kind]
  const expires_at = new Date(now.getTime() + Duration.toMillis(lasts))
  const wanted = sql`
         and coalesce((d.preferences -> 'kinds' ->> ${kind})::boolean, ${byDefault}::boolean)
         and array_position(${priorities}::text[], d.preferences ->> 'minimum_priority') <= ${rank(priority) + 1}::int`
  return sql`
    heard as materialized (
      select ${event} as event_id, d.device_id, d.project_id, ${about} as reference,
             ${`${collapse}:`}::text || ${about}::text as collapse_key
        from ${sql.literal(from)} e
        join mobile_device d on d.project_id = ${project}
       where d.state = 'active'
         ${isForChannels(kind) ? sql`` : sql`and d.environment <> 'channel'`}
         and ${only ?? sql`true`} ${optional ? wanted : sql``}
    ), outdated as (
      -- A locked row is being delivered or superseded already, so it is skipped.
      update push_outbox
         set state = 'superseded', settled_at = ${now}::timestamptz
       where delivery_id in (
         select o.delivery_id
           from (
             -- Pending are the last ones only, behind any number that were sent.
             select last.delivery_id
               from heard
              cross join lateral (
                select p.delivery_id
                  from push_outbox p
                 where p.device_id = heard.device_id
                   and p.collapse_key = heard.collapse_key
                 order by p.created_at desc
                 limit 10) last
              union all
             -- Of equally urgent ones those that expire first give way: newer tasks do not displace a device that was
             -- added yesterday.
             select excess.delivery_id
               from (select distinct device_id from heard) device
              cross join lateral (
                select p.delivery_id
                  from push_outbox p
                 where p.device_id = device.device_id
                   and p.state = 'pending'
                 order by p.priority desc, p.expires_at desc
                offset 299
                 limit 100) excess) stale
           join push_outbox o on o.delivery_id = stale.delivery_id
          -- Pending, but not in a form that would lead to an index of all that is pending.
          where o.lease_token is null
            and o.settled_at is null
            for update of o skip locked)
    ), notified as (
      insert into push_outbox (
        delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
        expires_at, created_at)
      select gen_random_uuid(), event_id, device_id, project_id, ${kind}::text, reference,
             ${rank(priority)}::smallint, collapse_key, 'pending', ${now}::timestamptz, ${expires_at}::timestamptz,
             ${now}::timestamptz
        from heard
          on conflict (event_id, device_id) do nothing
      returning delivery_id
    )`
}
