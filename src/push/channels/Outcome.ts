/**
 * What an answer of the provider means for the delivery, the device and the provider (Apple, "Handling notification
 * responses from APNs"). Pure: the worker carries it out.
 */
import { Duration } from "effect"

/** What came back for one request; no status when the connection or the deadline ended it. */
export interface Response {
  readonly status: number | undefined
  /** The provider's word, or one of ours: unreachable, refused_stream, connection_lost, timeout. */
  readonly reason: string | undefined
  /** When the provider learned that the token is gone. */
  readonly goneSince?: Date | undefined
  readonly retryAfter?: Duration.Duration | undefined
}

/** Doubles from `base` up to `most`, and lasts at least as long as the provider asked for. */
export interface Backoff {
  readonly base: Duration.Duration
  readonly most: Duration.Duration
  readonly atLeast: Duration.Duration
}

export type Outcome =
  /** Accepted by the provider; whether it was shown nobody knows. */
  | { readonly _tag: "Delivered" }
  /** The installation is gone, if it was registered before `since`. */
  | { readonly _tag: "Gone"; readonly since: Date | undefined }
  /** The token is not one of this environment; many at once mean that the environment is wrong, not the devices. */
  | { readonly _tag: "BadToken" }
  /** Try this delivery again later; with `device`, nothing else to this device before. */
  | { readonly _tag: "Retry"; readonly backoff: Backoff; readonly device: boolean }
  /** The stream was never processed: again at once. */
  | { readonly _tag: "Unprocessed" }
  /** Everything to this provider and environment waits; no attempt is counted. */
  | { readonly _tag: "Pause"; readonly backoff: Backoff; readonly fault: boolean }
  /** The provider token is too old: make a new one. If it was new, a clock is wrong. */
  | { readonly _tag: "RenewProviderToken" }
  /** Our own mistake; sending it again would change nothing. */
  | { readonly _tag: "Dead" }

export const doubling = (
  base: Duration.Input,
  { most = "1 hour", atLeast = Duration.zero }: { most?: Duration.Input; atLeast?: Duration.Duration | undefined } = {}
): Backoff => ({ base: Duration.fromInputUnsafe(base), most: Duration.fromInputUnsafe(most), atLeast })

/** Configuration is wrong and the operator has to act; a restart tries again at once. */
export const untilMended: Backoff = doubling("15 minutes")

const configuration =
  /^(DeviceTokenNotForTopic|TopicDisallowed|MissingTopic|BadTopic|BadEnvironmentKey\w*|Invalid\w*Token|MissingProviderToken|Forbidden|BadCertificate\w*)$/

export const outcomeOf = ({ goneSince, reason = "", retryAfter, status }: Response): Outcome => {
  const pause = (backoff: Backoff): Outcome => ({ _tag: "Pause", backoff, fault: false })
  if (status === undefined) {
    if (reason === "refused_stream") return { _tag: "Unprocessed" }
    if (reason === "unreachable") return pause(doubling("5 seconds", { most: "1 minute" }))
    return { _tag: "Retry", backoff: doubling("5 seconds"), device: false }
  }
  if (status === 200) return { _tag: "Delivered" }
  if (status === 410) return { _tag: "Gone", since: goneSince }
  if (reason === "BadDeviceToken") return { _tag: "BadToken" }
  if (reason === "ExpiredProviderToken") return { _tag: "RenewProviderToken" }
  if (reason === "IdleTimeout") return { _tag: "Unprocessed" }
  if (configuration.test(reason) || status === 401 || status === 403)
    return { _tag: "Pause", backoff: untilMended, fault: true }
  if (reason === "TooManyProviderTokenUpdates") return pause(doubling("20 minutes", { most: "20 minutes" }))
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
