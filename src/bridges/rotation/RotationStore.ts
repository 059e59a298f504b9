/**
 * Shared by the statements of rotation: the order of locks, and the clauses that several of them use.
 *
 * Every writer locks the identity first, then rotation, predecessor, successor. A statement's snapshot is older than a
 * lock that it had to wait for, and only locked rows are read again after the wait. So every decision rests on a column
 * of a locked row, above all `pending_rotation_id`. When that column names a rotation that the snapshot cannot
 * see, the statement does nothing and runs again. Without this guard a prepare that races a revoke leaves a live
 * successor behind.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { notified } from "../../platform/sql/PushRow.ts"

export const RotationStatus = Schema.Literals(["pending", "confirmed", "aborted", "expired", "cancelled"])

/** The columns of `TokenState`, selected from `bearer`. */
export const tokenState = (sql: SqlClient.SqlClient) => sql`
  t.token_id, t.state, t.expires_at, t.ended_at, t.end_reason, i.project_id, i.bridge_id,
  i.status = 'revoked' or p.disabled_at is not null as revoked, own.confirmation_expires_at`

/** A token with its identity, its project and the rotation that it is the successor of (`own`). */
export const bearer = (sql: SqlClient.SqlClient) => sql`
  bridge_token t
  join bridge_identity i on i.identity_id = t.identity_id
  join project p on p.project_id = i.project_id
  left join bridge_rotation own on own.successor_id = t.token_id`

/** Notifies phones of rotations that ended without confirm or abort; `from` names the clause that ended them. */
export const rotationFailed = (sql: SqlClient.SqlClient, from: string, now: Date) =>
  notified(sql, now, {
    kind: "bridge.rotation_failed",
    from,
    event: sql`e.rotation_id`,
    project: sql`e.project_id`,
    about: sql`e.identity_id`
  })
