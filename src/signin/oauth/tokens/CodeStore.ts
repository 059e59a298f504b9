/** The statements for authorization codes. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { wasUsed } from "../../../platform/proofs/ProofStore.ts"
import { asked, inPlace, type Locking, Placed } from "../../../platform/sql/Asked.ts"
import { type Trace, traceColumns, traceTypes } from "../../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
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

const CodeState = Schema.Struct({
  ...GrantState.fields,
  code_challenge: Schema.String,
  redirect_uri: Schema.String
})

export interface PresentedCode {
  readonly code_hash: Uint8Array
  readonly client_id: string
  readonly code_challenge: string
  readonly redirect_uri: string | undefined
  readonly proven?: Proven | undefined
}

/** A code that is presented, and what its exchange stores. */
export interface Exchanging {
  readonly presented: PresentedCode
  readonly access: NewAccessToken
  readonly refresh: NewRefreshToken
  readonly trace: Trace
}

const types = {
  code_hash: "bytea",
  client_id: "text",
  code_challenge: "text",
  redirect_uri: "text",
  refresh_hash: "bytea",
  refresh_expires_at: "timestamptz",
  ...accessTypes,
  ...traceTypes
} as const

/** What a request may do without is empty in its column, because nulls alone would have no type. */
const valuesOf = ({ access, presented, refresh, trace }: Exchanging) => ({
  code_hash: presented.code_hash,
  client_id: presented.client_id,
  code_challenge: presented.code_challenge,
  redirect_uri: presented.redirect_uri ?? "",
  refresh_hash: refresh.token_hash,
  refresh_expires_at: refresh.expires_at,
  ...accessValues(access),
  ...trace
})

const Exchanged = Schema.Struct({ ...Issued.fields, ...Placed.fields })

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  /**
   * Marks codes as used and stores the first tokens of their grants, in one statement. A request whose code may not be
   * exchanged has no result and changes nothing. Only a single request may bring a proof.
   */
  const exchange = (all: ReadonlyArray<Exchanging>, locking: Locking) => {
    const { proven } = all[0]!.presented
    return Effect.map(
      rows(Exchanged)(sql`
        with asked as (${asked(sql, types, "code_hash", all.map(valuesOf))}
        ), found as materialized (
          -- With offset 0 PostgreSQL finds the rows of each request by its code, whatever its statistics say.
          select asked.*, found.*
            from asked
           cross join lateral (
             select g.grant_id, g.project_id, g.scopes, g.expires_at as grant_expires_at, c.scopes as client_scopes,
                    'refresh_token' = any (c.grant_types) as refreshable
               from oauth_grant g
               join oauth_code k on k.grant_id = g.grant_id
               ${joined(sql)}
              where k.code_hash = asked.code_hash
                and k.used_at is null
                and k.expires_at > asked.at
                and k.code_challenge = asked.code_challenge
                and g.client_id = asked.client_id
                and g.redirect_uri = coalesce(nullif(asked.redirect_uri, ''), g.redirect_uri)
                and 'authorization_code' = any (c.grant_types)
                and ${inForce(sql, sql`asked.at`)}
                and ${hasAudience(sql, audience)}
                and ${isBoundTo(sql, "k", proven)}
             offset 0
                for no key update of g, k ${sql.literal(locking)}) found
        ), ${unlessReplayed(sql, proven)}, spent as (
          update oauth_code k
             set used_at = locked.at
            from locked
           where k.code_hash = locked.code_hash
        ), activated as (
          update oauth_grant g
             set activated_at = locked.at, last_used_at = locked.at
            from locked
           where g.grant_id = locked.grant_id
        ), access as (${insertAccess(sql, accessColumns(sql), proven, sql`at`)}), refresh as (
          insert into oauth_refresh_token (token_hash, grant_id, generation, dpop_jkt, created_at, expires_at)
          select refresh_hash, grant_id, 0, ${jktOf(proven)}::bytea, at, least(refresh_expires_at, grant_expires_at)
            from locked
           where refreshable
        ), audited as (${audited(sql, "oauth_grant.code_exchanged", "locked", traceColumns(sql))})
        select locked.place::int as place, access.scopes, access.expires_at, locked.refreshable
          from access
          join locked on locked.access_id = access.token_id`),
      inPlace(all.length)
    )
  }

  const find = ({ code_hash, proven }: Pick<PresentedCode, "code_hash" | "proven">, now: Date) =>
    firstRow(CodeState)(sql`
      select g.grant_id, g.project_id, g.client_id, c.grant_types, g.scopes,
             ${inForce(sql, now)} and ${hasAudience(sql, audience)} as alive, k.expires_at, k.used_at, k.code_challenge,
             g.redirect_uri, k.dpop_jkt, ${wasUsed(sql, proven?.used)} as proof_used
        from oauth_code k
        join oauth_grant g on g.grant_id = k.grant_id
        ${joined(sql)}
       where k.code_hash = ${code_hash}`)

  return { exchange, find }
}
