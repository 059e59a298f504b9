import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const revokeBridge = command("revoke-bridge", {
  description: "Revoke a Bridge and all its tokens, at once and for good",
  flags: { project: Flags.project, bridge: Flags.bridgeId("bridge", "The Bridge; see list-bridges") },
  run: ({ bridge, project }) =>
    using(({ bridges }) =>
      Effect.map(bridges.revoke(project, bridge), (revoked) => ({ project_id: project, bridge_id: bridge, ...revoked }))
    ),
  print: (revoked) => [
    ...facts(revoked),
    next(`show-bridge --project ${revoked.project_id} --bridge ${revoked.bridge_id}`)
  ]
})
