/** The effect of a provider's answer on the delivery, its device and its push environment, the same for any provider. */
import { Duration } from "effect"

export type Outcome =
  /** Accepted by the provider; whether the phone showed it is unknown. */
  | { readonly _tag: "Delivered" }
  /** The app was removed from the phone, unless the token was registered after `since`. */
  | { readonly _tag: "Gone"; readonly since: Date | undefined }
  /**
   * The provider refuses the token, either because the phone has not the app (`ends`) or because it is another app's. It
   * is the configuration's fault if the provider accepts no token.
   */
  | { readonly _tag: "BadToken"; readonly ends: boolean }
  /** Retry this delivery later; with `device`, send nothing else to the device before that. */
  | { readonly _tag: "Retry"; readonly backoff: Backoff; readonly device: boolean }
  /** Pause the whole environment; no attempt is counted. `fault`: only the operator can fix the cause. */
  | { readonly _tag: "Pause"; readonly backoff: Backoff; readonly fault: boolean }
  /** Our own mistake: sending it again would not help. */
  | { readonly _tag: "Dead" }

/** Doubles from `base` up to `max`; never shorter than `atLeast`, which the provider asked for. */
export interface Backoff {
  readonly base: Duration.Duration
  readonly max: Duration.Duration
  readonly atLeast: Duration.Duration
}

export const doubling = (
  base: Duration.Input,
  { max = "1 hour", atLeast = Duration.zero }: { max?: Duration.Input; atLeast?: Duration.Duration | undefined } = {}
): Backoff => ({ base: Duration.fromInputUnsafe(base), max: Duration.fromInputUnsafe(max), atLeast })

/** For a lost connection or answer. */
export const quickly = doubling("5 seconds")

/** For a wrong configuration: the operator has to fix it, and a restart retries at once. */
export const misconfigured: Outcome & { readonly _tag: "Pause" } = {
  _tag: "Pause",
  backoff: doubling("15 minutes"),
  fault: true
}
