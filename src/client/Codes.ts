/** What a Bridge does about each code of spec 7.2. A new code does not compile until it has a row here. */
import type { EnrollmentRefusal } from "../wire/bridges/EnrollmentErrors.ts"
import type { RotationRefusal } from "../wire/bridges/RotationErrors.ts"

export type Code = EnrollmentRefusal["_tag"] | RotationRefusal["_tag"]

export type Reaction =
  /** Send the same request with the same key again, after a pause. */
  | "retry"
  /** Another rotation is pending: the same again, but not before Retry-After. */
  | "wait"
  /** Ask for a new challenge, with new keys and the same credential. */
  | "challenge"
  /** The successor is gone and the predecessor still good: prepare again, with a new key. */
  | "prepare"
  /** It is so already. */
  | "done"
  /** Nothing that the Bridge sends will change this: a person has to issue a credential, or to look. */
  | "operator"
  /** Client and service disagree about the protocol. */
  | "report"

const reactions: Readonly<Record<Code, Reaction>> = {
  bridge_persistence_error: "retry",
  rate_limited: "retry",
  internal_error: "retry",
  bridge_rotation_in_progress: "wait",

  enrollment_challenge_not_found: "challenge",
  enrollment_challenge_expired: "challenge",

  bridge_rotation_not_found: "prepare",
  bridge_rotation_expired: "prepare",
  bridge_rotation_aborted: "prepare",

  bridge_rotation_confirmed: "done",

  bridge_enrollment_credential_invalid: "operator",
  bridge_enrollment_credential_expired: "operator",
  bridge_enrollment_credential_used: "operator",
  bridge_enrollment_credential_revoked: "operator",
  project_mismatch: "operator",
  enrollment_challenge_consumed: "operator",
  bridge_not_pending: "operator",
  bridge_identity_conflict: "operator",
  bridge_revoked: "operator",
  bridge_token_invalid: "operator",
  bridge_token_expired: "operator",
  bridge_token_revoked: "operator",
  bridge_rotation_predecessor_revoked: "operator",
  bridge_rotation_predecessor_expired: "operator",

  bridge_enrollment_credential_required: "report",
  enrollment_challenge_mismatch: "report",
  enrollment_key_mismatch: "report",
  enrollment_proof_invalid: "report",
  bridge_token_pending: "report",
  bridge_rotation_invalid_state: "report",
  bridge_rotation_protocol_upgrade_required: "report",
  idempotency_key_required: "report",
  idempotency_conflict: "report",
  invalid_request: "report",
  unauthorized: "report",
  insufficient_scope: "report",
  not_found: "report",
  method_not_allowed: "report",
  payload_too_large: "report",
  unsupported_media_type: "report"
}

/** Undefined for what is no code of the service: a failure on this side of the wire. */
export const reactionTo = ({ _tag }: { readonly _tag: string }): Reaction | undefined =>
  (reactions as Readonly<Record<string, Reaction>>)[_tag]
