/** Codes of the mobile API (spec 4.12). */
import { sharedTable } from "../Errors.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"

const table = {
  ...sharedTable,
  /** One code for devices that are unknown, in another project or of another owner. */
  device_not_found: [404, "There is no such device."],
  /** Revoked, or the app was removed. */
  device_revoked: [409, "The device is no longer registered; register it again."],
  device_limit_reached: [409, "Too many devices are registered; revoke one first."],
  /** If-Match names other versions than the current one. */
  preferences_version_conflict: [412, "The preferences were changed meanwhile; read them again."],
  push_environment_not_allowed: [400, "This service does not deliver to that push environment."],
  push_topic_not_allowed: [400, "This service does not deliver to that app."]
} as const

const everywhere = ["unauthorized", "insufficient_scope", "rate_limited", "bridge_persistence_error"] as const
const withBody = ["invalid_request", "payload_too_large", "unsupported_media_type"] as const

/** The codes of each operation: its endpoint and its service declare the same ones. */
export const operationCodes = {
  register: [
    ...everywhere,
    ...withBody,
    "device_limit_reached",
    "device_revoked",
    "push_environment_not_allowed",
    "push_topic_not_allowed",
    "idempotency_conflict"
  ],
  get: [...everywhere, "device_not_found"],
  setPreferences: [...everywhere, ...withBody, "device_not_found", "device_revoked", "preferences_version_conflict"],
  revoke: [...everywhere, "device_not_found"]
} as const satisfies Record<string, ReadonlyArray<keyof typeof table>>

type Operation = keyof typeof operationCodes
export type MobileRefusal<Of extends Operation> = RefusalOf<typeof table, (typeof operationCodes)[Of][number]>
export const { refuse, refusals, codes } = fromTable(table)
