/**
 * Web push (RFC 8030, 8291, 8292): a POST to the browser's push service, encrypted for the browser and signed with the key
 * that it subscribed with.
 */
import { Effect, Option, Redacted } from "effect"
import type { P256Key } from "../../../platform/crypto/P256.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { makePost, type PostAnswer } from "../../../platform/network/GuardedPost.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { misconfigured } from "../Outcome.ts"
import { BrowserPush, type Push } from "../Provider.ts"
import { authorization } from "./authorization.ts"
import { encrypt } from "./encrypt.ts"
import { isAllowedEndpoint, ofToken } from "../../Subscription.ts"
import { outcomeOf } from "./WebPushOutcome.ts"

/** The signing key of a public one; none if it cannot be derived. */
export type Signing = (
  public_key: string
) => Effect.Effect<Option.Option<P256Key>, SharedRefusal<"bridge_persistence_error">>

export const makeWebPush = Effect.fnUntraced(function* (signing: Signing) {
  const { baseUrl, push } = yield* Settings
  const hosts = push.webPushHosts
  const contact = push.webPushContact ?? baseUrl.origin
  const clock = yield* DatabaseClock
  // Without the database nothing is claimed, so nothing is sent.
  const now = Effect.orDie(clock.now)
  const post = yield* makePost((host) => hosts.has(host))

  const send = Effect.fnUntraced(function* ({ collapse_id, expires_at, immediate, payload, token }: Push) {
    const { endpoint, keys, public_key } = ofToken(token)
    if (!isAllowedEndpoint(endpoint, hosts)) return yield* unsent("endpoint_not_allowed")
    const key = yield* signing(public_key)
    if (Option.isNone(key)) return yield* unsent("web_push_key_unknown")
    const to = new URL(endpoint)
    const at = yield* now
    const headers = {
      authorization: Redacted.value(authorization(key.value, to, contact, at)),
      "content-encoding": "aes128gcm",
      "content-type": "application/octet-stream",
      ttl: String(Math.max(0, Math.floor((expires_at.getTime() - at.getTime()) / 1000))),
      urgency: immediate ? "high" : "low",
      topic: collapse_id
    }
    const recipient = { p256dh: Buffer.from(keys.p256dh, "base64url"), auth: Buffer.from(keys.auth, "base64url") }
    const response = yield* post(to, headers, encrypt(Buffer.from(payload), recipient))
    return { status: response.status ?? null, reason: reasonOf(response), outcome: outcomeOf(response) }
  })

  return BrowserPush.of({ send })
})

/** The host, or the key for push tokens, was taken from the settings. It concerns this subscription only. */
const unsent = (reason: string) =>
  Effect.as(Effect.annotateLogs(Effect.logError("Push delivery needs the operator"), { reason }), {
    status: null,
    reason,
    outcome: { _tag: "Retry", backoff: misconfigured.backoff, device: true } as const
  })

/** Push services explain themselves in words of their own; the status says enough. */
const reasonOf = ({ status }: PostAnswer) => {
  if (status === undefined) return "unreachable"
  return status >= 200 && status < 300 ? null : (reasons[status] ?? "refused")
}

const reasons: Readonly<Record<number, string>> = {
  401: "signature_refused",
  403: "signature_refused",
  404: "subscription_gone",
  410: "subscription_gone",
  413: "too_large",
  429: "too_many_requests"
}
