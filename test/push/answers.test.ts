/** When a notification is tried again, by the answer of who received it. */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { outcomeOf as ofApns } from "../../src/push/channels/apns/ApnsOutcome.ts"
import { outcomeOf as ofChannel } from "../../src/push/channels/Channels.ts"
import { outcomeOf as ofWebPush } from "../../src/push/channels/webpush/WebPushOutcome.ts"

/** Who answers, the status, Retry-After; then the seconds to wait at least, and those that are doubled each time. */
const rows = [
  ["a channel", undefined, undefined, 0, 5],
  ["a channel", 429, undefined, 60, 60],
  ["a channel", 429, 10, 60, 60],
  ["a channel", 429, 90, 90, 60],
  ["a channel", 500, undefined, 5, 60],
  ["a channel", 503, 90, 90, 60],
  ["a push service", undefined, undefined, 0, 5],
  ["a push service", 401, undefined, 0, 900],
  ["a push service", 403, undefined, 0, 900],
  ["a push service", 429, undefined, 60, 60],
  ["a push service", 429, 10, 10, 60],
  ["a push service", 500, undefined, 0, 60],
  ["a push service", 503, 90, 90, 90],
  ["APNs", undefined, undefined, 0, 5],
  ["APNs", 429, undefined, 60, 60],
  ["APNs", 429, 10, 10, 60],
  ["APNs", 500, undefined, 0, 900],
  ["APNs", 503, 7, 7, 7]
] as const

const outcomes = { "a channel": ofChannel, "a push service": ofWebPush, APNs: ofApns }

describe("a notification", () => {
  it.each(rows)("that %s answered with %s and Retry-After %s waits %s s, and %s s more or less", (...row) => {
    const [who, status, seconds, atLeast, base] = row
    const retryAfter = seconds === undefined ? undefined : Duration.seconds(seconds)
    const outcome = outcomes[who]({ status, retryAfter, reason: undefined })
    assert.include(["Retry", "Pause"], outcome._tag)
    if (!("backoff" in outcome)) return
    assert.deepStrictEqual([outcome.backoff.atLeast, outcome.backoff.base].map(Duration.toSeconds), [atLeast, base])
  })
})
