/** The statements for refresh tokens. */
import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { wasUsed } from "../../../platform/proofs/ProofStore.ts"
import { asked, inPlace, type Locking, Placed } from "../../../platform/sql/Asked.ts"
import { type Trace, traceColumns, traceTypes } from "../../../platform/sql/AuditRow.ts"
import { lookup } from "../../../platform/sql/Lookup.ts"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
import type { Scope } from "../../../wire/Scopes.ts"
import { type Audience, hasAudience, joined, inForce } from "../../../platform/sql/access/StandingGrant.ts"
import type { Proven } from "../../possession/ClientProofs.ts"
import { audited } from "../grants/GrantStore.ts"
import {
  accessColumns,
  accessTypes,
  accessValues,
  GrantState,
  insertAccess,
  isBoundTo,
  Issued,
  jktOf,
  type NewAccessToken,
  type NewRefreshToken,
  unlessReplayed
} from "./TokenClauses.ts"

/** How often a used refresh token may be exchanged again: each time issues an access token. */
const maxReplays = 60

const Bytes = Schema.NullOr(Schema.Uint8Array)

const RefreshState = Schema.Struct({
  ...GrantState.fields,
  /** Null if the token may not be replayed: after the grace period, or once its successor was used. */
  successor_salt: Bytes,
  successor_hash: Bytes,
  /** The key that its successor is bound to. */
  successor_jkt: Bytes,
  used_by: Bytes,
  exhausted: Schema.Boolean
})
export type RefreshState = typeof RefreshState.Type

const HeldGrant = Schema.Struct({
  grant_id: Schema.String,
  client_id: Schema.String,
  project_token_id: Schema.String
})
export type HeldGrant = typeof HeldGrant.Type

export interface PresentedRefresh {
  readonly token_hash: Uint8Array
  readonly client_id: string
  /** Null: all scopes of the grant. */
  readonly scopes: ReadonlyArray<Scope> | null
  readonly proven?: Proven | undefined
}

/** A refresh token that is presented, and what its use stores. */
export interface Using {
  readonly presented: PresentedRefresh
  readonly access: NewAccessToken
  readonly used_by: Uint8Array
  readonly successor: NewRefreshToken & { readonly salt: Uint8Array | null }
  readonly trace: Trace
}

const types = {
  token_hash: "bytea",
  client_id: "text",
  narrowed: "text",
  used_by: "bytea",
  successor_hash: "bytea",
  successor_salt: "bytea",
  successor_expires_at: "timestamptz",
  ...accessTypes,
  ...traceTypes
} as const

/** What a request may do without is empty in its column, because nulls alone would have no type. */
const valuesOf = ({ access, presented, successor, trace, used_by }: Using) => ({
  token_hash: presented.token_hash,
  client_id: presented.client_id,
  narrowed: presented.scopes?.join(" ") ?? "",
  used_by,
  successor_hash: successor.token_hash,
  successor_salt: successor.salt ?? new Uint8Array(),
  successor_expires_at: successor.expires_at,
  ...accessValues(access),
  ...trace
})

const Used = Schema.Struct({ ...Issued.fields, ...Placed.fields })

interface Replay extends Omit<PresentedRefresh, "client_id"> {
  /** The token was used after this instant. */
  readonly since: Date
  /** Not by the address and user agent that used it. */
  readonly elsewhere: boolean
}

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  /**
   * Marks refresh tokens as used and stores their successors, in one statement. A request whose token may not be used has no
   * result and changes nothing. Only a single request may bring a proof.
   */
  const use = (all: ReadonlyArray<Using>, locking: Locking) => {
    const { proven } = all[0]!.presented
    return Effect.map(
      rows(Used)(sql`
        with asked as (${asked(sql, types, "token_hash", all.map(valuesOf))}
        ), found as materialized (
          -- With offset 0 PostgreSQL finds the rows of each request by its token, whatever its statistics say.
          select asked.*, found.*
            from asked
           cross join lateral (
             select g.grant_id, g.project_id, g.expires_at as grant_expires_at, r.generation, c.scopes as client_scopes,
                    ${scopesOf(sql`asked.narrowed`)} as scopes
               from oauth_grant g
               join oauth_refresh_token r on r.grant_id = g.grant_id
               ${joined(sql)}
              where r.token_hash = asked.token_hash
                and r.used_at is null
                and r.expires_at > asked.at
                and g.client_id = asked.client_id
                and ${scopesOf(sql`asked.narrowed`)} <@ g.scopes
                and 'refresh_token' = any (c.grant_types)
                and ${inForce(sql, sql`asked.at`)}
                and ${hasAudience(sql, audience)}
                and ${isBoundTo(sql, "r", proven)}
             offset 0
                for no key update of g, r ${sql.literal(locking)}) found
        ), ${unlessReplayed(sql, proven)}, used as (
          update oauth_refresh_token r
             set used_at = locked.at, used_by = locked.used_by, successor_salt = nullif(locked.successor_salt, '')
            from locked
           where r.token_hash = locked.token_hash
        ), forgotten as (
          -- The presented token is in use now, so its own predecessor must not be replayed any more.
          update oauth_refresh_token r
             set successor_salt = null
            from locked
           where r.grant_id = locked.grant_id
             and r.generation = locked.generation - 1
             and r.successor_salt is not null
        ), successor as (
          insert into oauth_refresh_token (token_hash, grant_id, generation, dpop_jkt, created_at, expires_at)
          select successor_hash, grant_id, generation + 1, ${jktOf(proven)}::bytea, at,
                 least(successor_expires_at, grant_expires_at)
            from locked
        ), access as (${insertAccess(sql, accessColumns(sql), proven, sql`at`)}),
        audited as (${audited(sql, "oauth_grant.refreshed", "locked", traceColumns(sql))})
        select locked.place::int as place, access.scopes, access.expires_at, true as refreshable
          from access
          join locked on locked.access_id = access.token_id`),
      inPlace(all.length)
    )
  }
  /** What a refresh asks for: all scopes of the grant, or those that it names. */
  const scopesOf = (narrowed: Statement.Fragment) =>
    sql`coalesce(string_to_array(nullif(${narrowed}, ''), ' '), g.scopes)`

  /**
   * The grant of a token that is unused, or whose successor can still be returned, if whoever proves this key may use it. A
   * copy of a proof that was used finds none.
   */
  const heldBy = (token_hash: Uint8Array | Statement.Fragment, proven: Proven | undefined) => sql`
    select r.grant_id, g.client_id, g.project_token_id
      from oauth_refresh_token r
      join oauth_grant g on g.grant_id = r.grant_id
     where r.token_hash = ${token_hash}
       and ${isBoundTo(sql, "r", proven)}
       and not ${wasUsed(sql, proven?.used)}
       and (r.used_at is null or r.successor_salt is not null)`

  const findGrant = lookup(sql, HeldGrant, (token_hash) => heldBy(token_hash, undefined))
  const findProvenGrant = (token_hash: Uint8Array, proven: Proven) => firstRow(HeldGrant)(heldBy(token_hash, proven))

  /** `since`: the end of the grace period for tokens that were used until then. */
  const find = ({ proven, token_hash }: Pick<PresentedRefresh, "token_hash" | "proven">, since: Date, now: Date) =>
    firstRow(RefreshState)(sql`
      select g.grant_id, g.project_id, g.client_id, c.grant_types, g.scopes,
             ${inForce(sql, now)} and ${hasAudience(sql, audience)} as alive, r.expires_at, r.used_at, r.used_by,
             case when r.used_at > ${since} then r.successor_salt end as successor_salt,
             s.token_hash as successor_hash, r.dpop_jkt, s.dpop_jkt as successor_jkt,
             ${wasUsed(sql, proven?.used)} as proof_used, r.replays >= ${maxReplays} as exhausted
        from oauth_refresh_token r
        join oauth_grant g on g.grant_id = r.grant_id
        ${joined(sql)}
        left join oauth_refresh_token s on s.grant_id = r.grant_id and s.generation = r.generation + 1
       where r.token_hash = ${token_hash}`)

  /** Issues another access token, if the refresh token may be replayed. */
  const replay = (
    { elsewhere, proven, scopes, since, token_hash }: Replay,
    access: NewAccessToken,
    now: Date,
    trace: Trace
  ) =>
    firstRow(Issued)(sql`
      with found as materialized (
        select g.grant_id, g.project_id, g.client_id, g.expires_at as grant_expires_at, r.token_hash,
               c.scopes as client_scopes, coalesce(${scopes}::text[], g.scopes) as scopes
          from oauth_grant g
          join oauth_refresh_token r on r.grant_id = g.grant_id
          ${joined(sql)}
         where r.token_hash = ${token_hash}
           and r.successor_salt is not null
           and r.used_at > ${since}
           and r.replays < ${maxReplays}
           and ${inForce(sql, now)}
           and ${hasAudience(sql, audience)}
           for no key update of g, r
      ), ${unlessReplayed(sql, proven)}, counted as (
        update oauth_refresh_token r
           set replays = r.replays + 1
          from locked
         where r.token_hash = locked.token_hash
      ), suspected as (
        update oauth_grant g
           set replayed_elsewhere_at = ${now}
          from locked
         where g.grant_id = locked.grant_id
           and ${elsewhere}::boolean
      ), access as (${insertAccess(sql, access, proven, now)}),
      audited as (${audited(sql, elsewhere ? "oauth_grant.refresh_replayed_elsewhere" : "oauth_grant.refresh_replayed", "locked", trace)})
      select scopes, expires_at, true as refreshable
        from access`)

  return { use, findGrant, findProvenGrant, find, replay }
}
