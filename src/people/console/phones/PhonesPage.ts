/** The phones of a project that are registered for notifications, newest first. */
import { Effect } from "effect"
import { html } from "../../../platform/html/Html.ts"
import { Channels } from "../../channels/Channels.ts"
import type { Listed } from "../../mobile/DeviceStore.ts"
import { Devices } from "../../mobile/Devices.ts"
import { WebPushKeys } from "../../../push/tokens/WebPushKeys.ts"
import { act } from "../Actions.ts"
import { channelList } from "./ChannelList.ts"
import { ownDeviceForms, ringCard } from "./OwnDevices.ts"
import { empty, mark, meta, more, name, time } from "../Parts.ts"
import { isUuid, NotHere, pathOf, type View } from "../View.ts"

const shown = 40

const states = {
  active: mark("active", "good"),
  inactive: mark("gone", "warn"),
  revoked: mark("ended")
} as const

export const phonesPage = Effect.gen(function* () {
  const devices = yield* Devices
  const channels = yield* Channels
  const webPushKeys = yield* WebPushKeys
  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query, session } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const found = yield* devices
      .list(project.project_id, { after, limit: shown + 1 })
      .pipe(Effect.catchTag("project_not_found", () => new NotHere()))
    const page = found.slice(0, shown)
    const { token } = session
    const own =
      token === undefined ? [] : yield* devices.own({ project_id: project.project_id, subject: token.token_id })
    const listed = yield* channels
      .list(project.project_id, { after: undefined, limit: shown })
      .pipe(Effect.catchTag("project_not_found", () => new NotHere()))
    const next = found.length > shown ? { after: page.at(-1)!.device_id } : undefined
    return {
      title: "Phones",
      body: html`<h1>Phones</h1>
        <p class="soft">They ring when a task waits for a person. Each belongs to the person who registered it.</p>
        ${token !== undefined && ringCard(session.csrf, (yield* webPushKeys.current).public_key, own)}
        ${
          page.length === 0
            ? empty(
                after === undefined ? "No phone is registered." : "No more phones.",
                "A person signs in to the companion app on the phone, or signs in here with a browser and makes it ring."
              )
            : html`<ul class="rows">
                ${page.map(
                  (device) =>
                    html`<li data-device="${device.device_id}">
                      <div class="line">
                        <span>
                          <b class="name">${(isBrowser(device) ? device.app_version : null) ?? device.topic}</b>
                          <span class="id">${device.device_id.slice(-8)}</span>
                          <span class="mark info" data-here hidden>this device</span>
                        </span>
                        <span>
                          ${device.environment === "development" && mark("development")} ${states[device.state]}
                        </span>
                      </div>
                      ${meta(
                        isBrowser(device) ? html`at ${device.topic}` : versionOf(device),
                        html`registered ${time(device.created_at, now)}`,
                        html`last seen ${time(device.last_seen_at, now)}`,
                        device.ended_at !== null && html`ended ${time(device.ended_at, now)}`,
                        device.state_reason !== null && device.state_reason.replaceAll("_", " ")
                      )}
                      ${own.filter(({ device_id }) => device_id === device.device_id).map((one) => ownDeviceForms(session, one))}
                      ${
                        device.state === "active" &&
                        act(
                          session,
                          "revoke-device",
                          { device: device.device_id },
                          `phone ${device.device_id.slice(-8)}`,
                          "The phone gets no more notifications, and its push token is deleted. Its person can register it again."
                        )
                      }
                    </li>`
                )}
              </ul>`
        }
        ${more(pathOf(view, "phones"), query, next)} ${channelList(session, listed, now)}`
    }
  })
})

const isBrowser = ({ environment }: Listed) => environment === "web"

const versionOf = ({ app_version }: Listed) => app_version !== null && html`version ${name(app_version)}`
