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
  /** The confirmation window passed; the predecessor is still good. */
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

const activeToken = [
  "bridge_token_invalid",
  "bridge_token_expired",
  "bridge_token_revoked",
  "bridge_token_pending",
  "bridge_revoked",
  "bridge_persistence_error"
] as const

const abort = [
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

/** The codes of each operation: its endpoint and its service declare the same ones. */
export const operationCodes = {
  prepare: [
    ...activeToken,
    "bridge_rotation_in_progress",
    "bridge_rotation_expired",
    "bridge_rotation_aborted",
    "idempotency_conflict"
  ],
  /** It also needs a predecessor that has not expired (spec 3.2). */
  confirm: [...abort, "bridge_rotation_predecessor_expired"],
  abort,
  revoke: activeToken,
  self: activeToken
} as const satisfies Record<string, ReadonlyArray<keyof typeof rotationTable>>

export type RotationRefusal<Of extends keyof typeof operationCodes = keyof typeof operationCodes> = RefusalOf<
  typeof rotationTable,
  (typeof operationCodes)[Of][number]
>
export const { refuse, refusals } = fromTable(rotationTable)
