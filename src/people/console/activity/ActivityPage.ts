/** The audit log of a project, or of all for the operator, in sentences, newest first. Addresses of callers are shown to operators only. */
import { Effect } from "effect"
import { type AuditEvent } from "../../../platform/audit/AuditStore.ts"
import { Audit } from "../../../platform/audit/Audit.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import { Projects } from "../../../operator/projects/Projects.ts"
import { ProjectTokens } from "../../../signin/access/ProjectTokens.ts"
import { filterForm, filterOf, isFiltered } from "./ActivityFilter.ts"
import { type ActorName, namesFor } from "../Actors.ts"
import { empty, mark, meta, more, name, projectLink, time } from "../Parts.ts"
import { sentences } from "./Sentences.ts"
import { Subjects } from "./Subjects.ts"
import { isUuid, maySee, NotHere, pathOf, type ServiceView, type View } from "../View.ts"

const shown = 50

export const activityPage = Effect.gen(function* () {
  const audit = yield* Audit
  const tokens = yield* ProjectTokens
  const projects = yield* Projects
  const subjects = yield* Subjects
  return Effect.fnUntraced(function* (view: ServiceView & Partial<Pick<View, "project">>) {
    const { project, query } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const filter = filterOf(query, project !== undefined)
    const found =
      filter === undefined ? [] : yield* audit.list(project?.project_id, { after, limit: shown + 1 }, filter)
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.event_id } : undefined
    const called = yield* namesFor(
      tokens,
      project?.project_id,
      page.map(({ actor }) => actor)
    )
    const ids = page.map(({ project_id }) => project_id).filter((id) => id !== null)
    const names = project === undefined ? yield* projects.names(ids) : undefined
    const titles = yield* subjects.titles(
      page
        .map((event) => linked(event, view))
        .filter((link) => link !== undefined)
        .map(({ id, project_id }) => [project_id, id] as const)
    )
    return {
      title: "Activity",
      body: html`<h1>Activity</h1>
        <p class="soft">
          What people, agents and Bridges changed ${project === undefined ? "in every project" : "in this project"}, and
          what they were refused.
        </p>
        ${filterForm(query, project !== undefined)}
        ${
          filter === undefined &&
          html`<div class="note" role="alert"><p>The address asks for a kind or a day that there is not.</p></div>`
        }
        ${
          page.length === 0
            ? empty(
                isFiltered(query)
                  ? "No activity matches."
                  : after === undefined
                    ? "Nothing has happened yet."
                    : "No earlier activity."
              )
            : html`<ul class="rows">
                ${page.map((event) => eventRow(event, called, view, names, titles))}
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
  names: ReadonlyMap<string, string> | undefined,
  titles: ReadonlyMap<string, string>
): Html => {
  const { action, address, at, code, count, outcome, project_id } = event
  return html`<li>
    <div class="line">
      <span>${who(event, called)} ${sentences[action] ?? action}${about(event, view, titles)}</span>
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

/** Whoever acted, with a link to what else they did in the project. */
const who = ({ actor, project_id }: AuditEvent, called: ActorName): Part => {
  const named = html`<b class="name">${capital(called(actor))}</b>`
  if (project_id === null) return named
  return html`<a class="by" href="${activityAbout(project_id, actor.slice(actor.indexOf(":") + 1))}">${named}</a>`
}

/** The page of what an actor did, and of what was done to a subject. */
export const activityAbout = (project_id: string, id: string): string =>
  `${pathOf({ project: { project_id } }, "activity")}?${new URLSearchParams({ about: id })}`

/** The task or entry of memory of an event, if the session may see it. */
const linked = ({ project_id, subject }: AuditEvent, { session }: ServiceView) => {
  if (project_id === null) return undefined
  const { entry_id, task_id } = subject
  if (typeof task_id === "string" && isUuid(task_id) && maySee(session, "tasks:read")) {
    return { project_id, section: "tasks", noun: "task", id: task_id } as const
  }
  return typeof entry_id === "string" && isUuid(entry_id) && maySee(session, "memory:read")
    ? ({ project_id, section: "memory", noun: "entry", id: entry_id } as const)
    : undefined
}

/** A link to the task or entry, or the name of the Bridge. */
const about = (event: AuditEvent, view: ServiceView, titles: ReadonlyMap<string, string>): Part => {
  const link = linked(event, view)
  if (link !== undefined) {
    const { id, noun, project_id, section } = link
    const title = titles.get(`${project_id}/${id}`) ?? `${noun} ${id.slice(-8)}`
    return html`: <a class="name" href="${pathOf({ project: { project_id } }, section, id)}">${title}</a>`
  }
  const { bridge_id } = event.subject
  return typeof bridge_id === "string" && event.actor !== `bridge:${bridge_id}` && html`: ${name(bridge_id)}`
}

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1)
