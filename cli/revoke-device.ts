import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const revokeDevice = command("revoke-device", {
  description: "Revoke a phone: its push token is forgotten and nothing more is sent to it",
  flags: { device: Flags.uuid("device", "The device; see list-devices") },
  run: ({ device }) =>
    using(({ devices }) => Effect.map(devices.end(device), (revoked) => ({ device_id: device, ...revoked }))),
  print: (revoked) => [...facts(revoked), next("list-devices --project ID")]
})
