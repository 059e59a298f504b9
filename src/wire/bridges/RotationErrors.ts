/** Codes of rotation (spec 7.2 Rotation). The states they name are those of spec 3.3. */
import { bridgeTable } from "./BridgeErrors.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"

const table = {
  ...bridgeTable,
  /** The one-phase route; it changes nothing. */
  bridge_rotation_protocol_upgrade_required: [410, "One-phase rotation is retired; use prepare and confirm."],
  /** Another successor is pending; Retry-After says for how long at most. */
  bridge_rotation_in_progress: [409, "Another rotation is pending; confirm or abort it, or wait."],
  /** No rotation of this id belongs to the identity. */
  bridge_rotation_not_found: [404, "There is no such rotation."],
  /** The confirmation window passed; the predecessor is still good. */
  bridge_rotation_expired: [410, "The confirmation window has passed; prepare again with a new key."],
  bridge_rotation_aborted: [409, "The rotation was aborted; prepare again with a new key."],
  bridge_rotation_confirmed: [409, "The rotation was confirmed already."],
  /** The bearer is authentic, but it is not the successor of this rotation. */
  bridge_rotation_invalid_state: [409, "This token is not the successor of that rotation."],
  /** No credential is left: the predecessor was revoked while its successor was pending. */
  bridge_rotation_predecessor_revoked: [409, "The predecessor was revoked; enroll again."],
  /** No credential is left: the predecessor expired before the confirmation. */
  bridge_rotation_predecessor_expired: [409, "The predecessor has expired; enroll again."]
} as const

export type RotationRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse, refusals } = fromTable(table)
