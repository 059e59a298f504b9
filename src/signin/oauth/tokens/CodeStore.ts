/** The statements for authorization codes. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { wasUsed } from "../../../platform/proofs/ProofStore.ts"
import type { Trace } from "../../../platform/sql/AuditRow.ts"
import { firstRow } from "../../../platform/sql/Rows.ts"
import { type Audience, hasAudience, joined, inForce } from "../../../platform/sql/access/StandingGrant.ts"
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

export const make = (sql: SqlClient.SqlClient, audience: Audience) => {
  /** Marks the code as used and stores the grant's first tokens, or does nothing and returns nothing. */
  const exchange = (code: PresentedCode, access: NewAccessToken, refresh: NewRefreshToken, now: Date, trace: Trace) =>
    firstRow(Issued)(sql`
      with found as materialized (
        select g.grant_id, g.project_id, g.client_id, g.scopes, g.expires_at as grant_expires_at, k.code_hash,
               c.scopes as client_scopes, 'refresh_token' = any (c.grant_types) as refreshable
          from oauth_grant g
          join oauth_code k on k.grant_id = g.grant_id
          ${joined(sql)}
         where k.code_hash = ${code.code_hash}
           and k.used_at is null
           and k.expires_at > ${now}
           and k.code_challenge = ${code.code_challenge}
           and g.client_id = ${code.client_id}
           and g.redirect_uri = coalesce(${code.redirect_uri ?? null}::text, g.redirect_uri)
           and 'authorization_code' = any (c.grant_types)
           and ${inForce(sql, now)}
           and ${hasAudience(sql, audience)}
           and ${isBoundTo(sql, "k", code.proven)}
           for no key update of g, k
      ), ${unlessReplayed(sql, code.proven)}, spent as (
        update oauth_code k
           set used_at = ${now}
          from locked
         where k.code_hash = locked.code_hash
      ), activated as (
        update oauth_grant g
           set activated_at = ${now}, last_used_at = ${now}
          from locked
         where g.grant_id = locked.grant_id
      ), access as (${insertAccess(sql, access, code.proven, now)}), refresh as (
        insert into oauth_refresh_token (token_hash, grant_id, generation, dpop_jkt, created_at, expires_at)
        select ${refresh.token_hash}::bytea, grant_id, 0, ${jktOf(code.proven)}::bytea, ${now}::timestamptz,
               least(${refresh.expires_at}::timestamptz, grant_expires_at)
          from locked
         where refreshable
      ), audited as (${audited(sql, "oauth_grant.code_exchanged", "locked", trace)})
      select access.scopes, access.expires_at, locked.refreshable
        from access
       cross join locked`)

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
