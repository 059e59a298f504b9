/** What a project uses of its limits, and the form that changes them; for the operator. */
import { Effect } from "effect"
import { limitNames } from "../../../operator/limits/LimitNames.ts"
import { type Limit, Limits } from "../../../operator/limits/Limits.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { command, size } from "../Parts.ts"
import { NotHere, type View } from "../View.ts"

export const limitsPage = Effect.gen(function* () {
  const limits = yield* Limits
  return Effect.fnUntraced(function* ({ project, session }: View) {
    if (session.token !== undefined) return yield* new NotHere()
    const found = yield* limits.list(project.project_id).pipe(Effect.catchTag("project_not_found", () => new NotHere()))
    return {
      title: "Limits",
      body: html`<h1>Limits</h1>
        <p class="soft">What this project uses, and may use.</p>
        <ul class="rows">
          ${found.map(limitRow)}
        </ul>
        <h2>Change them</h2>
        <form class="card limits" method="post">
          <input type="hidden" name="csrf" value="${session.csrf}" />
          <input type="hidden" name="project" value="${project.project_id}" />
          <p class="soft">
            An empty field stays as it is, and <code>default</code> restores the default. It counts at once, for every
            process, and deletes nothing: a limit below the present use stops further writes.
          </p>
          <div class="filters">
            ${limitNames.map(
              (limit) =>
                html`<div>
                  <label for="${limit}">${words[limit]}</label>
                  <input id="${limit}" name="${limit}" pattern="[1-9][0-9]{0,14}|default" autocomplete="off" />
                </div>`
            )}
          </div>
          <p class="small">
            ${command(`service-admin set-project-limits --project ${project.project_id} --entries N`)}
          </p>
          <button name="action" value="set-project-limits">Set limits</button>
        </form>`
    }
  })
})

export const words: Readonly<Record<Limit["limit"], string>> = {
  stored_bytes: "Stored text, in bytes",
  index_bytes: "Search index, in bytes",
  entries: "Memory entries",
  tasks: "Tasks",
  concurrent_calls: "Tool calls at once",
  concurrent_searches: "Searches at once",
  searches_per_minute: "Searches a minute",
  writes_per_minute: "Writes a minute",
  sessions: "Open sessions of the console",
  channels: "Channels",
  embeddings: "Text may be sent for embeddings (1) or not (0)",
  memory_days: "Days that memory is kept (0: for ever)",
  receipt_days: "Days that receipts are kept (0: for ever)"
}

export const amount = (limit: Limit["limit"], count: number): string =>
  limit.endsWith("_bytes") ? size(count) : count.toLocaleString("en")

const limitRow = ({ default: usual, limit, maximum, value }: Limit): Html =>
  html`<li>
    <div class="line">
      <b>${words[limit]}</b>
      <span>
        ${value !== null && `${amount(limit, value)} of `}${amount(limit, maximum)}
        ${maximum !== usual && html`<span class="soft small">default ${amount(limit, usual)}</span>`}
      </span>
    </div>
    ${value !== null && bar(value / maximum)}
  </li>`

/** How much of something is used. */
export const bar = (share: number): Html => {
  const filled = (100 * Math.min(1, share)).toFixed(1)
  return html`<svg
    class="bar-of ${share >= 0.8 ? "late" : ""}"
    viewBox="0 0 100 4"
    preserveAspectRatio="none"
    aria-hidden="true"
  >
    <rect class="track" width="100" height="4" />
    <rect class="used" width="${filled}" height="4" />
  </svg>`
}
