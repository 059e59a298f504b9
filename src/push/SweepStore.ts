/** The statements of the sweeps. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../platform/sql/Rows.ts"

export const make = (sql: SqlClient.SqlClient) => {
  const expire = (now: Date, limit: number) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      with late as materialized (
        select delivery_id
          from push_outbox
         where state in ('pending', 'leased')
           and expires_at <= ${now}
           and (lease_until is null or lease_until <= ${now})
         limit ${limit}
           for no key update skip locked
      )
      update push_outbox o
         set state = 'expired', settled_at = ${now}, lease_token = null, lease_until = null
        from late
       where o.delivery_id = late.delivery_id
      returning o.delivery_id`)

  const purge = (before: Date, limit: number) =>
    rows(Schema.Struct({ delivery_id: Schema.String }))(sql`
      delete from push_outbox
       where delivery_id in (
         select delivery_id
           from push_outbox
          where settled_at < ${before}
          limit ${limit})
      returning delivery_id`)

  return { expire, purge }
}
