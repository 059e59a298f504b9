/** Maps an answer of a push service to an outcome (RFC 8030 5, 7, 8; RFC 8292 4). */
import { Duration } from "effect"
import type { PostAnswer } from "../../../platform/network/GuardedPost.ts"
import { doubling, misconfigured, type Outcome, quickly } from "../Outcome.ts"

export const outcomeOf = ({ retryAfter, status }: PostAnswer): Outcome => {
  if (status === undefined) return { _tag: "Retry", backoff: quickly, device: true }
  if (status >= 200 && status < 300) return { _tag: "Delivered" }
  if (status === 404 || status === 410) return { _tag: "Gone", since: undefined }
  // The subscription was made for another key, or the clock is wrong: the next message fails as well.
  if (status === 401 || status === 403) return { _tag: "Retry", backoff: misconfigured.backoff, device: true }
  if (status === 429) {
    return {
      _tag: "Retry",
      backoff: doubling("1 minute", { atLeast: retryAfter ?? Duration.minutes(1) }),
      device: true
    }
  }
  if (status >= 500) {
    return { _tag: "Retry", backoff: doubling(retryAfter ?? "1 minute", { atLeast: retryAfter }), device: true }
  }
  // A redirect is not followed: it would lead to an address that nobody allowed.
  return { _tag: "Dead" }
}
