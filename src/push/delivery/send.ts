/** Sends one claimed delivery and returns the result, which settle.ts writes. */
import { Effect, Option } from "effect"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { type Lane, notificationKinds, rank } from "../../wire/mobile/Notifications.ts"
import { type Answer, BrowserPush, ChannelPush, PushProvider } from "../channels/Provider.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { PushTokens } from "../tokens/PushTokens.ts"
import { type Eligibility, eligibilityOf } from "./Eligibility.ts"
import type { ClaimedDelivery } from "./LeaseStore.ts"
import type { ChannelKind } from "../Channel.ts"
import { browserPayload, messageOf, payload } from "./Payload.ts"

export type Attempt =
  /** Not sent: another delivery of the batch has paused the environment. */
  | { readonly _tag: "Skip" }
  | Exclude<Eligibility, { readonly _tag: "Send" }>
  /** Not sent: the token is sealed under a key that is not configured. */
  | { readonly _tag: "KeyUnknown" }
  /** Not sent: the key is known but does not open the token. */
  | { readonly _tag: "Unreadable" }
  | { readonly _tag: "Answered"; readonly answer: Answer }

export const make = Effect.gen(function* () {
  const clock = yield* DatabaseClock
  const tokens = yield* PushTokens
  const provider = yield* PushProvider
  const browsers = yield* BrowserPush
  const channels = yield* ChannelPush
  const { baseUrl } = yield* Settings

  const send = Effect.fnUntraced(function* (
    delivery: ClaimedDelivery,
    environment: Lane,
    isPaused: Effect.Effect<boolean>
  ) {
    const now = yield* clock.now
    if (yield* isPaused) return { _tag: "Skip" } satisfies Attempt
    const eligibility = eligibilityOf(delivery, environment, now)
    if (eligibility._tag !== "Send") return eligibility
    const { collapse_key, delivery_id, expires_at, kind, topic } = delivery
    // An active device has a token.
    const sealed = { token_key_id: delivery.token_key_id!, token_sealed: delivery.token_sealed! }
    const token = tokens.open(sealed, delivery.device_id)
    if (Option.isNone(token)) {
      return { _tag: tokens.knows(sealed.token_key_id) ? "Unreadable" : "KeyUnknown" } satisfies Attempt
    }
    const push = {
      delivery_id,
      topic,
      token: token.value,
      collapse_id: tokens.alias(collapse_key),
      immediate: rank(notificationKinds[kind].priority) >= rank("high"),
      expires_at
    }
    if (environment === "channel") {
      const kind = delivery.provider as ChannelKind
      const message = messageOf(delivery, baseUrl)
      const answer = yield* channels.send({ delivery_id, token: token.value, kind, message })
      return { _tag: "Answered", answer } satisfies Attempt
    }
    const answer = yield* environment === "web"
      ? browsers.send({ ...push, payload: browserPayload(delivery, baseUrl) })
      : provider.send({
          ...push,
          environment,
          payload: payload(delivery, tokens.alias(delivery.project_id).slice(0, 16))
        })
    return { _tag: "Answered", answer } satisfies Attempt
  })

  return send
})
