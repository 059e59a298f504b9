/** Enrolled Bridges: list, show, and revoke in an emergency (spec 3.1). */
import { Effect, Option } from "effect"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next, table } from "../support/terminal/Print.ts"

const one = { project: Flags.project, bridge: Flags.bridgeId("bridge", "The Bridge; see list-bridges") }

const listBridges = list("list-bridges", {
  description: "List the Bridges of a project",
  flags: { project: Flags.project, state: Flags.state(["pending", "active", "revoked"]) },
  recorded: "bridge.listed",
  after: Flags.bridgeId("after", ""),
  key: "bridge_id",
  page: ({ bridges }, { project, state }, page) => bridges.list(project, page, Option.getOrUndefined(state)),
  columns: [
    "bridge_id",
    "status",
    "enrolled_at",
    "token_expires_at",
    "key_since",
    "access_role",
    "revoked_at",
    "device_id",
    "display_name"
  ],
  none: "The project has no Bridges.",
  next: ([first], { project }) =>
    first === undefined
      ? `create-bridge-enrollment-credential --project ${project} --account-reference REFERENCE --out FILE`
      : `show-bridge --project ${project} --bridge ${first.bridge_id}`
})

const showBridge = command("show-bridge", {
  description: "Show a Bridge and its latest tokens",
  remote: "read",
  flags: one,
  run: ({ bridge, project }) =>
    using(({ bridges, recorded }) =>
      Effect.tap(bridges.show(project, bridge), recorded("bridge.shown", project, { bridge_id: bridge }))
    ),
  print: ({ tokens, ...bridge }) => [
    ...facts(bridge),
    "",
    ...table(
      tokens,
      ["token_id", "state", "created_at", "expires_at", "ended_at", "end_reason"],
      "The Bridge has no tokens yet."
    ),
    next(`revoke-bridge --project ID --bridge ${bridge.bridge_id}`, "at once and permanently")
  ]
})

const revokeBridge = irreversible("revoke-bridge", {
  description: "Revoke a Bridge and all its tokens, at once and permanently",
  remote: "write",
  flags: one,
  losses: ({ bridge, project }) => using(({ losses }) => losses.bridge(project, bridge)),
  run: ({ bridge, project }) =>
    using(({ bridges }) =>
      Effect.map(bridges.revoke(project, bridge), (revoked) => ({ project_id: project, bridge_id: bridge, ...revoked }))
    ),
  print: (revoked) => [
    ...facts(revoked),
    next(`show-bridge --project ${revoked.project_id} --bridge ${revoked.bridge_id}`)
  ]
})

const liftBridgeDpop = command("lift-bridge-dpop", {
  description: "Accept the token of a Bridge without proof of its key again, until it next sends one",
  remote: "write",
  flags: one,
  run: ({ bridge, project }) =>
    using(({ bridges }) =>
      Effect.map(bridges.liftDpop(project, bridge), (lifted) => ({ project_id: project, bridge_id: bridge, ...lifted }))
    ),
  print: (lifted) => [...facts(lifted), next(`show-bridge --project ${lifted.project_id} --bridge ${lifted.bridge_id}`)]
})

const requireKeyRotation = command("require-key-rotation", {
  description: "Ask a Bridge to replace its key; bridge run does so within the hour",
  remote: "write",
  flags: one,
  run: ({ bridge, project }) =>
    using(({ bridges }) =>
      Effect.map(bridges.requireKeyRotation(project, bridge), (required) => ({
        project_id: project,
        bridge_id: bridge,
        ...required
      }))
    ),
  print: (required) => [
    ...facts(required),
    next(`show-bridge --project ${required.project_id} --bridge ${required.bridge_id}`, "shows key_since")
  ]
})

const grantBridgeAccess = command("grant-bridge-access", {
  description: "Let a Bridge reach the project's memory and tasks with its key, without a pasted token",
  remote: "write",
  flags: { ...one, role: Flags.role },
  run: ({ bridge, project, role }) =>
    using(({ bridges }) =>
      Effect.map(bridges.grantAccess(project, bridge, role), (granted) => ({
        project_id: project,
        bridge_id: bridge,
        ...granted
      }))
    ),
  print: (granted) => [
    ...facts(granted),
    next("token --mcp-header", "on the machine of the Bridge: prints a header for /mcp", "bridge")
  ]
})

const withdrawBridgeAccess = irreversible("withdraw-bridge-access", {
  description: "End a Bridge's access to memory and tasks with its next request; the Bridge stays enrolled",
  remote: "write",
  flags: one,
  losses: ({ bridge, project }) => using(({ losses }) => losses.bridgeAccess(project, bridge)),
  run: ({ bridge, project }) =>
    using(({ bridges }) =>
      Effect.map(bridges.withdrawAccess(project, bridge), (withdrawn) => ({
        project_id: project,
        bridge_id: bridge,
        ...withdrawn
      }))
    ),
  print: (withdrawn) => [
    ...facts(withdrawn),
    next(`show-bridge --project ${withdrawn.project_id} --bridge ${withdrawn.bridge_id}`)
  ]
})

export const bridges = [
  listBridges,
  showBridge,
  revokeBridge,
  liftBridgeDpop,
  requireKeyRotation,
  grantBridgeAccess,
  withdrawBridgeAccess
]
