/** The audit log of a project, or of all for the operator, in sentences, newest first. Addresses of callers are shown to operators only. */
import { Effect } from "effect"
import { type AuditEvent } from "../../platform/audit/AuditStore.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { Projects } from "../../operator/projects/Projects.ts"
import { ProjectTokens } from "../../signin/access/ProjectTokens.ts"
import { type ActorName, namesFor } from "./Actors.ts"
import { empty, mark, meta, more, name, projectLink, time } from "./Parts.ts"
import { sentences } from "./Sentences.ts"
import { isUuid, maySee, NotHere, pathOf, type ServiceView, type View } from "./View.ts"

const shown = 50

export const activityPage = Effect.gen(function* () {
  const audit = yield* Audit
  const tokens = yield* ProjectTokens
  const projects = yield* Projects
  return Effect.fnUntraced(function* (view: ServiceView & Partial<Pick<View, "project">>) {
    const { project, query } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const found = yield* audit.list(project?.project_id, { after, limit: shown + 1 })
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.event_id } : undefined
    const called = yield* namesFor(
      tokens,
      project?.project_id,
      page.map(({ actor }) => actor)
    )
    const ids = page.map(({ project_id }) => project_id).filter((id) => id !== null)
    const names = project === undefined ? yield* projects.names(ids) : undefined
    return {
      title: "Activity",
      body: html`<h1>Activity</h1>
        <p class="soft">
          What people, agents and Bridges changed ${project === undefined ? "in every project" : "in this project"}, and
          what they were refused.
        </p>
        ${
          page.length === 0
            ? empty(after === undefined ? "Nothing has happened yet." : "No earlier activity.")
            : html`<ul class="rows">
                ${page.map((event) => eventRow(event, called, view, names))}
              </ul>`
        }
        ${more(project === undefined ? "/console/activity" : pathOf({ project }, "activity"), query, next)}`
    }
  })
})

const eventRow = (
  event: AuditEvent,
  called: ActorName,
  view: ServiceView,
  names: ReadonlyMap<string, string> | undefined
): Html => {
  const { action, actor, address, at, code, count, outcome, project_id } = event
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
    ${
      view.session.token === undefined &&
      meta(
        names !== undefined && project_id !== null && projectLink(project_id, names.get(project_id) ?? ""),
        address !== "" && html`from <span class="id">${address}</span>`
      )
    }
  </li>`
}

/** A link to the task or entry, or the name of the Bridge. */
const about = ({ actor, project_id, subject }: AuditEvent, view: ServiceView): Part => {
  const idOf = (key: string) => (typeof subject[key] === "string" ? subject[key] : undefined)
  const [task_id, entry_id, bridge_id] = [idOf("task_id"), idOf("entry_id"), idOf("bridge_id")]
  const project = project_id === null ? undefined : { project_id }
  if (project !== undefined && task_id !== undefined && maySee(view.session, "tasks:read")) {
    return html`: <a href="${pathOf({ project }, "tasks", task_id)}">task ${task_id.slice(-8)}</a>`
  }
  if (project !== undefined && entry_id !== undefined && maySee(view.session, "memory:read")) {
    return html`: <a href="${pathOf({ project }, "memory", entry_id)}">entry ${entry_id.slice(-8)}</a>`
  }
  return bridge_id !== undefined && actor !== `bridge:${bridge_id}` && html`: ${name(bridge_id)}`
}

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1)
