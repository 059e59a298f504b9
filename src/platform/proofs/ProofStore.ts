/** Remembers the proofs that were used, so that none works twice at any replica. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../sql/Rows.ts"
import type { UsedProof } from "./DpopProof.ts"

/**
 * Remembers the proof if the clause `from` has a row, and returns a row unless it was used before: the first of several
 * callers at once gets it, the others wait for the first. The clauses that act have to select from this one.
 */
export const remembered = (sql: SqlClient.SqlClient, from: string, { forget_at, proof_hash }: UsedProof) => sql`
  insert into bridge_dpop_proof (proof_hash, forget_at)
  select ${proof_hash}::bytea, ${forget_at}::timestamptz
    from ${sql.literal(from)}
      on conflict do nothing
  returning proof_hash`

/** Whether the proof was used, as a column. */
export const wasUsed = (sql: SqlClient.SqlClient, used: UsedProof | undefined) =>
  used === undefined
    ? sql`false`
    : sql`exists (select 1 from bridge_dpop_proof where proof_hash = ${used.proof_hash}::bytea)`

/**
 * A statement of its own, which returns a row for the first use. The commit does not wait for the disk: a crash can forget
 * the proofs of its last second, which saves every request a flush.
 */
export const remember = (sql: SqlClient.SqlClient, used: UsedProof) =>
  rows(Schema.Struct({ first: Schema.Boolean }))(sql`
    with request as (select set_config('synchronous_commit', 'off', true)),
    remembered as (${remembered(sql, "request", used)})
    select true as first
      from remembered`)
