/**
 * The statements of delivery.
 *
 * A claim leases rows and nobody waits for anybody; whoever settles a row names the lease, and a lease that ran out
 * settles nothing. Where device and row are both written, the device is locked first.
 */
import { Duration, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../wire/AuditRow.ts"
import { firstRow, rows } from "../wire/Rows.ts"
import { type Environment, kindNames, Preferences } from "../wire/Notifications.ts"
import { joined, stands } from "../wire/StandingGrant.ts"

const At = Schema.Date

export const Claimed = Schema.Struct({
  delivery_id: Schema.String,
  device_id: Schema.String,
  project_id: Schema.String,
  kind: Schema.Literals(kindNames),
  reference: Schema.NullOr(Schema.String),
  collapse_key: Schema.String,
  /** This one included. */
  attempts: Schema.Int,
  expires_at: At,
  topic: Schema.String,
  state: Schema.Literals(["active", "revoked", "inactive"]),
  /** The sign-in that registered the device, its client, its project token and its project are all alive. */
  authorized: Schema.Boolean,
  token_key_id: Schema.NullOr(Schema.String),
  token_sealed: Schema.NullOr(Schema.Uint8Array),
  token_updated_at: At,
  preferences: Preferences
})
export type Claimed = typeof Claimed.Type

const Settled = Schema.Struct({ state: Schema.String })

export interface Lease {
  readonly token: string
  readonly until: Date
}

/** What the provider said last; a word of our own where it was not asked. */
export interface Said {
  readonly status: number | null
  readonly reason: string | null
}

export const make = (sql: SqlClient.SqlClient) => {
  const findPause = (environment: Environment) =>
    firstRow(Schema.Struct({ paused_until: Schema.NullOr(At), failures: Schema.Int }))(sql`
      select paused_until, failures
        from push_provider_state
       where provider = 'apns'
         and environment = ${environment}`)

  /** After a pause one delivery shows whether it is over; of all replicas the one that this answers may send it. */
  const takeProbe = (environment: Environment, now: Date, until: Date) =>
    firstRow(Schema.Struct({ environment: Schema.String }))(sql`
      update push_provider_state s
         set paused_until = ${until}
       where s.provider = 'apns'
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

  /** Nothing more is sent before that. Whoever learns of the same failure meanwhile does not double it. */
  const pause = (
    environment: Environment,
    { atLeast, base, most }: Record<"base" | "most" | "atLeast", Duration.Duration>,
    reason: string,
    now: Date,
    probing: Date
  ) => {
    const span = (duration: Duration.Duration) => sql`make_interval(secs => ${Duration.toSeconds(duration)}::float8)`
    return firstRow(Schema.Struct({ paused_until: At }))(sql`
      insert into push_provider_state as s (provider, environment, paused_until, reason, failures)
      values ('apns', ${environment}, ${now}::timestamptz + greatest(${span(base)}, ${span(atLeast)}), ${reason}, 1)
          on conflict (provider, environment) do update
         set paused_until = ${now}::timestamptz
               + greatest(${span(atLeast)}, least(${span(most)}, ${span(base)} * power(2, least(s.failures, 20)))),
             reason = excluded.reason,
             failures = s.failures + 1
       where s.paused_until is null
          or s.paused_until <= ${probing}
      returning paused_until`)
  }

  const resume = (environment: Environment) =>
    rows(Schema.Struct({ environment: Schema.String }))(sql`
      update push_provider_state
         set paused_until = null, reason = null, failures = 0
       where provider = 'apns'
         and environment = ${environment}
         and failures > 0
      returning environment`)

  /** A restart may have mended what was wrong: every pause is over but for its one probe. */
  const endPauses = (now: Date) => sql`
    update push_provider_state
       set paused_until = ${now}
     where paused_until > ${now}`

  const claim = (environment: Environment, limit: number, lease: Lease, now: Date) =>
    rows(Claimed)(sql`
      with due as materialized (
        select o.delivery_id
          from push_outbox o
          join mobile_device d on d.device_id = o.device_id
         where o.state in ('pending', 'leased')
           and (o.state = 'pending' or o.lease_until <= ${now})
           and o.not_before <= ${now}
           and o.expires_at > ${now}
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
                  o.expires_at, o.priority, o.not_before
      )
      select l.delivery_id, l.device_id, l.project_id, l.kind, l.reference, l.collapse_key, l.attempts, l.expires_at,
             d.topic, d.state, d.token_key_id, d.token_sealed, d.token_updated_at, d.preferences,
             ${authorized(sql, now)} as authorized
        from leased l
        join mobile_device d on d.device_id = l.device_id
       order by l.priority desc, l.not_before`)

  const deliver = (delivery_ids: ReadonlyArray<string>, lease: Lease, now: Date) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      update push_outbox
         set state = 'delivered', settled_at = ${now}, lease_token = null, lease_until = null, last_status = 200,
             last_reason = null
       where delivery_id = any (${delivery_ids}::uuid[])
         and lease_token = ${lease.token}::uuid
      returning delivery_id`)

  const end = (delivery_id: string, state: "suppressed" | "dead", { reason, status }: Said, lease: Lease, now: Date) =>
    firstRow(Settled)(sql`
      update push_outbox
         set state = ${state}, settled_at = ${now}, lease_token = null, lease_until = null, last_status = ${status},
             last_reason = ${reason}
       where delivery_id = ${delivery_id}::uuid
         and lease_token = ${lease.token}::uuid
      returning state`)

  /** Back to the queue, unless by then it has expired or a newer one has taken its place. */
  const postpone = (
    delivery_id: string,
    until: Date,
    attempt: "counts" | "does not count",
    { reason, status }: Said,
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
                                    and n.state = 'pending'
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

  const rest = (device_id: string, until: Date) => sql`
    update mobile_device
       set resting_until = ${until}
     where device_id = ${device_id}::uuid`

  /**
   * The installation is gone: the device ends, and with it all that waits for it. Nothing happens, and no row comes
   * back, where the lease is over, or where the token is no longer the one that was sent or is younger than `since`.
   */
  const deactivate = (
    { delivery_id, token_updated_at }: Claimed,
    since: Date | null,
    { reason, status }: Said,
    lease: Lease,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Schema.Struct({ device_id: Schema.String }))(sql`
      with mine as materialized (
        select delivery_id, device_id
          from push_outbox
         where delivery_id = ${delivery_id}::uuid
           and lease_token = ${lease.token}::uuid
      ), gone as (
        update mobile_device d
           set state = 'inactive', state_reason = ${reason}, ended_at = ${now}, token_key_id = null,
               token_sealed = null, token_lookup = null
          from mine
         where d.device_id = mine.device_id
           and d.state = 'active'
           and d.token_updated_at = ${token_updated_at}
           and (${since}::timestamptz is null or d.token_updated_at < ${since}::timestamptz)
        returning d.device_id, d.project_id
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
        actor: sql`'push_provider:apns'`,
        subject: sql`jsonb_build_object('device_id', device_id)`
      })})
      select device_id from gone`)

  /** Of the 50 devices of the environment that the provider answered for last, how many it does not know. */
  const countBadTokens = (environment: Environment) =>
    firstRow(Schema.Struct({ devices: Schema.Int, bad: Schema.Int }))(sql`
      with recent as (
        select o.device_id, o.settled_at, o.last_reason is not distinct from 'BadDeviceToken' as bad
          from push_outbox o
          join mobile_device d on d.device_id = o.device_id
         where o.settled_at is not null
           and o.last_status is not null
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

  /** What a process that stops had not sent yet, at once for the others. */
  const release = (lease_tokens: ReadonlyArray<string>) => sql`
    update push_outbox
       set state = 'pending', lease_token = null, lease_until = null
     where lease_token = any (${lease_tokens}::uuid[])`

  const expire = (now: Date, limit: number) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      with late as materialized (
        select delivery_id
          from push_outbox
         where state in ('pending', 'leased')
           and expires_at <= ${now}
           and (lease_until is null or lease_until <= ${now})
         limit ${limit}
           for no key update skip locked
      )
      update push_outbox o
         set state = 'expired', settled_at = ${now}, lease_token = null, lease_until = null
        from late
       where o.delivery_id = late.delivery_id
      returning o.delivery_id`)

  const purge = (before: Date, limit: number) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      delete from push_outbox
       where delivery_id in (
         select delivery_id
           from push_outbox
          where settled_at < ${before}
          limit ${limit})
      returning delivery_id`)

  return {
    expire,
    purge,
    findPause,
    takeProbe,
    pause,
    resume,
    endPauses,
    claim,
    deliver,
    end,
    postpone,
    rest,
    deactivate,
    countBadTokens,
    release
  }
}

/** A condition on the device `d`: what its registration rested on still stands. */
export const authorized = (sql: SqlClient.SqlClient, now: Date) => sql`
  exists (
    select 1
      from oauth_grant g
      ${joined(sql)}
     where g.grant_id = d.grant_id
       and ${stands(sql, now)})`
