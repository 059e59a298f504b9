/** The sweeps of rotation: they mark expired rotations and tokens, and delete ended rotations after thirty days. */
import { Schema } from "effect"
import { purgeBefore, type Sweep } from "../../platform/database/Sweeper.ts"
import { rows } from "../../platform/sql/Rows.ts"
import { rotationFailed } from "./RotationStore.ts"

/** Ends pending rotations whose confirmation window has passed. Skips identities that a request has locked. */
const settleRotations: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ rotation_id: Schema.String }))(sql`
    with due as materialized (
      select i.identity_id, i.project_id, r.rotation_id, r.successor_id
        from bridge_identity i
        join bridge_rotation r on r.identity_id = i.identity_id and r.rotation_id = i.pending_rotation_id
       where r.state = 'pending'
         and r.confirmation_expires_at <= ${now}
       order by r.confirmation_expires_at
       limit ${limit}
         for no key update of i, r skip locked
    ), ended as (
      update bridge_rotation r
         set state = 'expired', ended_at = r.confirmation_expires_at
        from due
       where r.rotation_id = due.rotation_id
      returning r.rotation_id, r.successor_id, r.ended_at, due.project_id, due.identity_id
    ), dropped as (
      update bridge_token t
         set state = 'revoked', ended_at = ended.ended_at, end_reason = 'rotation_expired'
        from ended
       where t.token_id = ended.successor_id
    ), pointed as (
      update bridge_identity i
         set pending_rotation_id = null
        from due
       where i.identity_id = due.identity_id
    ), ${rotationFailed(sql, "ended", now)}
    select rotation_id from ended`)

/** Marks active tokens that have expired. */
const settleTokens: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ token_id: Schema.String }))(sql`
    with due as materialized (
      select t.token_id
        from bridge_identity i
        join bridge_token t on t.identity_id = i.identity_id
       where t.state = 'active'
         and t.expires_at <= ${now}
       order by t.expires_at
       limit ${limit}
         for no key update of i, t skip locked
    )
    update bridge_token t
       set state = 'expired', ended_at = t.expires_at, end_reason = 'expired'
      from due
     where t.token_id = due.token_id
    returning t.token_id`)

const purgeRotations: Sweep["run"] = (sql, now, limit) =>
  rows(Schema.Struct({ rotation_id: Schema.String }))(sql`
    delete from bridge_rotation
     where rotation_id = any (array(
       select rotation_id
         from bridge_rotation
        where ended_at < ${purgeBefore(now)}
        order by ended_at
        limit ${limit}))
    returning rotation_id`)

export const sweeps: ReadonlyArray<Sweep> = [
  { name: "settle rotations", run: settleRotations },
  { name: "settle tokens", run: settleTokens },
  { name: "purge rotations", run: purgeRotations }
]
