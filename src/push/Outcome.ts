/**
 * What an answer of the provider means for the delivery, the device and the provider (APNs, "Handling notification
 * responses"). Pure: the worker carries it out.
 */
import { Duration } from "effect"

/** What came back for one request; no status when the connection or the deadline ended it. */
export interface Response {
  readonly status: number | undefined
  readonly reason: string | undefined
  /** When the provider learned that the token is gone. */
  readonly goneSince?: Date | undefined
  readonly retryAfter?: Duration.Duration | undefined
}

export type Outcome =
  /** Accepted by the provider; whether it was shown nobody knows. */
  | { readonly _tag: "Delivered" }
  /** The installation is gone, if it was registered before `since`. */
  | { readonly _tag: "Gone"; readonly since: Date | undefined }
  /** The token is not one of this environment; many at once mean that the environment is wrong, not the devices. */
  | { readonly _tag: "BadToken" }
  /** Try this delivery again later, doubling from `base`. */
  | { readonly _tag: "Retry"; readonly base: Duration.Duration; readonly after?: Duration.Duration | undefined }
  /** The stream was never processed: again at once, and it counts for nothing. */
  | { readonly _tag: "Unprocessed" }
  /** Everything to this provider and environment waits; no attempt is counted. */
  | { readonly _tag: "Pause"; readonly base: Duration.Duration; readonly after?: Duration.Duration | undefined }
  /** Configuration is wrong: the operator has to act. */
  | { readonly _tag: "Misconfigured" }
  /** The provider token is too old: make a new one. */
  | { readonly _tag: "RenewProviderToken" }
  /** Our own mistake; sending it again would change nothing. */
  | { readonly _tag: "Dead" }

const misconfigured =
  /^(DeviceTokenNotForTopic|TopicDisallowed|MissingTopic|BadTopic|Bad.*InToken|InvalidProviderToken|MissingProviderToken|Forbidden|BadCertificate.*)$/

export const outcomeOf = ({ goneSince, reason = "", retryAfter, status }: Response): Outcome => {
  if (status === undefined) {
    return reason === "refused_stream" || reason === "goaway"
      ? { _tag: "Unprocessed" }
      : { _tag: "Retry", base: Duration.seconds(5) }
  }
  if (status === 200) return { _tag: "Delivered" }
  if (status === 410) return { _tag: "Gone", since: goneSince }
  if (reason === "BadDeviceToken") return { _tag: "BadToken" }
  if (reason === "ExpiredProviderToken") return { _tag: "RenewProviderToken" }
  if (misconfigured.test(reason) || status === 401 || status === 403) return { _tag: "Misconfigured" }
  if (reason === "IdleTimeout") return { _tag: "Unprocessed" }
  if (reason === "TooManyProviderTokenUpdates") return { _tag: "Pause", base: Duration.minutes(20) }
  if (status === 429) return { _tag: "Retry", base: Duration.minutes(1), after: retryAfter }
  if (status >= 500) return { _tag: "Pause", base: Duration.minutes(15), after: retryAfter }
  return { _tag: "Dead" }
}
