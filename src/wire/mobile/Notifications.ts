/**
 * Notifications as the owner of a phone meets them (spec 4.12, 6.3): the kinds, and what may be said about them.
 *
 * A payload carries no text of the project: the app holds the sentences, the payload names one of them.
 */
import { Duration, Schema, SchemaGetter } from "effect"
import { Instant } from "../Instant.ts"

export const environments = ["production", "development"] as const
export type Environment = (typeof environments)[number]

/** The app's bundle id, which is what APNs calls a topic. */
export const isTopic = (text: string): boolean => /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,198}[A-Za-z0-9])?$/.test(text)

export const priorities = ["low", "normal", "high", "urgent"] as const
export type Priority = (typeof priorities)[number]
/** 0 low to 3 urgent. */
export const rank = (priority: Priority): number => priorities.indexOf(priority)

export interface Kind {
  /** Whether it is on for a device that says nothing about it. */
  readonly byDefault: boolean
  /** Whether its owner may switch it off. */
  readonly optional: boolean
  readonly priority: Priority
  /** How long it is worth delivering. */
  readonly lasts: Duration.Duration
  /** Of those with this letter about one subject only the latest matters. */
  readonly collapse: string
  readonly category: "TASK" | "BRIDGE" | "SECURITY"
}

const kind = (
  priority: Priority,
  hours: number,
  collapse: string,
  category: Kind["category"],
  given: { readonly byDefault?: boolean; readonly optional?: boolean } = {}
): Kind => ({ byDefault: true, optional: true, priority, lasts: Duration.hours(hours), collapse, category, ...given })

export const kinds = {
  /** A task entered blocked, and not for a decision. */
  "task.blocked": kind("high", 24, "t", "TASK"),
  /** A task waits for a person's decision. */
  "task.needs_decision": kind("urgent", 24, "t", "TASK"),
  "task.completed": kind("low", 6, "t", "TASK", { byDefault: false }),
  "bridge.enrolled": kind("high", 72, "b", "BRIDGE"),
  "bridge.revoked": kind("urgent", 72, "b", "BRIDGE"),
  /** A rotation ended without confirmation: its window passed, or its predecessor was revoked meanwhile. */
  "bridge.rotation_failed": kind("high", 24, "b", "BRIDGE"),
  /** To the other devices of the same owner. */
  "security.device_added": kind("urgent", 72, "d", "SECURITY", { optional: false }),
  "security.client_authorized": kind("high", 72, "c", "SECURITY")
} as const satisfies Record<string, Kind>

export type KindName = keyof typeof kinds
export const kindNames = Object.keys(kinds) as ReadonlyArray<KindName>

export const weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const

const TimeOfDay = Schema.String.check(Schema.isPattern(/^([01]\d|2[0-3]):[0-5]\d$/)).annotate({
  description: "HH:MM, 00:00 to 23:59"
})

/** Kept by its canonical name, so that one zone is one string. Offsets such as +05:00 are no zones: they know no summer. */
const TimeZone = Schema.String.check(
  Schema.makeFilter((name: string) => canonical(name) !== undefined, { expected: "an IANA time zone" })
).pipe(
  Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform((name: string) => canonical(name)!),
    encode: SchemaGetter.passthrough()
  }),
  Schema.annotate({ description: "IANA time zone, e.g. Europe/Madrid" })
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

/** A kind that is absent follows its default; one that is not optional may only be said to be on. */
const Kinds = Schema.Struct({
  "task.blocked": Schema.optionalKey(Schema.Boolean),
  "task.needs_decision": Schema.optionalKey(Schema.Boolean),
  "task.completed": Schema.optionalKey(Schema.Boolean),
  "bridge.enrolled": Schema.optionalKey(Schema.Boolean),
  "bridge.revoked": Schema.optionalKey(Schema.Boolean),
  "bridge.rotation_failed": Schema.optionalKey(Schema.Boolean),
  "security.device_added": Schema.optionalKey(Schema.Literal(true)),
  "security.client_authorized": Schema.optionalKey(Schema.Boolean)
} satisfies Record<KindName, unknown>)

/** The whole document: what a PUT replaces. */
export const Preferences = Schema.Struct({
  kinds: Kinds,
  minimum_priority: Schema.Literals(priorities),
  quiet_hours: Schema.NullOr(QuietHours),
  /** Nothing is delivered until then; at most 30 days ahead. */
  paused_until: Schema.NullOr(Instant)
}).annotate({ identifier: "NotificationPreferences" })
export type Preferences = typeof Preferences.Type

/** As they are stored. */
export const asJson = (preferences: Preferences): string => JSON.stringify(Schema.encodeSync(Preferences)(preferences))

export const initialPreferences: Preferences = {
  kinds: {},
  minimum_priority: "low",
  quiet_hours: null,
  paused_until: null
}

/** Whether it is wanted at all; when it may ring is another question. */
export const wants = (preferences: Preferences, name: KindName): boolean =>
  !kinds[name].optional ||
  ((preferences.kinds[name] ?? kinds[name].byDefault) &&
    rank(kinds[name].priority) >= rank(preferences.minimum_priority))

function canonical(name: string): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return undefined
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone
  } catch {
    return undefined
  }
}
