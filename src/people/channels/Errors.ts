/** Codes of the operator's commands for channels. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  ...projectTable,
  channel_not_found: [404, "There is no such channel; see list-channels."],
  channel_revoked: [409, "The channel is revoked; create another one."],
  channel_rotation_pending: [
    409,
    "Two secrets sign already, and the receiver may know only the older one: once it has the newer, end the older without --out. If the newer is lost, repeat the command with --replace-newest."
  ],
  channel_limit_reached: [
    409,
    "The project has as many channels as its limit allows; revoke one, or raise the limit with set-project-limits --channels."
  ],
  channel_target_not_allowed: [
    422,
    "A channel's address is https with a host name, without user and fragment. Hosts listed in SERVICE_CHANNEL_PRIVATE_HOSTS may also be http or a plain IP address."
  ],
  channel_has_no_secret: [409, "Only webhooks have a secret that the service makes; create the ntfy channel again."]
} as const

const operationCodes = {
  create: ["project_not_found", "channel_limit_reached", "channel_target_not_allowed", "bridge_persistence_error"],
  list: ["project_not_found", "bridge_persistence_error"],
  test: ["channel_not_found", "channel_revoked", "bridge_persistence_error"],
  rotate: [
    "channel_not_found",
    "channel_revoked",
    "channel_has_no_secret",
    "channel_rotation_pending",
    "bridge_persistence_error"
  ],
  revoke: ["channel_not_found", "bridge_persistence_error"]
} as const satisfies Record<string, ReadonlyArray<keyof typeof table>>

export type ChannelRefusal<Of extends keyof typeof operationCodes> = RefusalOf<
  typeof table,
  (typeof operationCodes)[Of][number]
>
export const { refuse } = fromTable(table)
