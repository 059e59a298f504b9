/** The statements of the sweeps. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../../platform/sql/Rows.ts"

export const make = (sql: SqlClient.SqlClient) => {
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

  return { endUnauthorized, purgeDevices, purgeRegistrations }
}
