/** Expires notifications that were not delivered in time; deletes settled ones, and keys of web push that were replaced, after thirty days. */
import { Schema } from "effect"
import { purgeBefore, type Sweep } from "../platform/database/Sweeper.ts"
import { rows } from "../platform/sql/Rows.ts"

const Swept = Schema.Struct({ delivery_id: Schema.String })

/** Skips deliveries in flight: their worker settles them under its lease. */
const expireDeliveries: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
    with late as materialized (
      select delivery_id
        from push_outbox
       where state in ('pending', 'leased')
         and expires_at <= ${now}
         and (lease_until is null or lease_until <= ${now})
       order by expires_at
       limit ${limit}
         for no key update skip locked
    )
    update push_outbox o
       set state = 'expired', settled_at = ${now}, lease_token = null, lease_until = null
      from late
     where o.delivery_id = late.delivery_id
    returning o.delivery_id`)

const purgeDeliveries: Sweep["run"] = (sql, now, limit) =>
  rows(Swept)(sql`
    delete from push_outbox
     where delivery_id = any (array(
       select delivery_id
         from push_outbox
        where settled_at < ${purgeBefore(now)}
        order by settled_at
        limit ${limit}))
    returning delivery_id`)

/** Keys that were replaced, once no browser's subscription depends on them, ended ones included. */
const purgeWebPushKeys: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ web_push_key_id: Schema.String }))(sql`
    delete from web_push_key
     where web_push_key_id = any (array(
       select k.web_push_key_id
         from web_push_key k
        where k.replaced_at < ${purgeBefore(now)}
          and not exists (select from mobile_device d where d.web_push_key_id = k.web_push_key_id)
        limit ${limit}))
    returning web_push_key_id`)

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "expire deliveries", run: expireDeliveries },
  { name: "purge deliveries", run: purgeDeliveries },
  { name: "purge web push keys", run: purgeWebPushKeys }
]
