/** Forgets the proofs that nobody accepts any more. */
import { Schema } from "effect"
import type { Sweep } from "../database/Sweeper.ts"
import { rows } from "../sql/Rows.ts"

const forgetProofs: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ proof_hash: Schema.Uint8Array }))(sql`
    delete from bridge_dpop_proof
     where proof_hash = any (array(
       select proof_hash
         from bridge_dpop_proof
        where forget_at <= ${now}
        order by forget_at
        limit ${limit}))
    returning proof_hash`)

export const sweeps: ReadonlyArray<Sweep> = [{ name: "forget proofs", run: forgetProofs }]
