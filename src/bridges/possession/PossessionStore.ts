/** The statements of proof of possession: the holder of a token, and the proofs that it has used. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { lookup } from "../../platform/sql/Lookup.ts"
import { firstRow } from "../../platform/sql/Rows.ts"

const holder = {
  identity_id: Schema.String,
  project_id: Schema.String,
  bridge_id: Schema.String,
  public_key_fingerprint: Schema.String,
  dpop_required_since: Schema.NullOr(Schema.Date)
}
const Holder = Schema.Struct(holder)
export type Holder = typeof Holder.Type

/** `first`: the proof is by the key of the holder, and was not used before. */
const Shown = Schema.Struct({ ...holder, first: Schema.Boolean })

export const make = (sql: SqlClient.SqlClient) => {
  const holderOf = (token_hash: Uint8Array | Statement.Fragment) => sql`
    select i.identity_id, i.project_id, i.bridge_id, i.public_key_fingerprint, i.dpop_required_since
      from bridge_token t
      join bridge_identity i on i.identity_id = t.identity_id
     where t.token_hash = ${token_hash}`

  const tokenHolder = lookup(sql, Holder, holderOf)

  /**
   * Finds the holder and remembers the proof. The commit does not wait for the disk: a crash can forget the proofs of its
   * last second, which saves every request of every Bridge a flush.
   */
  const remember = (
    token_hash: Uint8Array,
    proof: { readonly fingerprint: string; readonly proof_hash: Uint8Array; readonly forget_at: Date }
  ) =>
    firstRow(Shown)(sql`
      with holder as materialized (${holderOf(token_hash)}
      ), remembered as (
        insert into bridge_dpop_proof (proof_hash, forget_at)
        select ${proof.proof_hash}::bytea, ${proof.forget_at}::timestamptz
          from holder
         where public_key_fingerprint = ${proof.fingerprint}
            on conflict do nothing
        returning proof_hash
      )
      select holder.*, remembered.proof_hash is not null as first, set_config('synchronous_commit', 'off', true)
        from holder
        left join remembered on true`)

  /** From now on the Bridge has to prove its key. */
  const hold = (identity_id: string, now: Date, trace: Trace) => sql`
    with held as (
      update bridge_identity
         set dpop_required_since = ${now}
       where identity_id = ${identity_id}::uuid
         and dpop_required_since is null
      returning project_id, bridge_id
    )
    ${auditRow(sql, trace, {
      action: "bridge.dpop_required",
      from: "held",
      project: sql`project_id`,
      actor: sql`'bridge:' || bridge_id`,
      subject: sql`jsonb_build_object('bridge_id', bridge_id)`
    })}`

  return { tokenHolder, remember, hold }
}
