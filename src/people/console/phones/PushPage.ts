/** For the operator: notifications that wait, environments that are paused, and what was given up. */
import { Effect } from "effect"
import { Projects } from "../../../operator/projects/Projects.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { type DeadLetter, mostCounted, type Pause, PushAdmin, type PushStatus } from "../../../push/admin/PushAdmin.ts"
import { hasPassed } from "../../../wire/Instant.ts"
import { act } from "../Actions.ts"
import { command, empty, facts, mark, meta, more, projectLink, time } from "../Parts.ts"
import { isUuid, NotHere, type ServiceView } from "../View.ts"

const shown = 40

export const pushPage = Effect.gen(function* () {
  const push = yield* PushAdmin
  const projects = yield* Projects
  return Effect.fnUntraced(function* ({ now, query, session }: ServiceView) {
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const { current_key, deliveries, due_since, pauses, token_keys } = yield* push.status
    const dead = yield* push.listDead({ after, limit: shown + 1 })
    const names = yield* projects.names(dead.map(({ project_id }) => project_id))
    const next = dead.length > shown ? { after: dead[shown - 1]!.delivery_id } : undefined
    const count = countIn(deliveries)
    const otherKeys = Object.keys(token_keys).filter((key) => key !== current_key)
    return {
      title: "Push",
      body: html`<h1>Push</h1>
        <p class="soft">Notifications on their way to phones.</p>
        <div class="card">
          ${facts([
            ["Waiting", count("pending")],
            ["Being sent", count("leased")],
            ["Oldest due", due_since === null ? "none" : time(due_since, now)],
            ["Delivered", count("delivered")],
            ["Given up", count("dead")]
          ])}
        </div>
        ${
          otherKeys.length > 0 &&
          html`<div class="note">
            <p>
              Some push tokens are still sealed with an older key (${otherKeys.join(", ")}):
              ${command("service-admin rekey-push-tokens")}
            </p>
          </div>`
        }
        <h2>Paused</h2>
        ${
          pauses.length === 0
            ? empty("Nothing is paused.")
            : html`<ul class="rows">
                ${pauses.map((pause) => pauseRow(pause, now))}
              </ul>`
        }
        <h2>Given up</h2>
        ${
          dead.length === 0
            ? empty(after === undefined ? "No notification was given up." : "No earlier ones.")
            : html`${act(
                  session,
                  "retry-push-dead-letters",
                  {},
                  "notifications that were given up",
                  "Every notification that has not expired, and that no newer one replaces, is sent again to phones that are still registered."
                )}
                <ul class="rows">
                  ${dead.slice(0, shown).map((letter) => deadRow(letter, names.get(letter.project_id) ?? "", now))}
                </ul>`
        }
        ${more("/console/push", query, next)}`
    }
  })
})

const waits = (state: string) => state === "pending" || state === "leased"

/** What waits is counted together, and so is the rest: each up to a maximum. */
const countIn = (deliveries: PushStatus["deliveries"]) => (state: string) => {
  const together = Object.entries(deliveries).filter(([other]) => waits(other) === waits(state))
  const isWhole = together.reduce((sum, [, count]) => sum + count, 0) < mostCounted
  return `${(deliveries[state] ?? 0).toLocaleString("en")}${isWhole ? "" : " or more"}`
}

const pauseRow = ({ environment, failures, paused_until, reason }: Pause, now: Date): Html =>
  html`<li>
    <div class="line">
      <b>${environment}</b>
      <span>
        ${
          paused_until === null || hasPassed(paused_until, now)
            ? mark("tries again", "info")
            : html`${mark("paused", "warn")} tries again ${time(paused_until, now)}`
        }
      </span>
    </div>
    ${meta(reason ?? undefined, failures === 1 ? "failed once" : `failed ${failures} times in a row`)}
  </li>`

const deadRow = (letter: DeadLetter, project: string, now: Date): Html => {
  const { attempts, device_id, expires_at, kind, last_reason, last_status, project_id, settled_at } = letter
  return html`<li>
    <div class="line">
      <code>${kind}</code>
      <span
        >${hasPassed(expires_at, now) ? mark("expired") : mark("can be retried", "warn")} ${time(settled_at, now)}</span
      >
    </div>
    ${meta(
      projectLink(project_id, project, "phones"),
      html`phone <span class="id">${device_id.slice(-8)}</span>`,
      attempts === 1 ? "1 attempt" : `${attempts} attempts`,
      [last_status, last_reason].filter((part) => part !== null).join(" ") || undefined
    )}
  </li>`
}
