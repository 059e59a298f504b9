/**
 * The kinds of notifications, and the preferences of a phone's owner about them (spec 4.12, 6.3).
 *
 * To add a kind: a row in `notificationKinds`, its words for browsers in people/console/app/Words.ts, the change that
 * raises it, and a row in docs/protocol.md. Preferences, payloads and their tests follow from the table; the app contains
 * its sentences.
 */
import { Duration, Schema, SchemaGetter } from "effect"
import { Instant } from "../Instant.ts"

export const environments = ["production", "development"] as const
export type Environment = (typeof environments)[number]

/** What a replica delivers one after another: a push environment of APNs, web push, or the channels of projects. */
export const lanes = [...environments, "web", "channel"] as const
export type Lane = (typeof lanes)[number]

/** In these lanes each device is a server of its own, which may be slow or dead: it never pauses the others. */
export const isOfTargets = (lane: Lane): lane is "web" | "channel" => lane === "web" || lane === "channel"

/** APNs calls the app's bundle id its topic. */
export const isTopic = (text: string): boolean => /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,198}[A-Za-z0-9])?$/.test(text)

export const priorities = ["low", "normal", "high", "urgent"] as const
export type Priority = (typeof priorities)[number]
/** 0 low to 3 urgent. */
export const rank = (priority: Priority): number => priorities.indexOf(priority)

export interface NotificationPolicy {
  /** Whether it is on for a device whose preferences do not mention it. */
  readonly byDefault: boolean
  /** Whether its owner may switch it off. */
  readonly optional: boolean
  readonly priority: Priority
  /** How long after the event it may be delivered. */
  readonly lasts: Duration.Duration
  /** Among notifications with the same letter and subject, a newer one replaces an older one. */
  readonly collapse: string
  readonly category: "TASK" | "BRIDGE" | "SECURITY" | "DEVICE"
}

const kind = (
  priority: Priority,
  hours: number,
  collapse: string,
  category: NotificationPolicy["category"],
  given: { readonly byDefault?: boolean; readonly optional?: boolean } = {}
): NotificationPolicy => ({
  byDefault: true,
  optional: true,
  priority,
  lasts: Duration.hours(hours),
  collapse,
  category,
  ...given
})

export const notificationKinds = {
  /** A task became blocked for another reason than a decision. */
  "task.blocked": kind("high", 24, "t", "TASK"),
  /** A task became blocked until a person decides. */
  "task.needs_decision": kind("urgent", 24, "t", "TASK"),
  "task.completed": kind("low", 6, "t", "TASK", { byDefault: false }),
  "bridge.enrolled": kind("high", 72, "b", "BRIDGE"),
  "bridge.revoked": kind("urgent", 72, "b", "BRIDGE"),
  /** A rotation ended unconfirmed: its window passed, or its predecessor was revoked. */
  "bridge.rotation_failed": kind("high", 24, "b", "BRIDGE"),
  /** To the other devices of the same owner. */
  "security.device_added": kind("urgent", 72, "d", "SECURITY", { optional: false }),
  "security.client_authorized": kind("high", 72, "c", "SECURITY"),
  /** To the device whose owner asked for it; quiet hours and pauses do not hold it. */
  "device.test": kind("urgent", 1, "x", "DEVICE", { optional: false })
} as const satisfies Record<string, NotificationPolicy>

export type NotificationKind = keyof typeof notificationKinds
export const notificationKindNames = Object.keys(notificationKinds) as ReadonlyArray<NotificationKind>

export const weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const

const TimeOfDay = Schema.String.check(Schema.isPattern(/^([01]\d|2[0-3]):[0-5]\d$/)).annotate({
  description: "HH:MM, 00:00 to 23:59"
})

/** Stored by its canonical name. Offsets such as +05:00 are refused: they do not follow summer time. */
const TimeZone = Schema.String.check(
  Schema.makeFilter((name: string) => canonical(name) !== undefined, { expected: "an IANA time zone" })
).pipe(
  Schema.decodeTo(Schema.String, {
    decode: SchemaGetter.transform((name: string) => canonical(name)!),
    encode: SchemaGetter.passthrough()
  }),
  Schema.annotate({ description: "IANA time zone, e.g. Europe/Madrid" })
)

/** `days`: the days on which the window starts; with `start` after `end` it spans midnight. */
export const QuietHours = Schema.Struct({
  enabled: Schema.Boolean,
  start: TimeOfDay,
  end: TimeOfDay,
  time_zone: TimeZone,
  days: Schema.Array(Schema.Literals(weekdays)).check(Schema.isMaxLength(7), Schema.isUnique()),
  /** Whether urgent notifications are delivered anyway. */
  allow_urgent: Schema.Boolean
}).check(Schema.makeFilter(({ end, start }) => start !== end, { expected: "quiet hours that start and end apart" }))
export type QuietHours = typeof QuietHours.Type

/** A kind that is absent follows its default; a kind that is not optional can only be `true`. */
const switchOf = (name: NotificationKind) =>
  Schema.optionalKey<Schema.Codec<boolean>>(notificationKinds[name].optional ? Schema.Boolean : Schema.Literal(true))
const KindSwitches = Schema.Struct(
  Object.fromEntries(notificationKindNames.map((name) => [name, switchOf(name)])) as Readonly<
    Record<NotificationKind, ReturnType<typeof switchOf>>
  >
)

/** The whole document: a PUT replaces all of it. */
export const Preferences = Schema.Struct({
  kinds: KindSwitches,
  minimum_priority: Schema.Literals(priorities),
  quiet_hours: Schema.NullOr(QuietHours),
  /** Nothing is delivered until then; at most 30 days ahead. */
  paused_until: Schema.NullOr(Instant)
}).annotate({ identifier: "NotificationPreferences" })
export type Preferences = typeof Preferences.Type

/** The stored form: wire JSON. */
export const asJson = (preferences: Preferences): string => JSON.stringify(Schema.encodeSync(Preferences)(preferences))

export const initialPreferences: Preferences = {
  kinds: {},
  minimum_priority: "low",
  quiet_hours: null,
  paused_until: null
}

/** Channels of a project are told what concerns tasks, and tests (spec 6.1). */
export const isForChannels = (name: NotificationKind): boolean =>
  notificationKinds[name].category === "TASK" || notificationKinds[name].category === "DEVICE"

/** Whether the kind is wanted at all; quiet hours and pauses are checked separately. */
export const wants = (preferences: Preferences, name: NotificationKind): boolean => {
  const { byDefault, optional, priority } = notificationKinds[name]
  const isOn = (preferences.kinds[name] ?? byDefault) && rank(priority) >= rank(preferences.minimum_priority)
  return !optional || isOn
}

function canonical(name: string): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return undefined
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone
  } catch {
    return undefined
  }
}
