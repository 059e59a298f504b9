/** Ends devices whose sign-in has ended; deletes ended devices and old registrations after thirty days. */
import { Schema } from "effect"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"

const Swept = Schema.Struct({ device_id: Schema.String })

/**
 * The worker already sends nothing to these devices; this deletes their push tokens. Unlike StandingGrant.ts, the
 * condition ignores the project: a disabled project may be enabled again, and its devices with it.
 */
const endDevices: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
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

const purgeDevices: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
    delete from mobile_device
     where device_id in (
       select device_id
         from mobile_device
        where ended_at < ${purgeBefore(now)}
        limit ${limit})
    returning device_id`)

const purgeRegistrations: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
    delete from mobile_registration
     where (project_id, subject, key_hash) in (
       select project_id, subject, key_hash
         from mobile_registration
        where created_at < ${purgeBefore(now)}
        limit ${limit})
    returning device_id`)

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "end devices", run: endDevices },
  { name: "purge devices", run: purgeDevices },
  { name: "purge registrations", run: purgeRegistrations }
]
