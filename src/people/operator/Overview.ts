/** What `service-admin status` shows: how much there is, what is about to end, what waits, what was refused of late. */
import { Context, Duration, Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Settings } from "../../platform/settings/Settings.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { listPauses, type Pause } from "../../push/admin/listPauses.ts"
import { after } from "../../wire/Instant.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

const Numbers = Schema.Struct({
  projects: Schema.Int,
  disabled_projects: Schema.Int,
  pending_bridges: Schema.Int,
  active_bridges: Schema.Int,
  revoked_bridges: Schema.Int,
  tokens_near_expiry: Schema.Int,
  bridges_without_token: Schema.Int,
  pending_rotations: Schema.Int,
  oldest_rotation_at: Schema.NullOr(Schema.Date),
  /** The oldest end that no sweep has written down; null when the sweeps are up to date. */
  unswept_since: Schema.NullOr(Schema.Date),
  agent_grants: Schema.Int,
  active_devices: Schema.Int,
  /** Neither delivered nor given up nor expired. */
  notifications_waiting: Schema.Int,
  /** Since when the oldest of them could have been sent; null when none could. */
  notification_due_since: Schema.NullOr(Schema.Date),
  /** Given up; `retry-push-dead-letters` tries those again that have not expired. */
  dead_letters: Schema.Int,
  database_bytes: Schema.Number
})

const Refused = Schema.Struct({
  action: Schema.String,
  code: Schema.String,
  times: Schema.Int,
  last_at: Schema.Date
})

export interface Status {
  readonly at: Date
  readonly numbers: typeof Numbers.Type
  /** Push environments that fail, and until when they are left alone. */
  readonly pauses: ReadonlyArray<Pause>
  /** Of the last day, the latest first. */
  readonly refused: ReadonlyArray<typeof Refused.Type>
}

export class Overview extends Context.Service<
  Overview,
  { readonly take: Effect.Effect<Status, SharedRefusal<"bridge_persistence_error">> }
>()("service/metrics/Overview") {
  static readonly layer = Layer.effect(
    Overview,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const { bridge } = yield* Settings
      const tenth = Duration.times(bridge.tokenTtl, 0.1)

      const take = Effect.gen(function* () {
        const at = yield* clock.now
        const numbers = yield* firstRow(Numbers)(numbersAt(sql, at, after(at, tenth)))
        const pauses = yield* listPauses(sql)
        const refused = yield* rows(Refused)(refusedSince(sql, after(at, Duration.days(-1))))
        return { at, numbers: Option.getOrThrow(numbers), pauses, refused }
      }).pipe(Effect.withSpan("Overview.take"), persistence)
      return { take }
    })
  )
}

const numbersAt = (sql: SqlClient.SqlClient, now: Date, nearly: Date) => sql`
  with bridges as (
    select i.status, t.expires_at
      from bridge_identity i
      left join bridge_token t on t.identity_id = i.identity_id and t.state = 'active'
  ), rotations as (
    select created_at, confirmation_expires_at
      from bridge_rotation
     where state = 'pending'
  ), waiting as (
    select not_before
      from push_outbox
     where state in ('pending', 'leased')
       and expires_at > ${now}
  ), unswept as (
    select least((select min(expires_at) from bridges), (select min(confirmation_expires_at) from rotations)) as since
  )
  select (select count(*) from project where disabled_at is null)::int as projects,
         (select count(*) from project where disabled_at is not null)::int as disabled_projects,
         (select count(*) from bridges where status = 'pending')::int as pending_bridges,
         (select count(*) from bridges where status = 'active')::int as active_bridges,
         (select count(*) from bridges where status = 'revoked')::int as revoked_bridges,
         (select count(*) from bridges
           where expires_at > ${now} and expires_at <= ${nearly})::int as tokens_near_expiry,
         (select count(*) from bridges
           where status = 'active' and (expires_at is null or expires_at <= ${now}))::int as bridges_without_token,
         (select count(*) from rotations where confirmation_expires_at > ${now})::int as pending_rotations,
         (select min(created_at) from rotations where confirmation_expires_at > ${now}) as oldest_rotation_at,
         (select since from unswept where since <= ${now}) as unswept_since,
         (select count(*) from oauth_grant
           where activated_at is not null and revoked_at is null and expires_at > ${now})::int as agent_grants,
         (select count(*) from mobile_device where state = 'active')::int as active_devices,
         (select count(*) from waiting)::int as notifications_waiting,
         (select min(not_before) from waiting where not_before <= ${now}) as notification_due_since,
         (select count(*) from push_outbox where state = 'dead')::int as dead_letters,
         pg_database_size(current_database())::float8 as database_bytes`

const refusedSince = (sql: SqlClient.SqlClient, since: Date) => sql`
  select action, code, sum(count)::int as times, max(at) as last_at
    from audit_event
   where at >= ${since}
     and outcome = 'refused'
   group by action, code
   order by max(at) desc
   limit 10`
