/** The statements for registered devices. Those for any device are in AnyDeviceStore.ts. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { asJson, environments, Preferences } from "../../wire/mobile/Notifications.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import type { Page } from "../../platform/sql/Page.ts"

const At = Schema.Date
/** Without channels, which have statements of their own (channels/ChannelStore.ts). */
const places = [...environments, "web"] as const
const State = Schema.Literals(["active", "revoked", "inactive"])

export const Row = Schema.Struct({
  device_id: Schema.String,
  project_id: Schema.String,
  subject: Schema.String,
  state: State,
  provider: Schema.Literals(["apns", "webpush"]),
  environment: Schema.Literals(places),
  topic: Schema.String,
  token_fingerprint: Schema.NullOr(Schema.String),
  preferences: Preferences,
  preferences_version: Schema.Int,
  created_at: At,
  last_seen_at: At,
  ended_at: Schema.NullOr(At)
})
export type Row = typeof Row.Type

/** A device as the operator sees it. */
export const Listed = Schema.Struct({
  device_id: Schema.String,
  subject: Schema.String,
  client_id: Schema.NullOr(Schema.String),
  state: State,
  state_reason: Schema.NullOr(Schema.String),
  environment: Schema.Literals(places),
  topic: Schema.String,
  app_version: Schema.NullOr(Schema.String),
  token_key_id: Schema.NullOr(Schema.String),
  created_at: At,
  last_seen_at: At,
  ended_at: Schema.NullOr(At)
})
export type Listed = typeof Listed.Type

export interface Owner {
  readonly project_id: string
  readonly subject: string
}

export const make = (sql: SqlClient.SqlClient) => {
  const columns = sql`
    d.device_id, d.project_id, d.subject, d.state, d.provider, d.environment, d.topic,
    right(encode(d.token_lookup, 'hex'), 4) as token_fingerprint, d.preferences, d.preferences_version, d.created_at,
    d.last_seen_at, d.ended_at`

  const find = ({ project_id, subject }: Owner, device_id: string) =>
    firstRow(Row)(sql`
      select ${columns}
        from mobile_device d
       where d.device_id = ${device_id}::uuid
         and d.project_id = ${project_id}::uuid
         and d.subject = ${subject}::uuid`)

  /** Changes nothing unless the current version is one of `versions`; null accepts any. */
  const setPreferences = (
    { project_id, subject }: Owner,
    device_id: string,
    preferences: Preferences,
    versions: ReadonlyArray<number> | null,
    now: Date
  ) =>
    firstRow(Row)(sql`
      update mobile_device d
         set preferences = ${asJson(preferences)}::jsonb,
             preferences_version = d.preferences_version + 1,
             last_seen_at = ${now}
       where d.device_id = ${device_id}::uuid
         and d.project_id = ${project_id}::uuid
         and d.subject = ${subject}::uuid
         and d.state = 'active'
         and (${versions}::int[] is null or d.preferences_version = any (${versions}::int[]))
      returning ${columns}`)

  /** Makes deliveries due that wait for quiet hours or a pause, so that the worker checks the new preferences. */
  const releaseHeld = (device_id: string, now: Date) => sql`
    update push_outbox
       set not_before = ${now}
     where device_id = ${device_id}::uuid
       and state = 'pending'
       and last_reason in ('quiet_hours', 'paused')
       and not_before > ${now}`

  const lock = (device_id: string) =>
    firstRow(Row)(sql`
      select ${columns}
        from mobile_device d
       where d.device_id = ${device_id}::uuid
         and d.environment <> 'channel'
         for no key update`)

  const list = (project_id: string, { after, limit }: Page) =>
    rows(Listed)(sql`
      select device_id, subject, client_id, state, state_reason, environment, topic, app_version, token_key_id,
             created_at, last_seen_at, ended_at
        from mobile_device
       where project_id = ${project_id}::uuid
         and environment <> 'channel'
         and ${after === undefined ? sql`true` : sql`device_id < ${after}::uuid`}
       order by device_id desc
       limit ${limit}`)

  const listActive = ({ project_id, subject }: Owner) =>
    rows(Row)(sql`
      select ${columns}
        from mobile_device d
       where d.project_id = ${project_id}::uuid
         and d.subject = ${subject}::uuid
         and d.state = 'active'
       order by d.device_id desc`)

  return { find, setPreferences, releaseHeld, lock, list, listActive }
}
