/** The statements of `service-admin status`, and the shape of their rows. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { usageByLimit } from "../../platform/sql/ProjectUsage.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { dueSince, mostCounted } from "../../push/admin/PushAdmin.ts"

export const Numbers = Schema.Struct({
  projects: Schema.Int,
  disabled_projects: Schema.Int,
  pending_bridges: Schema.Int,
  active_bridges: Schema.Int,
  revoked_bridges: Schema.Int,
  /** Tokens in the last tenth of their lifetime: their Bridges should have rotated by now. */
  tokens_near_expiry: Schema.Int,
  /** Active Bridges without a valid token. */
  bridges_without_token: Schema.Int,
  pending_rotations: Schema.Int,
  oldest_rotation_at: Schema.NullOr(Schema.Date),
  /** When the oldest row expired that no sweep has updated yet; null if the sweeps are up to date. */
  unswept_since: Schema.NullOr(Schema.Date),
  agent_grants: Schema.Int,
  /** Grants with a refresh token that was replayed from elsewhere in the last day: somebody may have a copy. */
  grants_replayed_elsewhere: Schema.Int,
  active_devices: Schema.Int,
  /** Neither delivered, nor dead, nor expired; up to `mostCounted`. */
  notifications_waiting: Schema.Int,
  /** When the oldest waiting notification became due; null if none is due. */
  notification_due_since: Schema.NullOr(Schema.Date),
  /** Notifications that were given up, up to `mostCounted`; `retry-push-dead-letters` retries the unexpired ones. */
  dead_letters: Schema.Int,
  database_bytes: Schema.Number
})

export const Refused = Schema.Struct({
  action: Schema.String,
  code: Schema.String,
  times: Schema.Int,
  last_at: Schema.Date
})

export const Fullest = Schema.Struct({
  project_id: Schema.String,
  limit: Schema.String,
  value: Schema.Number,
  maximum: Schema.Number
})

export const make = (sql: SqlClient.SqlClient) => ({
  /** Counts by index, without the rows. A token that expires by `nearly` is near its expiry; `since`: a day ago. */
  numbers: (now: Date, nearly: Date, since: Date) =>
    firstRow(Numbers)(sql`
      with bridges as (
        select status, count(*)::int as count
          from bridge_identity
         group by status
      ), valid as (
        -- At most one for each Bridge, and only active ones have one.
        select count(*)::int as count,
               count(*) filter (where expires_at <= ${nearly})::int as nearly_over
          from bridge_token
         where state = 'active'
           and expires_at > ${now}
      ), rotations as (
        select created_at, confirmation_expires_at
          from bridge_rotation
         where state = 'pending'
      ), waiting as (
        -- In the order of an index, like the dead ones: an outage of APNs, or a month, may leave millions.
        select
          from push_outbox
         where state in ('pending', 'leased')
           and expires_at > ${now}
         order by priority desc, not_before
         limit ${mostCounted}
      ), dead as (
        select
          from push_outbox
         where state = 'dead'
         order by settled_at desc
         limit ${mostCounted}
      ), unswept as (
        select least((select min(expires_at) from bridge_token where state = 'active'),
                     (select min(confirmation_expires_at) from bridge_rotation where state = 'pending')) as since
      )
      select (select count(*) from project where disabled_at is null)::int as projects,
             (select count(*) from project where disabled_at is not null)::int as disabled_projects,
             coalesce((select count from bridges where status = 'pending'), 0) as pending_bridges,
             coalesce((select count from bridges where status = 'active'), 0) as active_bridges,
             coalesce((select count from bridges where status = 'revoked'), 0) as revoked_bridges,
             (select nearly_over from valid) as tokens_near_expiry,
             coalesce((select count from bridges where status = 'active'), 0)
               - (select count from valid) as bridges_without_token,
             (select count(*) from rotations where confirmation_expires_at > ${now})::int as pending_rotations,
             (select min(created_at) from rotations where confirmation_expires_at > ${now}) as oldest_rotation_at,
             (select since from unswept where since <= ${now}) as unswept_since,
             (select count(*) from oauth_grant
               where activated_at is not null and revoked_at is null and expires_at > ${now})::int as agent_grants,
             (select count(*) from oauth_grant where replayed_elsewhere_at >= ${since})::int as grants_replayed_elsewhere,
             (select count(*) from mobile_device where state = 'active')::int as active_devices,
             (select count(*) from waiting)::int as notifications_waiting,
             ${dueSince(sql, now)} as notification_due_since,
             (select count(*) from dead)::int as dead_letters,
             pg_database_size(current_database())::float8 as database_bytes`),

  /** The ten most recent kinds of refusal. */
  refused: (since: Date) =>
    rows(Refused)(sql`
      select e.action, e.code, sum(coalesce(c.count, 1))::int as times, max(e.at) as last_at
        from audit_event e
        left join audit_refusal_count c using (event_id)
       where e.at >= ${since}
         and e.outcome = 'refused'
       group by e.action, e.code
       order by max(e.at) desc
       limit 10`),

  /** The ten limits by size that are nearest to their maximum, of those that are used by half. */
  fullest: rows(Fullest)(sql`
    select project_id, "limit", value, maximum
      from (${usageByLimit(sql, storedMaxima({}))}) used
     where 2 * value >= maximum
     order by value / maximum desc, project_id, "limit"
     limit 10`)
})
