/** What one of a person's devices rings for, and when (spec 4.12): the form, and the preferences that it sends. */
import { Result, Schema } from "effect"
import { html, type Html } from "../../../platform/html/Html.ts"
import type { Session } from "../../../signin/sessions/Sessions.ts"
import type { Device } from "../../../wire/mobile/MobileApi.ts"
import {
  type NotificationKind,
  notificationKindNames,
  notificationKinds,
  Preferences,
  weekdays
} from "../../../wire/mobile/Notifications.ts"
import { words } from "../app/Words.ts"

const optionalKinds = notificationKindNames.filter((name) => notificationKinds[name].optional)
const fieldOf = (kind: NotificationKind) => `kind:${kind}`

export const preferenceForm = ({ csrf }: Session, { device_id, preferences, preferences_version }: Device): Html => {
  const { kinds, quiet_hours } = preferences
  const of = device_id.slice(-8)
  const check = (name: string, label: string, isOn: boolean) =>
    html`<label class="choice">
      <input type="checkbox" name="${name}" value="on" ${isOn && html`checked`} />
      <span>${label}</span>
    </label>`
  return html`<details class="folded">
    <summary>What it rings for<span class="hidden"> ${of}</span></summary>
    <form class="write" method="post">
      <input type="hidden" name="csrf" value="${csrf}" />
      <input type="hidden" name="device" value="${device_id}" />
      <input type="hidden" name="version" value="${preferences_version}" />
      <fieldset>
        <legend>When</legend>
        ${optionalKinds.map((kind) =>
          check(fieldOf(kind), words.en[kind][0], kinds[kind] ?? notificationKinds[kind].byDefault)
        )}
      </fieldset>
      <fieldset>
        <legend>Quiet hours</legend>
        ${check("quiet", "Hold notifications during quiet hours", quiet_hours?.enabled === true)}
        ${check("allow_urgent", "Except urgent ones, such as decisions", quiet_hours?.allow_urgent ?? true)}
      </fieldset>
      <div>
        <label for="start-${of}">From</label>
        <input type="time" id="start-${of}" name="start" value="${quiet_hours?.start ?? "22:00"}" required />
      </div>
      <div>
        <label for="end-${of}">To</label>
        <input type="time" id="end-${of}" name="end" value="${quiet_hours?.end ?? "07:00"}" required />
      </div>
      <div>
        <label for="zone-${of}">Time zone</label>
        <input id="zone-${of}" name="time_zone" value="${quiet_hours?.time_zone ?? ""}" data-zone required />
      </div>
      <div class="wide"><button class="primary" name="action" value="set-preferences">Save</button></div>
    </form>
  </details>`
}

const decode = Schema.decodeUnknownResult(Preferences)

/** The preferences of the form, with what it does not show as it was; undefined if a value is not acceptable. */
export const preferencesIn = (fields: URLSearchParams, before: Preferences): Preferences | undefined => {
  const isOn = (name: string) => fields.get(name) === "on"
  const decoded = decode({
    kinds: Object.fromEntries(optionalKinds.map((kind) => [kind, isOn(fieldOf(kind))])),
    minimum_priority: before.minimum_priority,
    quiet_hours: {
      enabled: isOn("quiet"),
      start: fields.get("start"),
      end: fields.get("end"),
      time_zone: fields.get("time_zone"),
      days: before.quiet_hours?.days ?? weekdays,
      allow_urgent: isOn("allow_urgent")
    },
    paused_until: null
  })
  return Result.isSuccess(decoded) ? { ...decoded.success, paused_until: before.paused_until } : undefined
}
