/**
 * The statements of a registration, which run in one transaction.
 *
 * They lock in one order: the project (for the device limits), then the device, then its notifications.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { asJson, type Preferences } from "../../wire/mobile/Notifications.ts"
import type { Installation } from "../../push/tokens/PushTokens.ts"
import { firstRow } from "../../platform/sql/Rows.ts"
import type { Owner } from "./DeviceStore.ts"

export interface Registered extends Owner {
  readonly device_id: string
  /** Null: registered at the console. */
  readonly client_id: string | null
  readonly grant_id: string | null
  /** The key that a browser subscribed with. */
  readonly web_push_key_id: string | null
  readonly token_key_id: string
  readonly token_sealed: Uint8Array
  readonly token_lookup: Uint8Array
  readonly app_version: string | null
  readonly os_version: string | null
  readonly locale: string | null
  /** Null keeps the current preferences; a new device gets the defaults. */
  readonly preferences: Preferences | null
}

export const make = (sql: SqlClient.SqlClient) => {
  /** Registrations of one project run one after the other, so that the device limits hold. */
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

  /** Locks the active device with this installation, of any owner. */
  const lockInstallation = (lookups: ReadonlyArray<Uint8Array>) =>
    firstRow(Schema.Struct({ device_id: Schema.String, project_id: Schema.String, subject: Schema.String }))(sql`
      select d.device_id, d.project_id, d.subject
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
    device: Registered & Pick<Installation, "provider" | "environment" | "topic">,
    defaults: Preferences,
    now: Date
  ) => sql`
    insert into mobile_device (
      device_id, project_id, subject, client_id, grant_id, provider, environment, topic, web_push_key_id, token_key_id,
      token_sealed, token_lookup, token_updated_at, app_version, os_version, locale, state, created_at, last_seen_at,
      preferences)
    values (${device.device_id}::uuid, ${device.project_id}::uuid, ${device.subject}::uuid, ${device.client_id},
            ${device.grant_id}::uuid, ${device.provider}, ${device.environment}, ${device.topic},
            ${device.web_push_key_id}::uuid, ${device.token_key_id}, ${device.token_sealed}, ${device.token_lookup},
            ${now}, ${device.app_version}, ${device.os_version}, ${device.locale}, 'active', ${now}, ${now},
            ${asJson(device.preferences ?? defaults)}::jsonb)`

  const renew = (device: Registered, now: Date) => sql`
    update mobile_device d
       set client_id = ${device.client_id}, grant_id = ${device.grant_id}::uuid,
           web_push_key_id = ${device.web_push_key_id}::uuid,
           token_key_id = ${device.token_key_id}, token_sealed = ${device.token_sealed},
           token_lookup = ${device.token_lookup}, token_updated_at = ${now}, resting_until = null,
           last_seen_at = ${now},
           app_version = coalesce(${device.app_version}, d.app_version),
           os_version = coalesce(${device.os_version}, d.os_version),
           locale = coalesce(${device.locale}, d.locale),
           preferences = coalesce(${device.preferences && asJson(device.preferences)}::jsonb, d.preferences),
           preferences_version = d.preferences_version + ${device.preferences === null ? 0 : 1}::int
     where d.device_id = ${device.device_id}::uuid`

  return { lockProject, findRegistration, insertRegistration, lockInstallation, count, insert, renew }
}
