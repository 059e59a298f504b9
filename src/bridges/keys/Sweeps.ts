/** The sweeps of key rotation: they clear the names of those whose window has passed, and delete them after thirty days. */
import { Schema } from "effect"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"

const settleKeyRotations: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ identity_id: Schema.String }))(sql`
    with due as materialized (
      select identity_id
        from bridge_identity
       where key_rotation_until <= ${now}
       order by key_rotation_until
       limit ${limit}
         for no key update skip locked
    )
    update bridge_identity i
       set pending_key_rotation_id = null, key_rotation_until = null
      from due
     where i.identity_id = due.identity_id
    returning i.identity_id`)

/** Not those that their identity still names: the first sweep has to clear that name. */
const purgeKeyRotations: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ key_rotation_id: Schema.String }))(sql`
    delete from bridge_key_rotation
     where key_rotation_id = any (array(
       select k.key_rotation_id
         from bridge_key_rotation k
         join bridge_identity i on i.identity_id = k.identity_id
        where k.confirmation_expires_at < ${purgeBefore(now)}
          and i.pending_key_rotation_id is distinct from k.key_rotation_id
        order by k.confirmation_expires_at
        limit ${limit}))
    returning key_rotation_id`)

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "settle key rotations", run: settleKeyRotations },
  { name: "purge key rotations", run: purgeKeyRotations }
]
