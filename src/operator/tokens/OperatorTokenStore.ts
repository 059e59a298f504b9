/** The statements of operator tokens. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Page } from "../../platform/sql/Page.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { OperatorScope } from "./Scopes.ts"

export const Issued = Schema.Struct({
  token_id: Schema.String,
  label: Schema.String,
  scopes: Schema.Array(OperatorScope),
  expires_at: Schema.Date
})

export const OperatorToken = Schema.Struct({
  ...Issued.fields,
  status: Schema.Literals(["active", "revoked", "expired"]),
  created_at: Schema.Date,
  revoked_at: Schema.NullOr(Schema.Date),
  last_used_at: Schema.NullOr(Schema.Date)
})

export const make = (sql: SqlClient.SqlClient) => {
  const findIssued = (token_hash: Uint8Array) =>
    firstRow(Issued)(sql`
      select token_id, label, scopes, expires_at
        from operator_token
       where token_hash = ${token_hash}`)

  /** Returns nothing if the token exists. Waits for a concurrent insert of the same token to commit. */
  const insert = (token: typeof Issued.Type & { readonly token_hash: Uint8Array }, now: Date) =>
    firstRow(Issued)(sql`
      insert into operator_token (token_id, token_hash, label, scopes, created_at, expires_at)
      values (${token.token_id}::uuid, ${token.token_hash}, ${token.label}, ${token.scopes}::text[], ${now},
              ${token.expires_at})
          on conflict do nothing
      returning token_id, label, scopes, expires_at`)

  /** A token in force; its use is recorded. */
  const use = (token_hash: Uint8Array, now: Date) =>
    firstRow(Issued)(sql`
      update operator_token
         set last_used_at = ${now}
       where token_hash = ${token_hash}
         and revoked_at is null
         and expires_at > ${now}
      returning token_id, label, scopes, expires_at`)

  const list = ({ after, limit }: Page, now: Date) =>
    rows(OperatorToken)(sql`
      select token_id, label, scopes, created_at, expires_at, revoked_at, last_used_at,
             case when revoked_at is not null then 'revoked'
                  when expires_at <= ${now} then 'expired'
                  else 'active' end as status
        from operator_token
       where ${after === undefined ? sql`true` : sql`token_id > ${after}::uuid`}
       order by token_id
       limit ${limit}`)

  const revoke = (token_id: string, now: Date) =>
    firstRow(Schema.Struct({ revoked_at: Schema.Date, first: Schema.Boolean }))(sql`
      with found as materialized (
        select token_id, revoked_at
          from operator_token
         where token_id = ${token_id}::uuid
           for no key update
      )
      update operator_token t
         set revoked_at = coalesce(t.revoked_at, ${now})
        from found
       where t.token_id = found.token_id
      returning t.revoked_at, found.revoked_at is null as first`)

  return { findIssued, insert, use, list, revoke }
}
