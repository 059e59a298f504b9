/** Phones that receive notifications (spec 2.9). */
import { Effect } from "effect"
import { using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const listDevices = list("list-devices", {
  description: "List the phones of a project that are registered for notifications, newest first",
  flags: { project: Flags.project },
  recorded: "mobile_device.listed",
  after: Flags.uuid("after", ""),
  key: "device_id",
  page: ({ devices }, { project }, page) => devices.list(project, page),
  columns: ["device_id", "state", "state_reason", "environment", "topic", "token_key_id", "created_at", "last_seen_at"],
  none: "The project has no devices.",
  next: ({ length }) =>
    length === 0
      ? "create-oauth-client --name NAME --redirect-uri URI --scope mobile:devices"
      : "revoke-device --device ID"
})

const revokeDevice = irreversible("revoke-device", {
  description: "Revoke a phone: its push token is deleted and it gets no more notifications",
  remote: "write",
  flags: { device: Flags.id("device", "Id of the device; see list-devices") },
  losses: ({ device }) => using(({ losses }) => losses.device(device)),
  run: ({ device }) =>
    using(({ devices }) => Effect.map(devices.end(device), (revoked) => ({ device_id: device, ...revoked }))),
  print: (revoked) => [...facts(revoked), next("list-devices --project ID")]
})

export const devices = [listDevices, revokeDevice]
