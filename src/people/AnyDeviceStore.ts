/** The statements that do not ask what a device is: a phone, a browser or a channel. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../platform/sql/Rows.ts"

const Delivery = Schema.Struct({
  state: Schema.Literals(["pending", "leased", "delivered", "superseded", "expired", "suppressed", "dead"]),
  attempts: Schema.Int,
  last_status: Schema.NullOr(Schema.Int),
  last_reason: Schema.NullOr(Schema.String)
})
export type Delivery = typeof Delivery.Type

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * Ends the device, deletes its push token and suppresses its waiting deliveries. An inactive device becomes revoked; a
   * revoked one stays.
   */
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

  /** What became of an event at one device. */
  const findDelivery = (event_id: string, device_id: string) =>
    firstRow(Delivery)(sql`
      select state, attempts, last_status, last_reason
        from push_outbox
       where event_id = ${event_id}::uuid
         and device_id = ${device_id}::uuid`)

  return { revoke, findDelivery }
}
