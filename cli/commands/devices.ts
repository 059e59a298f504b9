/** Phones that receive notifications (spec 2.9). */
import { Effect } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next, table } from "../support/Print.ts"

const listDevices = command("list-devices", {
  description: "List the phones of a project that are registered for notifications",
  flags: {
    project: Flags.project,
    limit: Flags.count("limit", 1000, "Maximum number of devices (default: 100)").pipe(Flag.withDefault(100))
  },
  run: ({ limit, project }) => using(({ devices }) => devices.list(project, limit)),
  print: (devices) => [
    ...table(
      devices,
      ["device_id", "state", "state_reason", "environment", "topic", "token_key_id", "created_at", "last_seen_at"],
      "The project has no devices."
    ),
    next("revoke-device --device ID")
  ]
})

const revokeDevice = command("revoke-device", {
  description: "Revoke a phone: its push token is deleted and it gets no more notifications",
  flags: { device: Flags.uuid("device", "Id of the device; see list-devices") },
  run: ({ device }) =>
    using(({ devices }) => Effect.map(devices.end(device), (revoked) => ({ device_id: device, ...revoked }))),
  print: (revoked) => [...facts(revoked), next("list-devices --project ID")]
})

export const devices = [listDevices, revokeDevice]
