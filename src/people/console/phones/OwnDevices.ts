/**
 * A person's own devices on the page of phones: make this browser ring, send a test, end one. A session of a project token
 * stands for that token; an operator's has no devices.
 */
import { Effect, Option, Result, Schema } from "effect"
import { html, type Html } from "../../../platform/html/Html.ts"
import type { Session } from "../../../signin/sessions/Sessions.ts"
import type { Actor } from "../../../wire/Actor.ts"
import { nil, Uuid } from "../../../wire/Ids.ts"
import {
  type Device,
  type DeviceTested,
  type MobileRefusal,
  refuse,
  RegisterDevice,
  testOutcomes
} from "../../../wire/mobile/MobileApi.ts"
import { Devices } from "../../mobile/Devices.ts"
import { preferenceForm, preferencesIn } from "./PreferenceForm.ts"

export type OwnAction = (typeof ownActions)[number]
const ownActions = ["ring-this-device", "test-device", "set-preferences", "end-own-device"] as const
type Refused = MobileRefusal<"register" | "test" | "setPreferences">
/** The query with which the page is shown again: what was done. */
type Done = Effect.Effect<URLSearchParams, Refused>

export const ownDeviceActions = Effect.gen(function* () {
  const devices = yield* Devices

  const runs: Readonly<Record<OwnAction, (owner: Actor, fields: URLSearchParams, userAgent: string) => Done>> = {
    "ring-this-device": Effect.fnUntraced(function* (owner, fields, userAgent) {
      const request = decode({
        platform: "web",
        push: {
          provider: "webpush",
          endpoint: fields.get("endpoint"),
          keys: { p256dh: fields.get("p256dh"), auth: fields.get("auth") },
          public_key: fields.get("public_key")
        },
        app_version: browserOf(userAgent),
        ...(isLocale(fields.get("locale")) && { locale: fields.get("locale") })
      })
      if (Result.isFailure(request)) return yield* refuse("invalid_request")
      const { device } = yield* devices.register(owner, request.success, undefined)
      return new URLSearchParams({ done: "ring-this-device", device: device.device_id })
    }),
    "test-device": Effect.fnUntraced(function* (owner, fields) {
      const { outcome, reason, status } = yield* devices.ring(owner, idIn(fields))
      return new URLSearchParams({
        done: "test-device",
        outcome,
        ...(status !== null && { status: String(status) }),
        ...(reason !== null && { reason })
      })
    }),
    "set-preferences": Effect.fnUntraced(function* (owner, fields) {
      const id = idIn(fields)
      const { preferences: before } = yield* devices.get(owner, id)
      const preferences = preferencesIn(fields, before)
      if (preferences === undefined) return yield* refuse("invalid_request")
      yield* devices.setPreferences(owner, id, preferences, [Number(fields.get("version"))])
      return new URLSearchParams({ done: "set-preferences" })
    }),
    "end-own-device": Effect.fnUntraced(function* (owner, fields) {
      yield* devices.revoke(owner, idIn(fields))
      return new URLSearchParams({ done: "end-own-device" })
    })
  }

  return (action: OwnAction, owner: Actor, fields: URLSearchParams, userAgent: string): Done =>
    runs[action](owner, fields, userAgent)
})

export const isOwnAction = (name: string | null): name is OwnAction => ownActions.some((action) => action === name)

const decode = Schema.decodeUnknownResult(RegisterDevice)
const isLocale = Schema.is(RegisterDevice.fields.locale.schema)
/** Malformed ids are answered like unknown ones. */
export const idIn = (fields: URLSearchParams, name = "device"): string =>
  Option.getOrElse(Schema.decodeOption(Uuid)(fields.get(name) ?? ""), () => nil)

/** The browser and system that a person knows their device by; other browsers call themselves Chrome or Safari, too. */
export const browserOf = (userAgent: string): string => {
  const first = (names: ReadonlyArray<readonly [mark: string, name: string]>) =>
    names.find(([mark]) => userAgent.includes(mark))?.[1]
  const browser = first([
    ["Edg", "Edge"],
    ["Firefox/", "Firefox"],
    ["OPR/", "Opera"],
    ["SamsungBrowser/", "Samsung Internet"],
    ["Chrome/", "Chrome"],
    ["Safari/", "Safari"],
    ["iPhone", "Safari"],
    ["iPad", "Safari"]
  ])
  const system = first([
    ["Android", "Android"],
    ["iPhone", "iPhone"],
    ["iPad", "iPad"],
    ["Windows", "Windows"],
    ["Mac OS", "macOS"],
    ["Linux", "Linux"]
  ])
  return `${browser ?? "Browser"}${system === undefined ? "" : ` on ${system}`}`
}

const tested: Readonly<Record<DeviceTested["outcome"], string>> = {
  accepted: "The push service took the test: the device shows it within seconds.",
  gone: "The push service says that this browser is not subscribed any more, so the device has ended. Ring it again.",
  refused: "The push service refused the test, and it is not tried again.",
  retrying: "The push service did not take the test yet. It is tried again.",
  waiting: "The test waits for its turn: other notifications come first, or delivery is paused."
}

/** What the page says after one of these actions. */
export const ownDone = (query: URLSearchParams): string | undefined => {
  const done = query.get("done")
  if (done === "ring-this-device") return "This device rings from now on. Send it a test."
  if (done === "set-preferences") return "Saved: the device rings for what you chose."
  if (done === "end-own-device") return "The device gets no more notifications."
  const outcome = testOutcomes.find((one) => one === query.get("outcome"))
  if (done !== "test-device" || outcome === undefined) return undefined
  const [status, reason] = [query.get("status") ?? "", query.get("reason") ?? ""]
  const why = [/^\d{3}$/.test(status) && status, /^[A-Za-z_]{1,64}$/.test(reason) && reason.replaceAll("_", " ")]
  const given = outcome === "accepted" ? "" : why.filter((part) => part !== false).join(", ")
  return given === "" ? tested[outcome] : `${tested[outcome]} (${given})`
}

/** The card that makes this browser ring; its script (app/RingScript.ts) says what it can do. */
export const ringCard = (csrf: string, key: string, own: ReadonlyArray<Device>): Html =>
  html`<section
    class="card"
    data-ring
    data-key="${key}"
    data-devices="${own.map(({ device_id }) => device_id).join(" ")}"
    data-offer="This browser can show a notification when a task waits for a person."
  >
    <h2>This device</h2>
    <p data-says role="status">A browser needs JavaScript to ring.</p>
    <form method="post" hidden>
      <input type="hidden" name="csrf" value="${csrf}" />
      <input type="hidden" name="action" value="ring-this-device" />
      ${["endpoint", "p256dh", "auth", "public_key", "locale"].map((name) => html`<input type="hidden" name="${name}" />`)}
      <button class="primary">Ring this device</button>
    </form>
  </section>`

/** What a person may do with a device of their own. */
export const ownDeviceForms = (session: Session, device: Device): Html => {
  const { device_id } = device
  return html`<form method="post" class="own">
      <input type="hidden" name="csrf" value="${session.csrf}" />
      <input type="hidden" name="device" value="${device_id}" />
      <button name="action" value="test-device">
        Send a test<span class="hidden"> to ${device_id.slice(-8)}</span>
      </button>
      <button name="action" value="end-own-device">
        Stop ringing<span class="hidden"> ${device_id.slice(-8)}</span>
      </button>
    </form>
    ${preferenceForm(session, device)}`
}
