/** For the operator: what `service-admin status` shows, and how this process and its database have fared lately. */
import { Effect } from "effect"
import { Projects } from "../../../operator/projects/Projects.ts"
import type { BackupState } from "../../../platform/backups/Backups.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import { mostCounted } from "../../../push/admin/PushAdmin.ts"
import { Overview } from "../../operator/Overview.ts"
import { sampleSeconds, Samples } from "../../operator/Samples.ts"
import { chart } from "./Chart.ts"
import { amount, bar, words } from "./LimitsPage.ts"
import { commands, empty, facts, mark, projectLink, size, span, time } from "../Parts.ts"
import { sentences } from "../activity/Sentences.ts"
import type { ServiceView } from "../View.ts"

export const healthPage = Effect.gen(function* () {
  const overview = yield* Overview
  const samples = yield* Samples
  const projects = yield* Projects
  return Effect.fnUntraced(function* ({ now }: ServiceView) {
    const { backups, limits, numbers, refused } = yield* overview.take
    const taken = yield* samples.read
    const names = yield* projects.names(limits.map(({ project_id }) => project_id))
    const count = (value: number) => value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })
    const since = (at: Date | null): Part => (at === null ? undefined : time(at, now))
    const counted = (value: number, most: number) => `${count(value)}${value < most ? "" : " or more"}`
    const warn = (value: number, most = Infinity) => (value === 0 ? "0" : mark(counted(value, most), "warn"))
    return {
      title: "Health",
      body: html`<h1>Health</h1>
        <p class="soft">
          ${
            taken.length === 0
              ? "This process has just started: the charts begin in a moment."
              : `The charts show this process and its database in the last ${span(taken.length * sampleSeconds) ?? "seconds"}, at most an hour and not before its start.`
          }
        </p>
        <div class="charts">
          ${chart(
            "Requests a second",
            taken.map(({ requests }) => requests),
            count
          )}
          ${chart(
            "Time to answer",
            taken.map(({ answer }) => answer),
            (value) => `${count(value)} ms`
          )}
          ${chart(
            "Processor",
            taken.map(({ cpu }) => cpu),
            (value) => `${count(100 * value)} %`
          )}
          ${chart(
            "Memory",
            taken.map(({ memory_bytes }) => memory_bytes),
            size
          )}
          ${chart(
            "Busy database connections",
            taken.map(({ connections_busy }) => connections_busy),
            count
          )}
          ${chart(
            "Size of the database",
            taken.map(({ database_bytes }) => database_bytes),
            size
          )}
          ${chart(
            "Notifications due",
            taken.map(({ push_due }) => push_due),
            count
          )}
        </div>
        <div class="two">
          <div>
            <h2>Limits that are half used</h2>
            ${
              limits.length === 0
                ? empty("No project has used half of a limit.")
                : html`<ul class="rows">
                    ${limits.map(({ limit, maximum, project_id, value }) => {
                      const known = limit as keyof typeof words
                      return html`<li>
                        <div class="line">
                          <span>${projectLink(project_id, names.get(project_id) ?? "", "limits")} ${words[known]}</span>
                          <span>${amount(known, value)} of ${amount(known, maximum)}</span>
                        </div>
                        ${bar(value / maximum)}
                      </li>`
                    })}
                  </ul>`
            }
            <h2>Refused in the last 24 hours</h2>
            ${
              refused.length === 0
                ? empty("No known caller was refused.")
                : html`<ul class="rows">
                    ${refused.map(
                      ({ action, code, last_at, times }) =>
                        html`<li>
                          <div class="line">
                            <span><code>${code}</code> who ${sentences[action] ?? action}</span>
                            <span class="soft small"
                              >${times === 1 ? "once" : `${count(times)} times`}, ${time(last_at, now)}</span
                            >
                          </div>
                        </li>`
                    )}
                  </ul>`
            }
          </div>
          <div>
            <h2>Now</h2>
            <div class="card about">
              ${facts([
                ["Projects", `${count(numbers.projects)}, ${count(numbers.disabled_projects)} disabled`],
                ["Active Bridges", count(numbers.active_bridges)],
                ["Bridges without a valid token", warn(numbers.bridges_without_token)],
                ["Tokens that end soon", warn(numbers.tokens_near_expiry)],
                ["Rotations under way", count(numbers.pending_rotations)],
                ["Oldest of them", since(numbers.oldest_rotation_at)],
                ["Sweeps behind since", since(numbers.unswept_since)],
                ["Sign-ins of apps", count(numbers.agent_grants)],
                ["Sign-ins that somebody may have copied", warn(numbers.grants_replayed_elsewhere)],
                ["Phones", count(numbers.active_devices)],
                ["Notifications waiting", counted(numbers.notifications_waiting, mostCounted)],
                ["Notifications given up", warn(numbers.dead_letters, mostCounted)],
                ["Database", size(numbers.database_bytes)],
                ["Last good backup", backups === null ? undefined : lastBackup(backups, now)]
              ])}
            </div>
          </div>
        </div>
        ${commands([
          ["Watch these numbers.", "service-admin status --watch"],
          ["Check configuration, network, files and database.", "service-admin doctor"],
          ["Write the whole database to a new file.", "service-admin backup-database --out FILE"],
          ["Check that nobody changed the audit log.", "service-admin verify-audit-log"],
          ["Make the audit log's next months, and drop those past their retention.", "service-admin maintain-audit-log"]
        ])}`
    }
  })
})

/** Late once the next one should have been there, too. */
export const lastBackup = (
  { every_seconds, last_good_at }: Pick<BackupState, "every_seconds" | "last_good_at">,
  now: Date
): Html => {
  if (last_good_at === null) return mark("none", "warn")
  const isLate = now.getTime() - last_good_at.getTime() > 2000 * every_seconds
  return isLate ? html`${time(last_good_at, now)} ${mark("late", "warn")}` : time(last_good_at, now)
}
