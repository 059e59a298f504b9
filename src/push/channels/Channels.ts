/** Posts to ntfy and webhooks. Every failure concerns one target: none pauses the lane. */
import { Duration, Effect } from "effect"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { makePost, type PostAnswer } from "../../platform/network/GuardedPost.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { isAllowedTarget, ofToken } from "../Channel.ts"
import { ntfyRequest } from "./ntfy/ntfy.ts"
import { doubling, misconfigured, type Outcome, quickly } from "./Outcome.ts"
import { type Answer, ChannelPush, type ToChannel } from "./Provider.ts"
import { webhookRequest } from "./webhook/webhook.ts"

export const makeChannelPush = Effect.gen(function* () {
  const { push } = yield* Settings
  const clock = yield* DatabaseClock
  const post = yield* makePost((host) => push.channelPrivateHosts.has(host))

  const send = Effect.fnUntraced(function* ({ delivery_id, kind, message, token }: ToChannel) {
    const { secrets, url } = ofToken(token)
    if (!isAllowedTarget(url, push.channelPrivateHosts)) return notAllowed
    const now = yield* Effect.orDie(clock.now)
    const { body, headers } =
      kind === "ntfy" ? ntfyRequest(message, secrets) : webhookRequest(message, secrets, delivery_id, now)
    const answer = yield* post(new URL(url), headers, body)
    return { status: answer.status ?? null, reason: reasonOf(answer), outcome: outcomeOf(answer) } satisfies Answer
  })

  return ChannelPush.of({ send })
})

/** The host was taken from the settings. */
const notAllowed: Answer = {
  status: null,
  reason: "target_not_allowed",
  outcome: { _tag: "Retry", backoff: misconfigured.backoff, device: true }
}

/** A receiver's own words stay out of rows and logs; the status says enough. */
const reasonOf = ({ status }: PostAnswer) => {
  if (status === undefined) return "unreachable"
  if (status >= 200 && status < 300) return null
  if (status === 410) return "target_gone"
  return status === 429 ? "too_many_requests" : "refused"
}

export const outcomeOf = ({ retryAfter, status }: PostAnswer): Outcome => {
  if (status === undefined) return { _tag: "Retry", backoff: quickly, device: true }
  if (status >= 200 && status < 300) return { _tag: "Delivered" }
  if (status === 410) return { _tag: "Gone", since: undefined }
  if (status === 429 || status >= 500) {
    const atLeast = Duration.max(retryAfter ?? Duration.zero, Duration.seconds(status === 429 ? 60 : 5))
    return { _tag: "Retry", backoff: doubling("1 minute", { atLeast }), device: true }
  }
  // A redirect is not followed: it would lead to an address that nobody allowed.
  return { _tag: "Dead" }
}
