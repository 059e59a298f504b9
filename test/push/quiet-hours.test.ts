/** Quiet hours compared with a minute-by-minute oracle, in many zones and around changes of the clock. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { quietUntil } from "../../src/push/delivery/QuietHours.ts"
import { QuietHours, weekdays } from "../../src/wire/mobile/Notifications.ts"

const minute = 60_000

/** Uses no arithmetic of ours: it formats one minute after another on the zone's wall clock. */
const oracle = (quiet: QuietHours) => {
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone: quiet.time_zone,
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23"
  })
  const isQuiet = (at: number) => {
    const [, weekday = "", time = ""] = /^(\w+),? (\d\d:\d\d)$/.exec(format.format(at)) ?? []
    const today = weekdays.indexOf(weekday.toLowerCase() as "mon")
    const on = (day: number) => quiet.days.includes(weekdays[(day + 7) % 7]!)
    // HH:MM compares as text.
    return quiet.start < quiet.end
      ? on(today) && quiet.start <= time && time < quiet.end
      : (on(today) && quiet.start <= time) || (on(today - 1) && time < quiet.end)
  }
  return (instant: Date) => {
    if (!isQuiet(instant.getTime())) return undefined
    let at = Math.floor(instant.getTime() / minute) * minute
    while (isQuiet(at)) at += minute
    return new Date(at)
  }
}

/** Ordinary zones, changes by half an hour and at midnight, half-hour and quarter-hour offsets, both hemispheres. */
const zones = [
  "Europe/Madrid", "Europe/London", "Europe/Dublin", "America/New_York", "America/Los_Angeles", "America/St_Johns",
  "America/Havana", "America/Santiago", "America/Sao_Paulo", "America/Nuuk", "Africa/Cairo", "Africa/Casablanca",
  "Asia/Beirut", "Asia/Gaza", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "Australia/Sydney",
  "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Auckland", "Pacific/Kiritimati", "Antarctica/Troll", "Etc/UTC"
] // prettier-ignore

/** When the zone's clock changes in 2026 and 2027, in milliseconds. */
const changes = (zone: string) => {
  const offset = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" })
  const of = (at: number) => offset.formatToParts(at).find(({ type }) => type === "timeZoneName")!.value
  const found: Array<number> = []
  const hour = 3_600_000
  let before = of(Date.UTC(2026, 0, 1))
  for (let at = Date.UTC(2026, 0, 1); at < Date.UTC(2028, 0, 1); at += hour) {
    const now = of(at)
    if (now !== before) found.push(at)
    before = now
  }
  return found
}
const changesOf = new Map(zones.map((zone) => [zone, changes(zone)]))

const time = fc
  .integer({ min: 0, max: 1439 })
  .map((at) => `${String(Math.floor(at / 60)).padStart(2, "0")}:${String(at % 60).padStart(2, "0")}`)

const cases = fc
  .record({
    zone: fc.constantFrom(...zones),
    start: time,
    end: time,
    days: fc.subarray([...weekdays]),
    allDays: fc.boolean(),
    /** Within two years, in milliseconds. */
    somewhere: fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2028, 0, 1) }),
    nearChange: fc.boolean(),
    which: fc.nat(),
    off: fc.integer({ min: -24 * 60 * minute, max: 24 * 60 * minute })
  })
  .filter(({ end, start }) => start !== end)

describe("quiet hours", () => {
  it("agree with the oracle in 10,000 cases", { timeout: 120_000 }, () => {
    let quietCases = 0
    let nearChanges = 0
    fc.assert(
      fc.property(cases, ({ allDays, days, end, nearChange, off, somewhere, start, which, zone }) => {
        const around = changesOf.get(zone)!
        const near = nearChange && around.length > 0
        const instant = new Date(near ? around[which % around.length]! + off : somewhere)
        const quiet: QuietHours = {
          enabled: true,
          start,
          end,
          time_zone: zone,
          days: allDays ? [...weekdays] : days,
          allow_urgent: false
        }
        const expected = oracle(quiet)(instant)
        if (expected !== undefined) quietCases++
        if (near) nearChanges++
        assert.deepStrictEqual(quietUntil(quiet, instant), expected)
      }),
      { numRuns: 10_000 }
    )
    assert.isAbove(quietCases, 2000)
    assert.isAbove(nearChanges, 2000)
  })

  it("end on the wall clock when the night is an hour longer", () => {
    const night = { start: "22:00", end: "07:00", days: [...weekdays], allow_urgent: false, enabled: true }
    const quiet = { ...night, time_zone: "America/New_York" }
    assert.deepStrictEqual(quietUntil(quiet, new Date("2026-11-01T03:00:00Z")), new Date("2026-11-01T12:00:00Z"))
  })

  const decode = Schema.decodeUnknownResult(QuietHours)
  const given = { enabled: true, start: "22:00", end: "07:00", days: ["mon"], allow_urgent: true }

  it("store the canonical name of a zone", () => {
    const decoded = decode({ ...given, time_zone: "europe/madrid" })
    assert.strictEqual(decoded._tag === "Success" ? decoded.success.time_zone : "", "Europe/Madrid")
  })

  for (const time_zone of ["Mars/Olympus", "+05:00", "", "UTC+1", "Europe/Madrid\0", "x".repeat(100)]) {
    it(`refuse ${JSON.stringify(time_zone).slice(0, 20)} as a zone`, () => {
      assert.strictEqual(decode({ ...given, time_zone })._tag, "Failure")
    })
  }

  it("must not end when they start", () => {
    assert.strictEqual(decode({ ...given, time_zone: "Etc/UTC", end: "22:00" })._tag, "Failure")
  })
})
