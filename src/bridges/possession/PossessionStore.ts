/** The statements of proof of possession: the holder of a token, and the proofs that it has used. */
import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { UsedProof } from "../../platform/proofs/DpopProof.ts"
import { remembered } from "../../platform/proofs/ProofStore.ts"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { lookup } from "../../platform/sql/Lookup.ts"
import { firstRow, onlyRow } from "../../platform/sql/Rows.ts"

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

interface Used extends UsedProof {
  readonly fingerprint: string
}

interface Asked {
  readonly token_hash: Uint8Array
  readonly proof: Used
}

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
  const remember = (token_hash: Uint8Array, proof: Used, key_rotation_id?: string) =>
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

  /** The same for the proofs of several requests at once, in their order (Together.ts). Of two equal ones the first is first. */
  const rememberEach = (all: ReadonlyArray<Asked>) =>
    Effect.flatMap(
      sql<{ readonly place: number }>`
        with holder as materialized (
          select asked.place, asked.proof_hash, asked.forget_at, held.*,
                 held.public_key_fingerprint = asked.fingerprint as accepted
            from unnest(${all.map(({ token_hash }) => token_hash)}::bytea[],
                        ${all.map(({ proof }) => proof.fingerprint)}::text[],
                        ${all.map(({ proof }) => proof.proof_hash)}::bytea[],
                        ${all.map(({ proof }) => proof.forget_at)}::timestamptz[])
                 with ordinality as asked (token_hash, fingerprint, proof_hash, forget_at, place)
           cross join lateral (${holderOf(sql`asked.token_hash`)}
          offset 0) as held
        ), remembered as (
          -- In one order, so that two statements with the same proofs wait for each other only one way.
          insert into bridge_dpop_proof (proof_hash, forget_at)
          select proof_hash, max(forget_at)
            from holder
           where accepted
           group by proof_hash
           order by proof_hash
              on conflict do nothing
          returning proof_hash
        )
        select holder.place::int as place, identity_id, project_id, bridge_id, public_key_fingerprint,
               dpop_required_since, accepted,
               remembered.proof_hash is not null
               and row_number() over (partition by holder.proof_hash, accepted order by holder.place) = 1 as first,
               set_config('synchronous_commit', 'off', true)
          from holder
          left join remembered on accepted and remembered.proof_hash = holder.proof_hash`,
      (found) => {
        const placed = all.map((): Array<unknown> => [])
        for (const row of found) placed[row.place - 1]!.push(row)
        return Effect.forEach(placed, onlyRow(Shown))
      }
    )

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

  return { tokenHolder, remember, rememberEach, hold }
}
