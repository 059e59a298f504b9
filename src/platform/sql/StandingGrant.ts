/**
 * When an OAuth grant counts, as clauses of the statements that ask (spec 5): for a code, a refresh, a request, a
 * notification. Whatever of it is revoked counts from the next statement on. The grant is called `g`.
 */
import type { SqlClient } from "effect/sql"

/** Where tokens are honoured. */
export interface Here {
  readonly resource: string
  /** Undefined: the one in the database. */
  readonly instance_id: string | undefined
}

/** Client `c`, project token `t` and project `p` of the grant. */
export const joined = (sql: SqlClient.SqlClient) => sql`
  join oauth_client c on c.client_id = g.client_id
  join project_token t on t.token_id = g.project_token_id
  join project p on p.project_id = g.project_id`

export const stands = (sql: SqlClient.SqlClient, now: Date) => sql`
  (g.revoked_at is null
   and g.expires_at > ${now}
   and c.disabled_at is null
   and t.revoked_at is null
   and (t.expires_at is null or t.expires_at > ${now})
   and p.disabled_at is null)`

export const instance = (sql: SqlClient.SqlClient, { instance_id }: Here) =>
  sql`coalesce(${instance_id ?? null}::text, (select instance_id::text from service_instance))`

/** Made for this address and this instance. */
export const isHere = (sql: SqlClient.SqlClient, here: Here) => sql`
  (g.resource = ${here.resource} and g.instance_id = ${instance(sql, here)})`
