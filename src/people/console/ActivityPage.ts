/** The audit log of a project in sentences, newest first. Addresses of callers are shown to operators only. */
import { Effect } from "effect"
import { type AuditEvent } from "../../platform/audit/AuditStore.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { ProjectTokens } from "../../signin/access/ProjectTokens.ts"
import { type ActorName, namesFor } from "./Actors.ts"
import { empty, mark, meta, more, name, time } from "./Parts.ts"
import { sentences } from "./Sentences.ts"
import { isUuid, maySee, NotHere, pathOf, type View } from "./View.ts"

const shown = 50

export const activityPage = Effect.gen(function* () {
  const audit = yield* Audit
  const tokens = yield* ProjectTokens
  return Effect.fnUntraced(function* (view: View) {
    const { project, query } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const found = yield* audit.list(project.project_id, { after, limit: shown + 1 })
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.event_id } : undefined
    const called = yield* namesFor(
      tokens,
      project.project_id,
      page.map(({ actor }) => actor)
    )
    return {
      title: "Activity",
      body: html`<h1>Activity</h1>
        <p class="soft">What people, agents and Bridges changed in this project, and what they were refused.</p>
        ${
          page.length === 0
            ? empty(after === undefined ? "Nothing has happened yet." : "No earlier activity.")
            : html`<ul class="rows">
                ${page.map((event) => eventRow(event, called, view))}
              </ul>`
        }
        ${more(pathOf(view, "activity"), query, next)}`
    }
  })
})

const eventRow = (event: AuditEvent, called: ActorName, view: View): Html => {
  const { action, actor, address, at, code, count, outcome } = event
  return html`<li>
    <div class="line">
      <span><b class="name">${capital(called(actor))}</b> ${sentences[action] ?? action}${about(event, view)}</span>
      <span class="soft small">${time(at, view.now)}</span>
    </div>
    ${
      outcome === "refused" &&
      html`<p class="meta">
        <span>${mark("refused", "bad")}</span>
        <code>${code ?? undefined}</code> ${count > 1 && html`<span>${count} times</span>`}
      </p>`
    }
    ${view.session.token === undefined && address !== "" && meta(html`from <span class="id">${address}</span>`)}
  </li>`
}

/** A link to the task or entry, or the name of the Bridge. */
const about = ({ actor, subject }: AuditEvent, view: View): Part => {
  const idOf = (key: string) => (typeof subject[key] === "string" ? subject[key] : undefined)
  const [task_id, entry_id, bridge_id] = [idOf("task_id"), idOf("entry_id"), idOf("bridge_id")]
  if (task_id !== undefined && maySee(view.session, "tasks:read")) {
    return html`: <a href="${pathOf(view, "tasks", task_id)}">task ${task_id.slice(-8)}</a>`
  }
  if (entry_id !== undefined && maySee(view.session, "memory:read")) {
    return html`: <a href="${pathOf(view, "memory", entry_id)}">entry ${entry_id.slice(-8)}</a>`
  }
  return bridge_id !== undefined && actor !== `bridge:${bridge_id}` && html`: ${name(bridge_id)}`
}

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1)
