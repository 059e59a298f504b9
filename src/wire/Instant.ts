/** Points in time. Inside the service a `Date`; on the wire RFC 3339 with an explicit offset and milliseconds. */
import { Duration, Schema } from "effect"

export const Instant = Schema.DateFromString.annotate({
  identifier: "Instant",
  description: "RFC 3339 timestamp with offset, e.g. 2026-11-21T12:00:00.000Z"
})

export const after = (instant: Date, duration: Duration.Duration): Date =>
  new Date(instant.getTime() + Duration.toMillis(duration))

/** Equality counts as passed: what expires at an instant is over at that instant. */
export const hasPassed = (expiry: Date, now: Date): boolean => expiry.getTime() <= now.getTime()

/** Whole seconds until `instant`, at least one: the value of a Retry-After header. */
export const secondsUntil = (instant: Date, now: Date): number =>
  Math.max(1, Math.ceil((instant.getTime() - now.getTime()) / 1000))
