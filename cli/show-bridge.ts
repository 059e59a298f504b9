import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next, table } from "./support/print.ts"

export const showBridge = command("show-bridge", {
  description: "Show a Bridge and its last tokens",
  flags: { project: Flags.project, bridge: Flags.bridgeId("bridge", "The Bridge; see list-bridges") },
  run: ({ bridge, project }) => using(({ bridges }) => bridges.show(project, bridge)),
  print: ({ tokens, ...bridge }) => [
    ...facts(bridge),
    "",
    ...table(
      tokens,
      ["token_id", "state", "created_at", "expires_at", "ended_at", "end_reason"],
      "It has no tokens yet."
    ),
    next(`revoke-bridge --project ID --bridge ${bridge.bridge_id}`, "for good, at once")
  ]
})
