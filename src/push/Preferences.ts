/** What the owner of a phone wants to hear, and when (spec 4.12): the body of the preferences request and the stored row. */
import { Schema } from "effect"
import { Instant } from "../wire/Instant.ts"
import { type KindName, kindNames, kinds, type Priority, priorities } from "./Kinds.ts"

export const weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const

const TimeOfDay = Schema.String.check(Schema.isPattern(/^([01]\d|2[0-3]):[0-5]\d$/)).annotate({
  description: "HH:MM, 00:00 to 23:59"
})

/** An IANA name; offsets such as +05:00 are no zones, because they know no summer. */
const TimeZone = Schema.String.check(
  Schema.makeFilter((name: string) => /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name) && isZone(name), {
    expected: "an IANA time zone"
  })
)

/** The window belongs to the day on which it starts; `start` after `end` spans midnight. */
export const QuietHours = Schema.Struct({
  enabled: Schema.Boolean,
  start: TimeOfDay,
  end: TimeOfDay,
  time_zone: TimeZone,
  days: Schema.Array(Schema.Literals(weekdays)).check(Schema.isMaxLength(7), Schema.isUnique()),
  /** Whether urgent notifications ring all the same. */
  allow_urgent: Schema.Boolean
}).check(Schema.makeFilter(({ end, start }) => start !== end, { expected: "quiet hours that start and end apart" }))
export type QuietHours = typeof QuietHours.Type

const mandatory = kindNames.filter((name) => !kinds[name].optional)

export const Preferences = Schema.Struct({
  /** A kind that is absent follows its default. */
  kinds: Schema.Record(Schema.Literals(kindNames), Schema.optionalKey(Schema.Boolean)).check(
    Schema.makeFilter((chosen) => mandatory.every((name) => chosen[name] !== false), {
      expected: `${mandatory.join(", ")} to stay on`
    })
  ),
  minimum_priority: Schema.Literals(priorities),
  quiet_hours: Schema.NullOr(QuietHours),
  /** Nothing is delivered until then; at most 30 days ahead. */
  paused_until: Schema.NullOr(Instant)
})
export type Preferences = typeof Preferences.Type

export const initial: Preferences = { kinds: {}, minimum_priority: "low", quiet_hours: null, paused_until: null }

export const wants = (preferences: Preferences, kind: KindName): boolean =>
  (preferences.kinds[kind] ?? kinds[kind].byDefault) && rank(kinds[kind].priority) >= rank(preferences.minimum_priority)

export const rank = (priority: Priority): number => priorities.indexOf(priority)

function isZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== ""
  } catch {
    return false
  }
}
