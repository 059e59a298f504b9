/** The rows of one project without their random parts: two projects with the same history have the same shape. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export const shapeOf = (project_id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ row: string }>`
      with identity as (select * from bridge_identity where project_id = ${project_id}::uuid)
      select 'project ' || row(disabled_at) as row
        from project
       where project_id = ${project_id}::uuid
      union all
      select 'reference ' || row(reference, withdrawn_at)
        from approved_account_reference
       where project_id = ${project_id}::uuid
      union all
      select 'credential ' || row(reenroll_bridge_id is null, expires_at, revoked_at, claimed_at, challenge_expires_at)
        from bridge_enrollment_credential
       where project_id = ${project_id}::uuid
      union all
      select 'project token ' || row(role, scopes, expires_at, revoked_at)
        from project_token
       where project_id = ${project_id}::uuid
      union all
      select 'identity ' || row(status, challenge_expires_at, enrolled_at, revoked_at,
                                pending_rotation_id is null, key_rotation_until, key_rotation_required_since,
                                dpop_required_since is null)
        from identity
      union all
      select 'challenge ' || row(expires_at, consumed_at, token_id is null)
        from enrollment_challenge join identity using (identity_id)
      union all
      select 'token ' || row(state, expires_at, ended_at, end_reason)
        from bridge_token join identity using (identity_id)
      union all
      select 'rotation ' || row(state, confirmation_expires_at, ended_at)
        from bridge_rotation join identity using (identity_id)
      union all
      select 'key rotation ' || row(k.outcome, k.confirmation_expires_at, k.ended_at,
                                    k.key_rotation_id = i.pending_key_rotation_id,
                                    k.public_key_fingerprint = i.public_key_fingerprint)
        from bridge_key_rotation k join identity i using (identity_id)
      union all
      select 'audit ' || row(action, outcome, code, coalesce(count, 1))
        from audit_event
        left join audit_refusal_count using (event_id)
       where project_id = ${project_id}::uuid
       order by row`
    return rows.map(({ row }) => row)
  })

/** A query of all columns of some rows, for `masked`. */
export const rowsOf = (table: string, where: string) => `select '${table} ' || t::text from ${table} t where ${where}`

/** The queries' rows, one text each, without their random parts. */
export const masked = (queries: ReadonlyArray<string>, values: ReadonlyArray<string>) =>
  SqlClient.SqlClient.use((sql) =>
    sql.unsafe<{ readonly row: string }>(
      `select regexp_replace(row, '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,}|[A-Za-z0-9_-]{43,}', '*', 'g') as row
         from (${queries.join(" union all ")}) rows (row)
        order by 1`,
      values
    )
  ).pipe(Effect.map((rows) => rows.map(({ row }) => row)))
