/** The statements for channels, which are rows of `mobile_device` without an owner. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Page } from "../../platform/sql/Page.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { channelKinds } from "../../push/Channel.ts"
import { asJson, initialPreferences } from "../../wire/mobile/Notifications.ts"

const At = Schema.Date

/** Without the address, which may be a secret itself. */
export const Listed = Schema.Struct({
  channel_id: Schema.String,
  kind: Schema.Literals(channelKinds),
  host: Schema.String,
  titles: Schema.Boolean,
  state: Schema.Literals(["active", "revoked", "inactive"]),
  state_reason: Schema.NullOr(Schema.String),
  resting_until: Schema.NullOr(At),
  /** Of the last notification. */
  last_state: Schema.NullOr(Schema.String),
  last_status: Schema.NullOr(Schema.Int),
  last_reason: Schema.NullOr(Schema.String),
  created_at: At,
  ended_at: Schema.NullOr(At)
})
export type Listed = typeof Listed.Type

/** As the command that made it shows it. */
export const Made = Schema.Struct({
  channel_id: Schema.String,
  project_id: Schema.String,
  kind: Schema.Literals(channelKinds),
  host: Schema.String,
  titles: Schema.Boolean
})

const Locked = Schema.Struct({
  channel_id: Schema.String,
  project_id: Schema.String,
  kind: Schema.Literals(channelKinds),
  state: Schema.Literals(["active", "revoked", "inactive"]),
  ended_at: Schema.NullOr(At),
  token_key_id: Schema.NullOr(Schema.String),
  token_sealed: Schema.NullOr(Schema.Uint8Array)
})

interface Sealed {
  readonly token_key_id: string
  readonly token_sealed: Uint8Array
  readonly token_lookup: Uint8Array
}

export type NewChannel = typeof Made.Type & Sealed

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * Inserts nothing if the project does not exist, has as many as its limit, by default `most`, allows, or has this one.
   */
  const insert = (channel: NewChannel, most: number, now: Date) =>
    rows(Schema.Struct({ channel_id: Schema.String }))(sql`
      with locked as (
        select project_id, coalesce((limits->>'channels')::int, ${most}) as most
          from project
         where project_id = ${channel.project_id}::uuid
           for no key update
      )
      insert into mobile_device (
        device_id, project_id, provider, environment, topic, titles, token_key_id, token_sealed, token_lookup,
        token_updated_at, state, created_at, last_seen_at, preferences)
      select ${channel.channel_id}::uuid, project_id, ${channel.kind}, 'channel', ${channel.host}, ${channel.titles},
             ${channel.token_key_id}, ${channel.token_sealed}, ${channel.token_lookup}, ${now}, 'active', ${now}, ${now},
             ${asJson(initialPreferences)}::jsonb
        from locked
       where most > (select count(*)
                       from mobile_device d
                      where d.project_id = ${channel.project_id}::uuid
                        and d.environment = 'channel'
                        and d.state = 'active')
          on conflict (device_id) do nothing
      returning device_id as channel_id`)

  const findMade = (channel_id: string) =>
    firstRow(Made)(sql`
      select device_id as channel_id, project_id, provider as kind, topic as host, titles
        from mobile_device
       where device_id = ${channel_id}::uuid
         and environment = 'channel'`)

  const list = (project_id: string, { after, limit }: Page) =>
    rows(Listed)(sql`
      select d.device_id as channel_id, d.provider as kind, d.topic as host, d.titles, d.state, d.state_reason,
             d.resting_until, l.state as last_state, l.last_status, l.last_reason, d.created_at, d.ended_at
        from mobile_device d
        left join lateral (
          select o.state, o.last_status, o.last_reason
            from push_outbox o
           where o.device_id = d.device_id
           order by o.created_at desc
           limit 1) l on true
       where d.project_id = ${project_id}::uuid
         and d.environment = 'channel'
         and ${after === undefined ? sql`true` : sql`d.device_id < ${after}::uuid`}
       order by d.device_id desc
       limit ${limit}`)

  const lock = (channel_id: string) =>
    firstRow(Locked)(sql`
      select device_id as channel_id, project_id, provider as kind, state, ended_at, token_key_id, token_sealed
        from mobile_device
       where device_id = ${channel_id}::uuid
         and environment = 'channel'
         for no key update`)

  const reseal = (channel_id: string, { token_key_id, token_lookup, token_sealed }: Sealed, now: Date) => sql`
    update mobile_device
       set token_key_id = ${token_key_id}, token_sealed = ${token_sealed}, token_lookup = ${token_lookup},
           token_updated_at = ${now}
     where device_id = ${channel_id}::uuid`

  /** A condition on the device `d` of a notification. */
  const isChannel = (channel_id: string) => sql`d.device_id = ${channel_id}::uuid`

  return { insert, findMade, list, lock, reseal, isChannel }
}
