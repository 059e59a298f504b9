/** The phones of a project that are registered for notifications, newest first. */
import { Effect } from "effect"
import { html } from "../../platform/html/Html.ts"
import { Devices } from "../mobile/Devices.ts"
import { act } from "./Actions.ts"
import { empty, mark, meta, more, name, time } from "./Parts.ts"
import { isUuid, NotHere, pathOf, type View } from "./View.ts"

const shown = 40

const states = {
  active: mark("active", "good"),
  inactive: mark("gone", "warn"),
  revoked: mark("ended")
} as const

export const phonesPage = Effect.gen(function* () {
  const devices = yield* Devices
  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query, session } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const found = yield* devices
      .list(project.project_id, { after, limit: shown + 1 })
      .pipe(Effect.catchTag("project_not_found", () => new NotHere()))
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.device_id } : undefined
    return {
      title: "Phones",
      body: html`<h1>Phones</h1>
        <p class="soft">They ring when a task waits for a person. Each belongs to the sign-in that registered it.</p>
        ${
          page.length === 0
            ? empty(
                after === undefined ? "No phone is registered." : "No more phones.",
                "A person signs in to the companion app on the phone."
              )
            : html`<ul class="rows">
                ${page.map(
                  (device) =>
                    html`<li>
                      <div class="line">
                        <span>
                          <b class="name">${device.topic}</b> <span class="id">${device.device_id.slice(-8)}</span>
                        </span>
                        <span>
                          ${device.environment === "development" && mark("development")} ${states[device.state]}
                        </span>
                      </div>
                      ${meta(
                        device.app_version !== null && html`version ${name(device.app_version)}`,
                        html`registered ${time(device.created_at, now)}`,
                        html`last seen ${time(device.last_seen_at, now)}`,
                        device.ended_at !== null && html`ended ${time(device.ended_at, now)}`,
                        device.state_reason !== null && device.state_reason.replaceAll("_", " ")
                      )}
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
        ${more(pathOf(view, "phones"), query, next)}`
    }
  })
})
