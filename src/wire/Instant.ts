/** A point in time: a `Date` in the service; RFC 3339 with an explicit offset and milliseconds on the wire. */
import { Duration, Schema } from "effect"

export const Instant = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/),
  Schema.makeFilter((time: string) => isDay(time.slice(0, 10)) && !Number.isNaN(Date.parse(time)), {
    expected: "a time since 1970"
  })
).pipe(
  Schema.decodeTo(Schema.DateFromString),
  Schema.annotate({
    identifier: "Instant",
    description: "RFC 3339 timestamp with offset, e.g. 2026-11-21T12:00:00.000Z"
  })
)

/** `Date.parse` alone would accept 30 February, as a day in March. */
const isDay = (day: string) => {
  const date = new Date(`${day}T00:00:00Z`)
  return date.getTime() >= 0 && date.toISOString().startsWith(day)
}

export const after = (instant: Date, duration: Duration.Duration): Date =>
  new Date(instant.getTime() + Duration.toMillis(duration))

/** True at the instant itself: a row is expired from `expiry` on. */
export const hasPassed = (expiry: Date, now: Date): boolean => expiry.getTime() <= now.getTime()

/** Whole seconds until `instant`, at least one: the value of a Retry-After header. */
export const secondsUntil = (instant: Date, now: Date): number =>
  Math.max(1, Math.ceil((instant.getTime() - now.getTime()) / 1000))
