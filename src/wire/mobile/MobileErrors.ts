/** Codes of the mobile API (spec 4.12). */
import { sharedTable } from "../Errors.ts"
import { fromTable, type RefusalOf } from "../Refusal.ts"

const table = {
  ...sharedTable,
  /** Unknown, of another project, of another owner: one answer. */
  device_not_found: [404, "There is no such device."],
  /** Revoked, or its installation is gone. */
  device_revoked: [409, "The device is no longer registered; register it again."],
  device_limit_reached: [409, "Too many devices are registered; revoke one first."],
  /** If-Match names another version than the current one. */
  preferences_version_conflict: [412, "The preferences were changed meanwhile; read them again."],
  push_environment_not_allowed: [400, "This service does not deliver to that push environment."],
  push_topic_not_allowed: [400, "This service does not deliver to that app."]
} as const

export type MobileRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse, refusals, codes } = fromTable(table)
