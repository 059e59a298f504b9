/** Ends devices whose sign-in or project token has ended; deletes ended devices and old registrations after thirty days. */
import { Duration, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"
import { after } from "../../wire/Instant.ts"

const Ended = Schema.Struct({ id: Schema.String })
const Swept = Schema.Struct({ device_id: Schema.String })

/**
 * The worker already sends nothing to these devices; this deletes their push tokens. Unlike StandingGrant.ts, the
 * condition ignores the project: a disabled project may be enabled again, and its devices with it. A client or a project
 * token that ends has ended its grants.
 *
 * Phones end with their grant, browsers that registered at the console with their project token.
 *
 * A credential is marked once its devices have ended, so that none is looked at twice: a minute after its own end, because a
 * registration that began before may still be running, and only if no request has locked one of its devices.
 */
const endDevices =
  (credentials: string, key: string, isOfDevice: (sql: SqlClient.SqlClient) => Statement.Fragment): Sweep["run"] =>
  (sql, now, limit) => {
    const id = sql.literal(key)
    const isItsDevice = isOfDevice(sql)
    return rows(Ended)(sql`
      with over as materialized (
        select ${id} as id, least(expires_at, revoked_at) as over_at
          from ${sql.literal(credentials)}
         where not devices_ended
           and least(expires_at, revoked_at) <= ${now}
         order by least(expires_at, revoked_at)
         limit ${limit}
           for no key update skip locked
      ), ended as materialized (
        select d.device_id
          from over
          join mobile_device d on ${isItsDevice}
         where d.state = 'active'
           for no key update of d skip locked
      ), silenced as (
        update push_outbox o
           set state = 'suppressed', settled_at = ${now}, last_reason = 'not_authorized'
          from ended
         where o.device_id = ended.device_id
           and o.state = 'pending'
      ), revoked as (
        update mobile_device d
           set state = 'revoked', state_reason = 'sign_in_ended', ended_at = ${now}, token_key_id = null,
               token_sealed = null, token_lookup = null
          from ended
         where d.device_id = ended.device_id
      )
      update ${sql.literal(credentials)} c
         set devices_ended = true
        from over
       where c.${id} = over.id
         and over.over_at <= ${after(now, Duration.minutes(-1))}
         and not exists (
           select 1
             from mobile_device d
            where ${isItsDevice}
              and d.state = 'active'
              and d.device_id not in (select device_id from ended)
           offset 0)
      returning c.${id} as id`)
  }

const purgeDevices: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
    delete from mobile_device
     where device_id = any (array(
       select device_id
         from mobile_device
        where ended_at < ${purgeBefore(now)}
        order by ended_at
        limit ${limit}))
    returning device_id`)

const purgeRegistrations: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
    delete from mobile_registration
     where (project_id, subject, key_hash) in (
       select project_id, subject, key_hash
         from mobile_registration
        where created_at < ${purgeBefore(now)}
        order by created_at
        limit ${limit}
          for update skip locked)
    returning device_id`)

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "end devices", run: endDevices("oauth_grant", "grant_id", (sql) => sql`d.grant_id = over.id`) },
  {
    name: "end browsers",
    run: endDevices("project_token", "token_id", (sql) => sql`d.subject = over.id and d.grant_id is null`)
  },
  { name: "purge devices", run: purgeDevices },
  { name: "purge registrations", run: purgeRegistrations }
]
