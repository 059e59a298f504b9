/**
 * The statements of a delivery, from its claim to its end.
 *
 * A claim leases rows and skips the locked ones, so that no worker waits for another. Every later statement names the
 * lease: a worker whose rows were claimed again after its lease ended writes nothing.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { type Lane, notificationKindNames, Preferences } from "../../wire/mobile/Notifications.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { providers } from "../tokens/PushTokens.ts"
import { joined, inForce } from "../../platform/sql/access/StandingGrant.ts"
import { tokenInForce } from "../../platform/sql/access/StandingToken.ts"

const At = Schema.Date

export const ClaimedDelivery = Schema.Struct({
  delivery_id: Schema.String,
  device_id: Schema.String,
  project_id: Schema.String,
  kind: Schema.Literals(notificationKindNames),
  reference: Schema.NullOr(Schema.String),
  collapse_key: Schema.String,
  /** Including this one. */
  attempts: Schema.Int,
  /** The provider's status at the previous attempt. */
  last_status: Schema.NullOr(Schema.Int),
  expires_at: At,
  created_at: At,
  provider: Schema.Literals(providers),
  /** Of the task, for channels; the title only if the channel carries titles. */
  task_title: Schema.NullOr(Schema.String),
  task_version: Schema.NullOr(Schema.Int),
  topic: Schema.String,
  state: Schema.Literals(["active", "revoked", "inactive"]),
  /** The sign-in that registered the device, its client, its project token and its project are all still valid. */
  authorized: Schema.Boolean,
  token_key_id: Schema.NullOr(Schema.String),
  token_sealed: Schema.NullOr(Schema.Uint8Array),
  token_updated_at: At,
  preferences: Preferences
})
export type ClaimedDelivery = typeof ClaimedDelivery.Type

const Settled = Schema.Struct({ state: Schema.String })

export interface Lease {
  readonly token: string
  readonly until: Date
}

/** The result of the last attempt, kept in the row: the provider's status and reason, or our reason if nothing was sent. */
export interface Result {
  readonly status: number | null
  readonly reason: string | null
}

/** Whose deliveries a claim leaves out. */
interface Except {
  readonly devices?: ReadonlyArray<string>
  readonly projects?: ReadonlyArray<string>
}

export const make = (sql: SqlClient.SqlClient) => {
  // What is left out is found by columns of the delivery: thousands of rows may be passed over, and none is joined.
  const claim = (
    environment: Lane,
    limit: number,
    lease: Lease,
    now: Date,
    { devices = [], projects = [] }: Except = {}
  ) =>
    rows(ClaimedDelivery)(sql`
      with due as materialized (
        select o.delivery_id
          from push_outbox o
          join mobile_device d on d.device_id = o.device_id
         where o.state in ('pending', 'leased')
           and (o.state = 'pending' or o.lease_until <= ${now})
           and o.not_before <= ${now}
           and o.expires_at > ${now}
           and not o.device_id = any (${devices}::uuid[])
           and not o.project_id = any (${projects}::uuid[])
           and d.environment = ${environment}
           and (d.resting_until is null or d.resting_until <= ${now})
         order by o.priority desc, o.not_before
         limit ${limit}
           for update of o skip locked
      ), leased as (
        update push_outbox o
           set state = 'leased', attempts = o.attempts + 1, lease_token = ${lease.token}::uuid,
               lease_until = ${lease.until}
          from due
         where o.delivery_id = due.delivery_id
        returning o.delivery_id, o.device_id, o.project_id, o.kind, o.reference, o.collapse_key, o.attempts,
                  o.last_status, o.expires_at, o.created_at, o.priority, o.not_before
      )
      select l.delivery_id, l.device_id, l.project_id, l.kind, l.reference, l.collapse_key, l.attempts, l.last_status,
             l.expires_at, l.created_at, d.provider, k.title as task_title, k.version as task_version, d.topic, d.state, d.token_key_id, d.token_sealed, d.token_updated_at, d.preferences,
             ${authorized(sql, now)} as authorized
        from leased l
        join mobile_device d on d.device_id = l.device_id
        left join lateral (
          select case when d.titles then t.title end as title, t.version
            from task t
           where d.environment = 'channel'
             and t.project_id = l.project_id
             and t.id = l.reference::uuid
             and l.kind like 'task.%') k on true
       order by l.priority desc, l.not_before`)

  const deliver = (delivery_ids: ReadonlyArray<string>, lease: Lease, now: Date) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      update push_outbox
         set state = 'delivered', settled_at = ${now}, lease_token = null, lease_until = null, last_status = 200,
             last_reason = null
       where delivery_id = any (${delivery_ids}::uuid[])
         and lease_token = ${lease.token}::uuid
      returning delivery_id`)

  const end = (
    delivery_id: string,
    state: "suppressed" | "dead",
    { reason, status }: Result,
    lease: Lease,
    now: Date
  ) =>
    firstRow(Settled)(sql`
      update push_outbox
         set state = ${state}, settled_at = ${now}, lease_token = null, lease_until = null, last_status = ${status},
             last_reason = ${reason}
       where delivery_id = ${delivery_id}::uuid
         and lease_token = ${lease.token}::uuid
      returning state`)

  /** Returns the delivery to the queue, unless it expires before `until` or a newer notification with its collapse key exists. */
  const postpone = (
    delivery_id: string,
    until: Date,
    attempt: "counts" | "does not count",
    { reason, status }: Result,
    lease: Lease,
    now: Date
  ) =>
    firstRow(Settled)(sql`
      with after as (
        select o.delivery_id,
               case when o.expires_at <= ${until} then 'expired'
                    when exists (select 1
                                   from push_outbox n
                                  where n.device_id = o.device_id
                                    and n.collapse_key = o.collapse_key
                                    and n.state in ('pending', 'leased', 'delivered')
                                    and n.created_at > o.created_at) then 'superseded'
                    else 'pending' end as state
          from push_outbox o
         where o.delivery_id = ${delivery_id}::uuid
      )
      update push_outbox o
         set state = after.state,
             settled_at = case when after.state = 'pending' then null else ${now}::timestamptz end,
             not_before = ${until},
             attempts = o.attempts - ${attempt === "counts" ? 0 : 1}::int,
             lease_token = null, lease_until = null, last_status = ${status}, last_reason = ${reason}
        from after
       where o.delivery_id = after.delivery_id
         and o.lease_token = ${lease.token}::uuid
      returning o.state`)

  /** The rows that a stopping process has not settled: other replicas may claim them at once. */
  const release = (lease_tokens: ReadonlyArray<string>) => sql`
    update push_outbox
       set state = 'pending', lease_token = null, lease_until = null
     where lease_token = any (${lease_tokens}::uuid[])`

  return { claim, deliver, end, postpone, release }
}

/**
 * A condition on the device `d`: the sign-in that registered it is still valid, or the project token if it has none, or the
 * project of a channel.
 */
const authorized = (sql: SqlClient.SqlClient, now: Date) => sql`
  case when d.environment = 'channel' then exists (
    select 1
      from project p
     where p.project_id = d.project_id
       and p.disabled_at is null)
  when d.grant_id is null then exists (
    select 1
      from project_token t
      join project p on p.project_id = t.project_id
     where t.token_id = d.subject
       and ${tokenInForce(sql, now)})
  else exists (
    select 1
      from oauth_grant g
      ${joined(sql)}
     where g.grant_id = d.grant_id
       and ${inForce(sql, now)})
  end`
