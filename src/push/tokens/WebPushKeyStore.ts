/** The statements for the keys that identify this service to push services. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

export const WebPushKey = Schema.Struct({
  web_push_key_id: Schema.String,
  public_key: Schema.Uint8Array,
  salt: Schema.Uint8Array,
  token_key_id: Schema.String
})
export type WebPushKey = typeof WebPushKey.Type

export const make = (sql: SqlClient.SqlClient) => {
  const findCurrent = firstRow(WebPushKey)(sql`
    select web_push_key_id, public_key, salt, token_key_id
      from web_push_key
     where replaced_at is null`)

  const findById = (web_push_key_id: string) =>
    firstRow(WebPushKey)(sql`
      select web_push_key_id, public_key, salt, token_key_id
        from web_push_key
       where web_push_key_id = ${web_push_key_id}::uuid`)

  const find = (public_key: Uint8Array) =>
    firstRow(WebPushKey)(sql`
      select web_push_key_id, public_key, salt, token_key_id
        from web_push_key
       where public_key = ${public_key}`)

  /** Inserts nothing while there is a current key, or if this one has been inserted before. */
  const insert = (key: WebPushKey, now: Date) =>
    rows(Schema.Struct({ web_push_key_id: Schema.String }))(sql`
      insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at)
      values (${key.web_push_key_id}::uuid, ${key.public_key}, ${key.salt}, ${key.token_key_id}, ${now})
          on conflict do nothing
      returning web_push_key_id`)

  /** Ends the current key, unless its successor has been inserted before. */
  const replace = (successor_id: string, now: Date) => sql`
    update web_push_key
       set replaced_at = ${now}
     where replaced_at is null
       and not exists (select from web_push_key where web_push_key_id = ${successor_id}::uuid)`

  /** Each key, newest first, with the active devices that subscribed with it. */
  const list = rows(
    Schema.Struct({
      ...WebPushKey.fields,
      created_at: Schema.Date,
      replaced_at: Schema.NullOr(Schema.Date),
      subscriptions: Schema.Int
    })
  )(sql`
    select k.web_push_key_id, k.public_key, k.salt, k.token_key_id, k.created_at, k.replaced_at,
           (select count(*)::int
              from mobile_device d
             where d.web_push_key_id = k.web_push_key_id
               and d.state = 'active') as subscriptions
      from web_push_key k
     order by k.created_at desc, k.web_push_key_id desc
     limit 100`)

  return { findCurrent, findById, find, insert, replace, list }
}
