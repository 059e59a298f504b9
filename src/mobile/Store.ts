/**
 * The statements of devices.
 *
 * Locks are taken in one order: the project (where devices are counted), then the device, then its notifications. A
 * device that ends forgets its push token in the same statement.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { environments, Preferences } from "../wire/Notifications.ts"
import { firstRow, rows } from "../wire/Rows.ts"

const At = Schema.Date
const State = Schema.Literals(["active", "revoked", "inactive"])

export const Row = Schema.Struct({
  device_id: Schema.String,
  project_id: Schema.String,
  subject: Schema.String,
  state: State,
  environment: Schema.Literals(environments),
  topic: Schema.String,
  token_fingerprint: Schema.NullOr(Schema.String),
  preferences: Preferences,
  preferences_version: Schema.Int,
  created_at: At,
  last_seen_at: At,
  ended_at: Schema.NullOr(At)
})
export type Row = typeof Row.Type

/** What the operator sees. */
export const Listed = Schema.Struct({
  device_id: Schema.String,
  subject: Schema.String,
  client_id: Schema.String,
  state: State,
  state_reason: Schema.NullOr(Schema.String),
  environment: Schema.Literals(environments),
  topic: Schema.String,
  app_version: Schema.NullOr(Schema.String),
  token_key_id: Schema.NullOr(Schema.String),
  created_at: At,
  last_seen_at: At,
  ended_at: Schema.NullOr(At)
})

export interface Owner {
  readonly project_id: string
  readonly subject: string
}

export interface Registered extends Owner {
  readonly device_id: string
  readonly client_id: string
  readonly grant_id: string
  readonly token_key_id: string
  readonly token_sealed: Uint8Array
  readonly token_lookup: Uint8Array
  readonly app_version: string | null
  readonly os_version: string | null
  readonly locale: string | null
  /** Null: as they are, or the defaults. */
  readonly preferences: Preferences | null
}

export const make = (sql: SqlClient.SqlClient) => {
  const json = (preferences: Preferences | null) =>
    preferences === null ? null : JSON.stringify(Schema.encodeSync(Preferences)(preferences))

  const columns = sql`
    d.device_id, d.project_id, d.subject, d.state, d.environment, d.topic,
    right(encode(d.token_lookup, 'hex'), 4) as token_fingerprint, d.preferences, d.preferences_version, d.created_at,
    d.last_seen_at, d.ended_at`

  /** Registrations of one project take turns, so that the limits hold. */
  const lockProject = (project_id: string) => sql`
    select project_id
      from project
     where project_id = ${project_id}::uuid
       for no key update`

  const findRegistration = ({ project_id, subject }: Owner, key_hash: Uint8Array) =>
    firstRow(Schema.Struct({ device_id: Schema.String, request_hash: Schema.Uint8Array, created: Schema.Boolean }))(sql`
      select device_id, request_hash, created
        from mobile_registration
       where project_id = ${project_id}::uuid
         and subject = ${subject}::uuid
         and key_hash = ${key_hash}`)

  const insertRegistration = (
    { project_id, subject }: Owner,
    registration: {
      readonly key_hash: Uint8Array
      readonly request_hash: Uint8Array
      readonly device_id: string
      readonly created: boolean
    },
    now: Date
  ) => sql`
    insert into mobile_registration (project_id, subject, key_hash, request_hash, device_id, created, created_at)
    values (${project_id}::uuid, ${subject}::uuid, ${registration.key_hash}, ${registration.request_hash},
            ${registration.device_id}::uuid, ${registration.created}, ${now})`

  /** Whoever has registered this installation and still holds it. */
  const lockInstallation = (lookups: ReadonlyArray<Uint8Array>) =>
    firstRow(Row)(sql`
      select ${columns}
        from mobile_device d
       where d.state = 'active'
         and d.token_lookup in ${sql.in(lookups)}
       limit 1
         for no key update`)

  const count = ({ project_id, subject }: Owner) =>
    firstRow(Schema.Struct({ ofSubject: Schema.Int, ofProject: Schema.Int }))(sql`
      select count(*) filter (where subject = ${subject}::uuid)::int as "ofSubject", count(*)::int as "ofProject"
        from mobile_device
       where project_id = ${project_id}::uuid
         and state = 'active'`)

  const insert = (
    device: Registered & { readonly environment: string; readonly topic: string },
    defaults: Preferences,
    now: Date
  ) =>
    firstRow(Row)(sql`
      insert into mobile_device as d (
        device_id, project_id, subject, client_id, grant_id, provider, environment, topic, token_key_id, token_sealed,
        token_lookup, token_updated_at, app_version, os_version, locale, state, created_at, last_seen_at, preferences)
      values (${device.device_id}::uuid, ${device.project_id}::uuid, ${device.subject}::uuid, ${device.client_id},
              ${device.grant_id}::uuid, 'apns', ${device.environment}, ${device.topic}, ${device.token_key_id},
              ${device.token_sealed}, ${device.token_lookup}, ${now}, ${device.app_version}, ${device.os_version},
              ${device.locale}, 'active', ${now}, ${now}, ${json(device.preferences ?? defaults)}::jsonb)
      returning ${columns}`)

  const renew = (device: Registered, now: Date) =>
    firstRow(Row)(sql`
      update mobile_device d
         set client_id = ${device.client_id}, grant_id = ${device.grant_id}::uuid,
             token_key_id = ${device.token_key_id}, token_sealed = ${device.token_sealed},
             token_lookup = ${device.token_lookup}, token_updated_at = ${now}, resting_until = null,
             last_seen_at = ${now},
             app_version = coalesce(${device.app_version}, d.app_version),
             os_version = coalesce(${device.os_version}, d.os_version),
             locale = coalesce(${device.locale}, d.locale),
             preferences = coalesce(${json(device.preferences)}::jsonb, d.preferences),
             preferences_version = d.preferences_version + ${device.preferences === null ? 0 : 1}::int
       where d.device_id = ${device.device_id}::uuid
      returning ${columns}`)

  const find = ({ project_id, subject }: Owner, device_id: string) =>
    firstRow(Row)(sql`
      select ${columns}
        from mobile_device d
       where d.device_id = ${device_id}::uuid
         and d.project_id = ${project_id}::uuid
         and d.subject = ${subject}::uuid`)

  /** `versions`: any of them; null: whichever it is. */
  const setPreferences = (
    { project_id, subject }: Owner,
    device_id: string,
    preferences: Preferences,
    versions: ReadonlyArray<number> | null,
    now: Date
  ) =>
    firstRow(Row)(sql`
      update mobile_device d
         set preferences = ${json(preferences)}::jsonb,
             preferences_version = d.preferences_version + 1,
             last_seen_at = ${now}
       where d.device_id = ${device_id}::uuid
         and d.project_id = ${project_id}::uuid
         and d.subject = ${subject}::uuid
         and d.state = 'active'
         and (${versions}::int[] is null or d.preferences_version = any (${versions}::int[]))
      returning ${columns}`)

  /** What was held for quiet hours or a pause is judged anew by the new preferences. */
  const recallHeld = (device_id: string, now: Date) => sql`
    update push_outbox
       set not_before = ${now}
     where device_id = ${device_id}::uuid
       and state = 'pending'
       and last_reason in ('quiet_hours', 'paused')
       and not_before > ${now}`

  /** Ends it, and what waits for it; a device that is gone becomes revoked. A revoked one stays as it is. */
  const revoke = (device_id: string, reason: string, now: Date) =>
    rows(Schema.Struct({ device_id: Schema.String }))(sql`
      with revoked as (
        update mobile_device
           set state = 'revoked', state_reason = ${reason}, ended_at = coalesce(ended_at, ${now}), token_key_id = null,
               token_sealed = null, token_lookup = null
         where device_id = ${device_id}::uuid
           and state <> 'revoked'
        returning device_id
      ), silenced as (
        update push_outbox o
           set state = 'suppressed', settled_at = ${now}, last_reason = 'device_revoked'
          from revoked
         where o.device_id = revoked.device_id
           and o.state = 'pending'
      )
      select device_id from revoked`)

  const lock = (device_id: string) =>
    firstRow(Row)(sql`
      select ${columns}
        from mobile_device d
       where d.device_id = ${device_id}::uuid
         for no key update`)

  const projectExists = (project_id: string) =>
    rows(Schema.Struct({ project_id: Schema.String }))(sql`
      select project_id
        from project
       where project_id = ${project_id}::uuid`)

  const list = (project_id: string) =>
    rows(Listed)(sql`
      select device_id, subject, client_id, state, state_reason, environment, topic, app_version, token_key_id,
             created_at, last_seen_at, ended_at
        from mobile_device
       where project_id = ${project_id}::uuid
       order by created_at, device_id`)

  /** Devices whose sign-in has ended: nothing is sent to them any more, and here they forget their push tokens. */
  const endUnauthorized = (now: Date, limit: number) =>
    rows(Schema.Struct({ device_id: Schema.String }))(sql`
      with ended as materialized (
        select d.device_id
          from mobile_device d
         where d.state = 'active'
           and not exists (
             select 1
               from oauth_grant g
               join oauth_client c on c.client_id = g.client_id
               join project_token t on t.token_id = g.project_token_id
              where g.grant_id = d.grant_id
                and g.revoked_at is null
                and g.expires_at > ${now}
                and c.disabled_at is null
                and t.revoked_at is null
                and (t.expires_at is null or t.expires_at > ${now}))
         limit ${limit}
           for no key update of d skip locked
      ), silenced as (
        update push_outbox o
           set state = 'suppressed', settled_at = ${now}, last_reason = 'not_authorized'
          from ended
         where o.device_id = ended.device_id
           and o.state = 'pending'
      )
      update mobile_device d
         set state = 'revoked', state_reason = 'sign_in_ended', ended_at = ${now}, token_key_id = null,
             token_sealed = null, token_lookup = null
        from ended
       where d.device_id = ended.device_id
      returning d.device_id`)

  const purgeDevices = (before: Date, limit: number) =>
    rows(Schema.Struct({ device_id: Schema.String }))(sql`
      delete from mobile_device
       where device_id in (
         select device_id
           from mobile_device
          where ended_at < ${before}
          limit ${limit})
      returning device_id`)

  const purgeRegistrations = (before: Date, limit: number) =>
    rows(Schema.Struct({ device_id: Schema.String }))(sql`
      delete from mobile_registration
       where (project_id, subject, key_hash) in (
         select project_id, subject, key_hash
           from mobile_registration
          where created_at < ${before}
          limit ${limit})
      returning device_id`)

  return {
    lockProject,
    findRegistration,
    insertRegistration,
    lockInstallation,
    count,
    insert,
    renew,
    find,
    setPreferences,
    recallHeld,
    revoke,
    lock,
    projectExists,
    list,
    endUnauthorized,
    purgeDevices,
    purgeRegistrations
  }
}
