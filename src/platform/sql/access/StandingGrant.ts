/**
 * The clauses that decide whether an OAuth grant is in force (spec 5.3). The statements for codes, refreshes, requests
 * and notifications share them, so that a revocation takes effect with the next statement. The grant's alias is `g`.
 */
import { Duration } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { tokenInForce } from "./StandingToken.ts"

/** The resource and instance of a grant (decisions.md, What a grant is bound to). */
export interface Audience {
  readonly resource: string
  /** Undefined: the id that the first migration stored. */
  readonly instance_id: string | undefined
}

/** Joins the grant's client `c`, project token `t` and project `p`. */
export const joined = (sql: SqlClient.SqlClient) => sql`
  join oauth_client c on c.client_id = g.client_id
  join project_token t on t.token_id = g.project_token_id
  join project p on p.project_id = g.project_id`

/** The grant, its client, its project token and its project are all neither ended nor disabled. */
export const inForce = (sql: SqlClient.SqlClient, now: Date | Statement.Fragment) => sql`
  (g.revoked_at is null
   and g.expires_at > ${now}
   and c.disabled_at is null
   and ${tokenInForce(sql, now)})`

/** A client has fetched its code, and the grant has neither ended nor expired. */
export const isLive = (sql: SqlClient.SqlClient, now: Date) => sql`
  (g.revoked_at is null
   and g.activated_at is not null
   and g.expires_at > ${now})`

/** Lists count no more grants of one row, so that a row costs a bounded part of their time. */
export const mostCounted = 1000

export const liveGrants = (sql: SqlClient.SqlClient, whose: Statement.Fragment, now: Date) => sql`
  (select count(*)::int
     from (select
             from oauth_grant g
            where ${whose}
              and ${isLive(sql, now)}
            limit ${mostCounted}) as counted)`

/** How long after a person has allowed a client it may come for its code. */
const fetchedWithin = Duration.hours(1)

/**
 * The ids of the grants that end with their project token or client: a client uses them, or may still come for them. The
 * others are worth nothing, and one token can leave hundreds of thousands, more than a statement changes in time.
 */
export const endable = (sql: SqlClient.SqlClient, whose: Statement.Fragment, now: Date) => sql`
  select g.grant_id
    from oauth_grant g
   where ${whose}
     and g.revoked_at is null
     and g.activated_at is not null
   union all
  select g.grant_id
    from oauth_grant g
   where ${whose}
     and g.revoked_at is null
     and g.activated_at is null
     and g.created_at > ${new Date(now.getTime() - Duration.toMillis(fetchedWithin))}`

export const instanceId = (sql: SqlClient.SqlClient, { instance_id }: Pick<Audience, "instance_id">) =>
  sql`coalesce(${instance_id ?? null}::text, (select instance_id::text from service_instance))`

/** The grant was made for this resource and this instance. */
export const hasAudience = (sql: SqlClient.SqlClient, audience: Audience) => sql`
  (g.resource = ${audience.resource} and g.instance_id = ${instanceId(sql, audience)})`
