/** The operator's statements about deliveries and sealed tokens. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { environments } from "../../wire/mobile/Notifications.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

const At = Schema.Date

export const DeadLetter = Schema.Struct({
  delivery_id: Schema.String,
  device_id: Schema.String,
  project_id: Schema.String,
  kind: Schema.String,
  attempts: Schema.Int,
  last_status: Schema.NullOr(Schema.Int),
  last_reason: Schema.NullOr(Schema.String),
  created_at: At,
  settled_at: At,
  expires_at: At
})

export const Provider = Schema.Struct({
  environment: Schema.Literals(environments),
  paused_until: Schema.NullOr(At),
  reason: Schema.NullOr(Schema.String),
  failures: Schema.Int
})

export const Sealed = Schema.Struct({
  device_id: Schema.String,
  environment: Schema.Literals(environments),
  topic: Schema.String,
  token_key_id: Schema.String,
  token_sealed: Schema.Uint8Array,
  token_lookup: Schema.Uint8Array
})

export const make = (sql: SqlClient.SqlClient) => {
  const countStates = rows(Schema.Struct({ state: Schema.String, count: Schema.Int }))(sql`
    select state, count(*)::int as count
      from push_outbox
     group by state
     order by state`)

  const oldestDue = (now: Date) =>
    firstRow(Schema.Struct({ due_since: Schema.NullOr(At) }))(sql`
      select min(not_before) as due_since
        from push_outbox
       where state in ('pending', 'leased')
         and not_before <= ${now}
         and expires_at > ${now}`)

  const providers = rows(Provider)(sql`
    select environment, paused_until, reason, failures
      from push_provider_state
     where failures > 0
     order by environment`)

  const countKeys = rows(Schema.Struct({ token_key_id: Schema.String, devices: Schema.Int }))(sql`
    select token_key_id, count(*)::int as devices
      from mobile_device
     where state = 'active'
     group by token_key_id
     order by token_key_id`)

  const listDead = (limit: number) =>
    rows(DeadLetter)(sql`
      select delivery_id, device_id, project_id, kind, attempts, last_status, last_reason, created_at, settled_at,
             expires_at
        from push_outbox
       where state = 'dead'
       order by settled_at desc, delivery_id
       limit ${limit}`)

  /** Those that are still worth it, to devices that still listen; not those whose place a newer one has taken. */
  const retryDead = (now: Date) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      update push_outbox o
         set state = 'pending', attempts = 0, not_before = ${now}, settled_at = null
        from mobile_device d
       where d.device_id = o.device_id
         and d.state = 'active'
         and o.state = 'dead'
         and o.expires_at > ${now}
         and not exists (
           select 1
             from push_outbox n
            where n.device_id = o.device_id
              and n.collapse_key = o.collapse_key
              and n.state in ('pending', 'leased', 'delivered', 'dead')
              and n.created_at > o.created_at)
      returning o.delivery_id`)

  const sealedAfter = (device_id: string, limit: number) =>
    rows(Sealed)(sql`
      select device_id, environment, topic, token_key_id, token_sealed, token_lookup
        from mobile_device
       where state = 'active'
         and device_id > ${device_id}::uuid
       order by device_id
       limit ${limit}`)

  /** Only if nobody has sealed it anew meanwhile. */
  const reseal = (
    before: typeof Sealed.Type,
    after: {
      readonly token_key_id: string
      readonly token_sealed: Uint8Array
      readonly token_lookup: Uint8Array
    }
  ) =>
    rows(Schema.Struct({ device_id: Schema.String }))(sql`
      update mobile_device
         set token_key_id = ${after.token_key_id}, token_sealed = ${after.token_sealed},
             token_lookup = ${after.token_lookup}
       where device_id = ${before.device_id}::uuid
         and token_sealed = ${before.token_sealed}
      returning device_id`)

  return { countStates, oldestDue, providers, countKeys, listDead, retryDead, sealedAfter, reseal }
}
