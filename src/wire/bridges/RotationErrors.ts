/** Codes of rotation (spec 7.2, Rotation), and which operation raises which. The states are those of spec 3.3. */
import { fromTable, type RefusalOf } from "../Refusal.ts"
import { bridgeTable, type BridgeTable } from "./BridgeErrors.ts"

export const rotationTable = {
  ...bridgeTable,
  /** The retired one-phase route (spec 4.6); it changes nothing. */
  bridge_rotation_protocol_upgrade_required: [410, "One-phase rotation is retired; use prepare and confirm.", "report"],
  /** Another successor is pending; Retry-After is the rest of its window. */
  bridge_rotation_in_progress: [409, "Another rotation is pending; confirm or abort it, or wait.", "wait"],
  /** The identity has no rotation with this id. */
  bridge_rotation_not_found: [404, "There is no such rotation.", "prepare"],
  /** The confirmation window passed; the predecessor is still valid. */
  bridge_rotation_expired: [410, "The confirmation window has passed; prepare again with a new key.", "prepare"],
  bridge_rotation_aborted: [409, "The rotation was aborted; prepare again with a new key.", "prepare"],
  bridge_rotation_confirmed: [409, "The rotation was confirmed already.", "done"],
  /** The bearer is a known token, but not the successor of this rotation. */
  bridge_rotation_invalid_state: [409, "This token is not the successor of that rotation.", "report"],
  /** The predecessor was revoked while its successor was pending: the Bridge has no token left. */
  bridge_rotation_predecessor_revoked: [409, "The predecessor was revoked; enroll again.", "operator"],
  /** The predecessor expired before the confirmation: the Bridge has no token left. */
  bridge_rotation_predecessor_expired: [409, "The predecessor has expired; enroll again.", "operator"]
} as const satisfies BridgeTable

/** The codes of self and revoke, which need an active token of an active identity. */
export const activeTokenCodes = [
  "bridge_token_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_token_pending",
  "bridge_revoked",
  "bridge_persistence_error"
] as const

/** The codes of prepare. */
export const prepareCodes = [
  ...activeTokenCodes,
  "bridge_rotation_in_progress",
  "bridge_rotation_expired",
  "bridge_rotation_aborted",
  "idempotency_conflict"
] as const

/** The codes of abort. */
export const abortCodes = [
  "bridge_token_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_revoked",
  "bridge_rotation_not_found",
  "bridge_rotation_expired",
  "bridge_rotation_aborted",
  "bridge_rotation_confirmed",
  "bridge_rotation_invalid_state",
  "bridge_rotation_predecessor_revoked",
  "idempotency_conflict",
  "bridge_persistence_error"
] as const

/** The codes of confirm, which also needs a predecessor that has not expired (spec 3.2). */
export const confirmCodes = [...abortCodes, "bridge_rotation_predecessor_expired"] as const

export type RotationRefusal<Code extends keyof typeof rotationTable = keyof typeof rotationTable> = RefusalOf<
  typeof rotationTable,
  Code
>
export const { refuse, refusals } = fromTable(rotationTable)
