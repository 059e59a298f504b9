/** The statements for clients. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { endable, liveGrants } from "../../../platform/sql/access/StandingGrant.ts"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
import { Client } from "./Shapes.ts"
import type { Page } from "../../../platform/sql/Page.ts"

const StoredClient = Schema.Struct({
  ...Client.fields,
  created_at: Schema.Date,
  disabled_at: Schema.NullOr(Schema.Date)
})
type StoredClient = typeof StoredClient.Type

/** `live_grants`: counted up to a thousand. */
const ListedClient = Schema.Struct({ ...StoredClient.fields, live_grants: Schema.Int })
export type ListedClient = typeof ListedClient.Type

/** `first`: the statement disabled the client; false if it was disabled before. */
const Disabled = Schema.Struct({ disabled_at: Schema.Date, first: Schema.Boolean })

export const make = (sql: SqlClient.SqlClient) => {
  const columns = sql`
    c.client_id, c.kind, c.name, c.redirect_uris, c.application_type, c.grant_types, c.scopes, c.created_at,
    c.disabled_at`

  const find = (client_id: string) =>
    firstRow(StoredClient)(sql`
      select ${columns}
        from oauth_client c
       where c.client_id = ${client_id}`)

  /** Inserts and returns nothing if the client exists. */
  const insert = (client: Omit<StoredClient, "disabled_at">) =>
    firstRow(Schema.Struct({ client_id: Schema.String }))(sql`
    insert into oauth_client (
      client_id, kind, name, redirect_uris, application_type, grant_types, scopes, created_at)
    values (${client.client_id}, ${client.kind}, ${client.name}, ${client.redirect_uris}::text[],
            ${client.application_type}, ${client.grant_types}::text[], ${client.scopes}::text[], ${client.created_at})
        on conflict do nothing
    returning client_id`)

  const list = ({ after, limit }: Page, now: Date) =>
    rows(ListedClient)(sql`
      select ${columns},
             ${liveGrants(sql, sql`g.client_id = c.client_id`, now)} as live_grants
        from oauth_client c
       where ${after === undefined ? sql`true` : sql`c.client_id > ${after}`}
       order by c.client_id
       limit ${limit}`)

  const disable = (client_id: string, now: Date) =>
    firstRow(Disabled)(sql`
      with found as materialized (
        select client_id, disabled_at
          from oauth_client
         where client_id = ${client_id}
           for no key update
      )
      update oauth_client c
         set disabled_at = coalesce(c.disabled_at, ${now})
        from found
       where c.client_id = found.client_id
      returning c.disabled_at, found.disabled_at is null as first`)

  /** A document's client has no row until a person allows it. This inserts a disabled row, so that it stays disabled. */
  const disableDocument = (client_id: string, name: string, now: Date) =>
    firstRow(Disabled)(sql`
      insert into oauth_client as c (
        client_id, kind, name, redirect_uris, grant_types, scopes, created_at, disabled_at)
      values (${client_id}, 'document', ${name}, '{}', '{}', '{}', ${now}, ${now})
          on conflict (client_id) do update
         set disabled_at = coalesce(c.disabled_at, excluded.disabled_at)
      returning disabled_at, disabled_at = ${now} as first`)

  /**
   * Grants stop with their client; this records the reason of those that somebody uses. Also returns the grants that earlier
   * calls ended.
   */
  const endGrants = (client_id: string, now: Date) =>
    rows(Schema.Struct({ grant_id: Schema.String }))(sql`
      with ended as (
        update oauth_grant
           set revoked_at = ${now}, end_reason = 'client_disabled'
         where grant_id = any (array(${endable(sql, sql`g.client_id = ${client_id}`, now)}))
           and revoked_at is null
        returning grant_id
      )
      select grant_id
        from ended
       union all
      select grant_id
        from oauth_grant
       where client_id = ${client_id}
         and end_reason = 'client_disabled'
       order by grant_id`)

  return { find, insert, list, disable, disableDocument, endGrants }
}
