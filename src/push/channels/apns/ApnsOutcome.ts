/** Maps an answer of APNs to an outcome (Apple, "Handling notification responses from APNs"). */
import { Duration } from "effect"
import { type Backoff, doubling, misconfigured, type Outcome, quickly } from "../Outcome.ts"

/** The answer to one request; no status when the connection or the deadline ended it. */
export interface ApnsResponse {
  readonly status: number | undefined
  /** Apple's reason, or one of ours: unreachable, refused_stream, connection_lost, timeout. */
  readonly reason: string | undefined
  /** When APNs learned that the app was removed. */
  readonly goneSince?: Date | undefined
  readonly retryAfter?: Duration.Duration | undefined
}

/** The last two are resolved within the same attempt (Apns.ts). */
export type ApnsOutcome =
  | Outcome
  /** APNs never processed the stream: send it again at once. */
  | { readonly _tag: "Unprocessed" }
  /** The provider token is too old: make a new one. If it was new, a clock is wrong. */
  | { readonly _tag: "RenewProviderToken" }

const configuration =
  /^(TopicDisallowed|MissingTopic|BadTopic|BadEnvironmentKey\w*|Invalid\w*Token|MissingProviderToken|Forbidden|BadCertificate\w*)$/

export const outcomeOf = ({ goneSince, reason = "", retryAfter, status }: ApnsResponse): ApnsOutcome => {
  const pause = (backoff: Backoff): Outcome => ({ _tag: "Pause", backoff, fault: false })
  if (status === undefined) {
    if (reason === "refused_stream") return { _tag: "Unprocessed" }
    if (reason === "unreachable") return pause(doubling("5 seconds", { max: "1 minute" }))
    return { _tag: "Retry", backoff: quickly, device: false }
  }
  if (status === 200) return { _tag: "Delivered" }
  if (status === 410) return { _tag: "Gone", since: goneSince }
  if (reason === "BadDeviceToken") return { _tag: "BadToken", ends: true }
  // A phone may register the token of another app; a topic that is not the app's meets every phone.
  if (reason === "DeviceTokenNotForTopic") return { _tag: "BadToken", ends: false }
  if (reason === "ExpiredProviderToken") return { _tag: "RenewProviderToken" }
  if (reason === "IdleTimeout") return { _tag: "Unprocessed" }
  if (configuration.test(reason) || status === 401 || status === 403) return misconfigured
  if (reason === "TooManyProviderTokenUpdates") return pause(doubling("20 minutes", { max: "20 minutes" }))
  if (status === 429) {
    return {
      _tag: "Retry",
      backoff: doubling("1 minute", { atLeast: retryAfter ?? Duration.minutes(1) }),
      device: true
    }
  }
  if (status >= 500) return pause(doubling(retryAfter ?? "15 minutes", { atLeast: retryAfter }))
  return { _tag: "Dead" }
}

/** The outcome for the worker, after Apns.ts has used up its own retries. */
export const finalOutcome = (response: ApnsResponse): Outcome => {
  const outcome = outcomeOf(response)
  if (outcome._tag === "Unprocessed") return { _tag: "Retry", backoff: quickly, device: false }
  // APNs finds even a fresh provider token too old: one of the clocks is wrong.
  return outcome._tag === "RenewProviderToken" ? misconfigured : outcome
}
