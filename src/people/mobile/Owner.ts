/** The owner of a device (spec 2.9): the subject of the sign-in that registered it, in the project of that sign-in. */
import { Effect } from "effect"
import { Audit } from "../../platform/audit/Audit.ts"
import type { Device } from "../../wire/mobile/MobileApi.ts"
import type { Owner, Row } from "./DeviceStore.ts"

export const make = Effect.gen(function* () {
  const audit = yield* Audit

  const auditDevice = (
    now: Date,
    action: string,
    { actor, project_id }: { readonly project_id: string; readonly actor: string },
    device_id: string
  ) => audit.done(now, { action, project_id, actor, subject: { device_id } })

  return { auditDevice }
})

export const owns = ({ project_id, subject }: Owner, device: Owner) =>
  device.project_id === project_id && device.subject === subject

/** The device as the API returns it. */
export const answerOf = (device: Row): Device => ({
  device_id: device.device_id,
  state: device.state,
  ...targetOf(device),
  preferences: device.preferences,
  preferences_version: device.preferences_version,
  created_at: device.created_at,
  last_seen_at: device.last_seen_at
})

const targetOf = ({ environment, token_fingerprint, topic }: Row): Pick<Device, "platform" | "push"> =>
  environment === "web"
    ? { platform: "web", push: { provider: "webpush", endpoint_host: topic, token_fingerprint } }
    : { platform: "ios", push: { provider: "apns", environment, topic, token_fingerprint } }
