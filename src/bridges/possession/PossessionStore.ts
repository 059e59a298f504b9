/** The statements of proof of possession: the holder of a token, and the proofs that it has used. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { UsedProof } from "../../platform/proofs/DpopProof.ts"
import { remembered } from "../../platform/proofs/ProofStore.ts"
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

/** `accepted`: the proof is by a key that counts. `first`: it was not used before, either. */
const Shown = Schema.Struct({ ...holder, accepted: Schema.Boolean, first: Schema.Boolean })

export const make = (sql: SqlClient.SqlClient) => {
  const holderOf = (token_hash: Uint8Array | Statement.Fragment) => sql`
    select i.identity_id, i.project_id, i.bridge_id, i.public_key_fingerprint, i.dpop_required_since
      from bridge_token t
      join bridge_identity i on i.identity_id = t.identity_id
     where t.token_hash = ${token_hash}`

  const tokenHolder = lookup(sql, Holder, holderOf)

  /**
   * Finds the holder and remembers the proof. The commit does not wait for the disk: a crash can forget the proofs of its
   * last second, which saves every request of every Bridge a flush. The key of the holder counts, and with
   * `key_rotation_id` also the key that this confirmed key rotation has replaced.
   */
  const remember = (
    token_hash: Uint8Array,
    proof: UsedProof & { readonly fingerprint: string },
    key_rotation_id?: string
  ) =>
    firstRow(Shown)(sql`
      with held as materialized (${holderOf(token_hash)}
      ), holder as materialized (
        select held.*,
               public_key_fingerprint = ${proof.fingerprint}
               or ${
                 key_rotation_id === undefined
                   ? sql`false`
                   : sql`exists (select 1
                                   from bridge_key_rotation k
                                  where k.key_rotation_id = ${key_rotation_id}::uuid
                                    and k.identity_id = held.identity_id
                                    and k.old_fingerprint = ${proof.fingerprint}
                                    and k.outcome = 'confirmed')`
               } as accepted
          from held
      ), proved as (
        select 1 from holder where accepted
      ), remembered as (${remembered(sql, "proved", proof)}
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
