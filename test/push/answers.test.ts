/** What is sent to whom, and when it is tried again, by the answer of who received it. */
import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { outcomeOf as ofApns } from "../../src/push/channels/apns/ApnsOutcome.ts"
import { outcomeOf as ofChannel } from "../../src/push/channels/Channels.ts"
import { ntfyRequest } from "../../src/push/channels/ntfy/ntfy.ts"
import { outcomeOf as ofWebPush } from "../../src/push/channels/webpush/WebPushOutcome.ts"
import { eligibilityOf } from "../../src/push/delivery/Eligibility.ts"
import { messageOf } from "../../src/push/delivery/Payload.ts"
import { isAllowedEndpoint } from "../../src/push/Subscription.ts"
import { initialPreferences, type Lane, type NotificationKind } from "../../src/wire/mobile/Notifications.ts"

/** Who answers, the status, Retry-After; then the seconds to wait at least, and those that are doubled each time. */
const rows = [
  ["a channel", undefined, undefined, 0, 5],
  ["a channel", 429, undefined, 60, 60],
  ["a channel", 429, 10, 60, 60],
  ["a channel", 429, 90, 90, 60],
  ["a channel", 500, undefined, 5, 60],
  ["a channel", 503, 90, 90, 60],
  ["a push service", undefined, undefined, 0, 5],
  ["a push service", 401, undefined, 0, 900],
  ["a push service", 403, undefined, 0, 900],
  ["a push service", 429, undefined, 60, 60],
  ["a push service", 429, 10, 10, 60],
  ["a push service", 500, undefined, 0, 60],
  ["a push service", 503, 90, 90, 90],
  ["APNs", undefined, undefined, 0, 5],
  ["APNs", 429, undefined, 60, 60],
  ["APNs", 429, 10, 10, 60],
  ["APNs", 500, undefined, 0, 900],
  ["APNs", 503, 7, 7, 7]
] as const

const outcomes = { "a channel": ofChannel, "a push service": ofWebPush, APNs: ofApns }

describe("a notification", () => {
  it.each(rows)("that %s answered with %s and Retry-After %s waits %s s, and %s s more or less", (...row) => {
    const [who, status, seconds, atLeast, base] = row
    const retryAfter = seconds === undefined ? undefined : Duration.seconds(seconds)
    const outcome = outcomes[who]({ status, retryAfter, reason: undefined })
    assert.include(["Retry", "Pause"], outcome._tag)
    if (!("backoff" in outcome)) return
    assert.deepStrictEqual([outcome.backoff.atLeast, outcome.backoff.base].map(Duration.toSeconds), [atLeast, base])
  })

  it.each([
    ["a channel", 200, "Delivered"],
    ["a channel", 299, "Delivered"],
    ["a channel", 300, "Dead"],
    ["a channel", 404, "Dead"],
    ["a channel", 410, "Gone"],
    ["a channel", 499, "Dead"],
    ["a push service", 201, "Delivered"],
    ["a push service", 307, "Dead"],
    ["a push service", 404, "Gone"],
    ["a push service", 410, "Gone"],
    ["a push service", 413, "Dead"]
  ] as const)("that %s answered with %s is: %s", (who, status, tag) => {
    assert.strictEqual(outcomes[who]({ status, retryAfter: undefined })._tag, tag)
  })

  const now = new Date("2026-06-01T12:00:00Z")
  const night = { start: "11:00", end: "13:00", time_zone: "Etc/UTC", days: ["mon"] as const }
  const quiet_hours = { ...night, enabled: true, allow_urgent: false }
  const butUrgent = { ...quiet_hours, allow_urgent: true }
  const later = new Date(now.getTime() + 1)
  const delivery = {
    state: "active",
    authorized: true,
    kind: "task.blocked" as NotificationKind,
    preferences: initialPreferences
  } as const
  const urgent = { kind: "task.needs_decision" } as const
  type Given = Partial<Parameters<typeof eligibilityOf>[0]>
  const wishing = (changed: Partial<typeof initialPreferences>) => ({
    preferences: { ...initialPreferences, ...changed }
  })
  it.each<[what: string, decision: string, given: Given, lane?: Lane]>([
    ["to an active device", "Send", {}],
    ["to a revoked device", "device_revoked", { state: "revoked", authorized: false }],
    ["to a device that is gone", "device_inactive", { state: "inactive" }],
    ["to a device whose sign-in has ended", "not_authorized", { authorized: false }],
    ["about a Bridge to a channel", "not_wanted", { kind: "bridge.enrolled" }, "channel"],
    ["about a Bridge to a browser", "Send", { kind: "bridge.enrolled" }, "web"],
    ["of a kind that is off", "not_wanted", wishing({ kinds: { "task.blocked": false } })],
    ["that matters too little", "not_wanted", wishing({ minimum_priority: "urgent" })],
    ["in a pause", "paused", wishing({ paused_until: later, quiet_hours })],
    ["at the end of a pause", "Send", wishing({ paused_until: now })],
    ["in quiet hours", "quiet_hours", wishing({ quiet_hours })],
    ["in quiet hours that are off", "Send", wishing({ quiet_hours: { ...quiet_hours, enabled: false } })],
    ["in quiet hours but for urgent ones", "quiet_hours", wishing({ quiet_hours: butUrgent })],
    ["urgent, in quiet hours but for such", "Send", { ...urgent, ...wishing({ quiet_hours: butUrgent }) }],
    ["urgent, in quiet hours for all", "quiet_hours", { ...urgent, ...wishing({ quiet_hours }) }],
    ["that its owner asked for", "Send", { kind: "device.test", ...wishing({ paused_until: later, quiet_hours }) }]
  ])("%s: %s", (_, decision, given, lane = "production") => {
    const eligibility = eligibilityOf({ ...delivery, ...given }, lane, now)
    assert.strictEqual("reason" in eligibility ? eligibility.reason : eligibility._tag, decision)
    if (eligibility._tag === "Hold") {
      assert.deepStrictEqual(eligibility.until, decision === "paused" ? later : new Date("2026-06-01T13:00:00Z"))
    }
  })

  const notification = {
    delivery_id: "delivery-1",
    project_id: "project-1",
    reference: "task-1",
    created_at: now,
    task_title: null,
    task_version: 3
  }
  const base = { origin: "https://bridge.example.com" }
  it.each<
    [kind: Parameters<typeof messageOf>[0]["kind"], title: string, priority: string, place: string, id: string | null]
  >([
    ["task.needs_decision", "A task needs a decision", "5", "tasks/task-1", "task-1"],
    ["task.blocked", "A task is blocked", "4", "tasks/task-1", "task-1"],
    ["task.completed", "A task is done", "2", "tasks/task-1", "task-1"],
    ["device.test", "A test of this channel", "5", "phones", null]
  ])("of the kind %s has at ntfy the title %s and the priority %s, and leads to %s", (kind, ...expected) => {
    const [title, priority, place, subject_id] = expected
    const message = messageOf({ ...notification, kind }, base)
    assert.deepInclude(message, { subject_id, version: 3, title: null, at: now })
    const { body, headers } = ntfyRequest(message, [])
    const click = `${base.origin}/console/project-1/${place}`
    assert.deepStrictEqual(headers, { "content-type": "text/plain; charset=utf-8", title, priority, click })
    assert.strictEqual(body.toString(), "Open the console to see it.")
  })

  it.each([
    ["https://fcm.googleapis.com/fcm/send/1", true],
    ["https://updates.push.services.mozilla.com/wpush/v2/1", true],
    ["https://web.push.apple.com/1", true],
    ["https://wns2-par02p.notify.windows.com/w/?token=1", true],
    ["https://push.named.example/1", true],
    ["https://push.named.example.evil.example/1", false],
    ["https://fcm.googleapis.com.evil.example/1", false],
    ["https://evil.example/fcm.googleapis.com", false],
    ["https://evil-web.push.apple.com/1", false],
    ["https://a.b.notify.windows.com/1", false],
    ["http://fcm.googleapis.com/1", false],
    ["https://a:b@fcm.googleapis.com/1", false],
    ["https://:b@fcm.googleapis.com/1", false],
    ["https://fcm.googleapis.com/1#2", false],
    ["fcm.googleapis.com", false]
  ])("may be sent to %s: %s", (endpoint, isAllowed) => {
    assert.strictEqual(isAllowedEndpoint(endpoint, new Set(["push.named.example"])), isAllowed)
  })
})
