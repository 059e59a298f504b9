/** The statements for refresh tokens. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { wasUsed } from "../../../platform/proofs/ProofStore.ts"
import type { Trace } from "../../../platform/sql/AuditRow.ts"
import { lookup } from "../../../platform/sql/Lookup.ts"
import { firstRow } from "../../../platform/sql/Rows.ts"
import type { Scope } from "../../../wire/Scopes.ts"
import { type Audience, hasAudience, joined, inForce } from "../../../platform/sql/StandingGrant.ts"
import type { Proven } from "../../possession/ClientProofs.ts"
import { audited } from "../grants/GrantStore.ts"
import {
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

const HeldGrant = Schema.Struct({ grant_id: Schema.String, client_id: Schema.String })

export interface PresentedRefresh {
  readonly token_hash: Uint8Array
  readonly client_id: string
  /** Null: all scopes of the grant. */
  readonly scopes: ReadonlyArray<Scope> | null
  readonly proven?: Proven | undefined
}

interface Replay extends Omit<PresentedRefresh, "client_id"> {
  /** The token was used after this instant. */
  readonly since: Date
  /** Not by the address and user agent that used it. */
  readonly elsewhere: boolean
}

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  /** Marks the refresh token as used and stores its successor, or does nothing and returns nothing. */
  const use = (
    presented: PresentedRefresh,
    access: NewAccessToken,
    used_by: Uint8Array,
    successor: NewRefreshToken & { readonly salt: Uint8Array | null },
    now: Date,
    trace: Trace
  ) =>
    firstRow(Issued)(sql`
      with found as materialized (
        select g.grant_id, g.project_id, g.client_id, g.expires_at as grant_expires_at, r.token_hash, r.generation,
               c.scopes as client_scopes, coalesce(${presented.scopes}::text[], g.scopes) as scopes
          from oauth_grant g
          join oauth_refresh_token r on r.grant_id = g.grant_id
          ${joined(sql)}
         where r.token_hash = ${presented.token_hash}
           and r.used_at is null
           and r.expires_at > ${now}
           and g.client_id = ${presented.client_id}
           and coalesce(${presented.scopes}::text[], g.scopes) <@ g.scopes
           and 'refresh_token' = any (c.grant_types)
           and ${inForce(sql, now)}
           and ${hasAudience(sql, audience)}
           and ${isBoundTo(sql, "r", presented.proven)}
           for no key update of g, r
      ), ${unlessReplayed(sql, presented.proven)}, used as (
        update oauth_refresh_token r
           set used_at = ${now}, used_by = ${used_by}, successor_salt = ${successor.salt}
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
        select ${successor.token_hash}::bytea, grant_id, generation + 1, ${jktOf(presented.proven)}::bytea,
               ${now}::timestamptz,
               least(${successor.expires_at}::timestamptz, grant_expires_at)
          from locked
      ), access as (${insertAccess(sql, access, presented.proven, now)}),
      audited as (${audited(sql, "oauth_grant.refreshed", "locked", trace)})
      select scopes, expires_at, true as refreshable
        from access`)

  /**
   * The grant of a token that is unused, or whose successor can still be returned, if whoever proves this key may use it. A
   * copy of a proof that was used finds none.
   */
  const heldBy = (token_hash: Uint8Array | Statement.Fragment, proven: Proven | undefined) => sql`
    select r.grant_id, g.client_id
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
