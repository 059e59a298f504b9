/** Quiet hours on the wall clock of the owner's time zone, across changes to and from summer time. */
import { type QuietHours, weekdays } from "../../wire/mobile/Notifications.ts"

const minute = 60_000
const day = 24 * 60

/** When the quiet hours around `instant` end; undefined if `instant` is not within quiet hours. */
export const quietUntil = (quiet: QuietHours, instant: Date): Date | undefined => {
  const isQuiet = within(quiet)
  const now = localTime(quiet.time_zone, instant)
  if (!isQuiet(now)) return undefined
  const thisMinute = Math.floor(instant.getTime() / minute) * minute
  const minutesLeft = (minutes(quiet.end) - now.minute + day) % day
  const end = new Date(thisMinute + minutesLeft * minute)
  if (localTime(quiet.time_zone, end).minute === minutes(quiet.end)) return end
  // The clock changes before the end: walk to the first minute that is not quiet.
  for (let at = thisMinute + minute; ; at += minute) {
    const candidate = new Date(at)
    if (!isQuiet(localTime(quiet.time_zone, candidate))) return candidate
  }
}

interface LocalTime {
  /** 0 Monday to 6 Sunday. */
  readonly weekday: number
  /** Minutes since midnight. */
  readonly minute: number
}

const within =
  ({ days, end, start }: QuietHours) =>
  ({ minute: now, weekday }: LocalTime): boolean => {
    const [from, to] = [minutes(start), minutes(end)]
    const on = (index: number) => days.includes(weekdays[(index + 7) % 7]!)
    if (from < to) return on(weekday) && now >= from && now < to
    return (on(weekday) && now >= from) || (on(weekday - 1) && now < to)
  }

const minutes = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

const localTime = (zone: string, instant: Date): LocalTime => {
  const parts = Object.fromEntries(
    formatOf(zone)
      .formatToParts(instant)
      .map(({ type, value }) => [type, value])
  )
  return {
    weekday: weekdays.indexOf(parts["weekday"]!.toLowerCase() as (typeof weekdays)[number]),
    minute: Number(parts["hour"]) * 60 + Number(parts["minute"])
  }
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** Cached, since creating a formatter takes a thousand times as long as using it. There are fewer than 1,000 zones. */
const formatOf = (zone: string) => {
  const known = formats.get(zone)
  if (known !== undefined) return known
  const made = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23"
  })
  formats.set(zone, made)
  return made
}
