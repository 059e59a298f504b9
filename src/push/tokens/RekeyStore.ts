/** The statements that seal existing push tokens under another key. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../../platform/sql/Rows.ts"
import { providers, type SealedToken } from "./PushTokens.ts"

export const SealedDevice = Schema.Struct({
  device_id: Schema.String,
  provider: Schema.Literals(providers),
  environment: Schema.String,
  topic: Schema.String,
  token_key_id: Schema.String,
  token_sealed: Schema.Uint8Array,
  token_lookup: Schema.Uint8Array
})
export type SealedDevice = typeof SealedDevice.Type

export const make = (sql: SqlClient.SqlClient) => {
  const countKeys = rows(Schema.Struct({ token_key_id: Schema.String, devices: Schema.Int }))(sql`
    select token_key_id, count(*)::int as devices
      from mobile_device
     where state = 'active'
     group by token_key_id
     order by token_key_id`)

  const sealedAfter = (device_id: string, limit: number) =>
    rows(SealedDevice)(sql`
      select device_id, provider, environment, topic, token_key_id, token_sealed, token_lookup
        from mobile_device
       where state = 'active'
         and device_id > ${device_id}::uuid
       order by device_id
       limit ${limit}`)

  /** Changes nothing if the device has registered or was rekeyed since it was read. */
  const reseal = (before: SealedDevice, after: SealedToken & { readonly token_lookup: Uint8Array }) =>
    rows(Schema.Struct({ device_id: Schema.String }))(sql`
      update mobile_device
         set token_key_id = ${after.token_key_id}, token_sealed = ${after.token_sealed},
             token_lookup = ${after.token_lookup}
       where device_id = ${before.device_id}::uuid
         and token_sealed = ${before.token_sealed}
      returning device_id`)

  return { countKeys, sealedAfter, reseal }
}
