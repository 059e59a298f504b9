/**
 * The shapes and the clause that the statements of codes and refresh tokens share.
 *
 * Every writer locks the grant first, then its code or refresh token. A statement's snapshot is older than the lock that
 * it waits for, so every condition must be on a column of these two locked rows. That is why the use of a successor is
 * recorded on its predecessor, by deleting the predecessor's salt.
 */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { remembered } from "../../../platform/proofs/ProofStore.ts"
import { Scope } from "../../../wire/Scopes.ts"
import type { Proven } from "../../possession/ClientProofs.ts"
import { GrantType } from "../clients/Shapes.ts"

/** The result of a statement that issued tokens. `refreshable`: the client may use refresh tokens. */
export const Issued = Schema.Struct({
  scopes: Schema.Array(Scope),
  expires_at: Schema.Date,
  refreshable: Schema.Boolean
})
export type Issued = typeof Issued.Type

/** Explains why a statement issued nothing. `expires_at` and `used_at` belong to the code or refresh token. */
export const GrantState = Schema.Struct({
  grant_id: Schema.String,
  project_id: Schema.String,
  client_id: Schema.String,
  grant_types: Schema.Array(GrantType),
  scopes: Schema.Array(Scope),
  /** The grant is in force, for this resource and instance. */
  alive: Schema.Boolean,
  expires_at: Schema.Date,
  used_at: Schema.NullOr(Schema.Date),
  /** The key that it is bound to. */
  dpop_jkt: Schema.NullOr(Schema.Uint8Array),
  /** The proof of the request was used before. */
  proof_used: Schema.Boolean
})

export interface NewAccessToken {
  readonly token_id: string
  readonly token_hash: Uint8Array
  readonly expires_at: Date
  /** The expiry for clients that are allowed `mobile:devices`. */
  readonly mobile_expires_at: Date
}

export interface NewRefreshToken {
  readonly token_hash: Uint8Array
  readonly expires_at: Date
}

/** The thumbprint of the key that the client has proved. */
export const jktOf = (proven: Proven | undefined): Uint8Array | null => proven?.jkt ?? null

/** The credential with this alias is bound to no key, or to the one that the client has proved. */
export const isBoundTo = (sql: SqlClient.SqlClient, credential: "k" | "r", proven: Proven | undefined) => {
  const column = sql.literal(`${credential}.dpop_jkt`)
  return sql`(${column} is null or ${column} = ${jktOf(proven)}::bytea)`
}

/** The clause `locked`: the row of `found`, unless the proof of the request was used before. */
export const unlessReplayed = (sql: SqlClient.SqlClient, proven: Proven | undefined) =>
  proven === undefined
    ? sql`locked as (select * from found)`
    : sql`remembered as (${remembered(sql, "found", proven.used)}),
      locked as materialized (select found.* from found cross join remembered)`

/** The same as columns of `locked`, for a statement that serves several requests (Asked.ts). */
type AccessColumns = { readonly [Name in keyof NewAccessToken]: Statement.Fragment }

export const accessTypes = {
  access_id: "uuid",
  access_hash: "bytea",
  access_expires_at: "timestamptz",
  mobile_expires_at: "timestamptz"
} as const

export const accessValues = ({ expires_at, mobile_expires_at, token_hash, token_id }: NewAccessToken) => ({
  access_id: token_id,
  access_hash: token_hash,
  access_expires_at: expires_at,
  mobile_expires_at
})

export const accessColumns = (sql: SqlClient.SqlClient): AccessColumns => ({
  token_id: sql`access_id`,
  token_hash: sql`access_hash`,
  expires_at: sql`access_expires_at`,
  mobile_expires_at: sql`mobile_expires_at`
})

/**
 * Selects from `locked`, which holds the grant, the scopes to issue and the scopes that its client is allowed. The token
 * is bound to the key of the proof.
 */
export const insertAccess = (
  sql: SqlClient.SqlClient,
  access: NewAccessToken | AccessColumns,
  proven: Proven | undefined,
  now: Date | Statement.Fragment
): Statement.Fragment => sql`
  insert into oauth_access_token (token_id, token_hash, grant_id, scopes, dpop_jkt, created_at, expires_at)
  select ${access.token_id}::uuid, ${access.token_hash}::bytea, grant_id, scopes, ${jktOf(proven)}::bytea,
         ${now}::timestamptz,
         least(case when 'mobile:devices' = any (client_scopes) then ${access.mobile_expires_at}::timestamptz
                    else ${access.expires_at}::timestamptz end, grant_expires_at)
    from locked
  returning token_id, grant_id, scopes, expires_at`
