/** Who asks about devices, and what is theirs (spec 2.9): those of the same subject in the same project. */
import { Effect } from "effect"
import { Access } from "../../signin/access/Access.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import type { Actor } from "../../wire/Actor.ts"
import type { Device } from "../../wire/mobile/MobileApi.ts"
import type { MobileRefusal } from "../../wire/mobile/MobileErrors.ts"
import type * as Store from "./DeviceStore.ts"

export type Guarded = MobileRefusal<"unauthorized" | "insufficient_scope" | "bridge_persistence_error">

export const make = Effect.gen(function* () {
  const access = yield* Access
  const audit = yield* Audit

  /** Only a sign-in that was allowed it. */
  const owner = Effect.fnUntraced(function* (actor: Actor) {
    const granted = yield* access.requireGrant(actor)
    yield* access.require(granted, "mobile:devices")
    return granted
  })

  const done = (now: Date, action: string, by: { readonly project_id: string; readonly actor: string }, id: string) =>
    audit.done(now, { action, project_id: by.project_id, actor: by.actor, subject: { device_id: id } })

  return { owner, done }
})

export const isOf = (device: Store.Owner, { project_id, subject }: Store.Owner) =>
  device.project_id === project_id && device.subject === subject

export const answerOf = (device: Store.Row): Device => ({
  device_id: device.device_id,
  state: device.state,
  platform: "ios",
  push: {
    provider: "apns",
    environment: device.environment,
    topic: device.topic,
    token_fingerprint: device.token_fingerprint
  },
  preferences: device.preferences,
  preferences_version: device.preferences_version,
  created_at: device.created_at,
  last_seen_at: device.last_seen_at
})
