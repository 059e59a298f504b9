/** One entry of memory, with the entry that it superseded. */
import { Effect } from "effect"
import { Memory } from "../../../agents/memory/Memory.ts"
import type { MemoryEntry } from "../../../agents/memory/Shapes.ts"
import { html, type Part } from "../../../platform/html/Html.ts"
import { ProjectTokens } from "../../../signin/access/ProjectTokens.ts"
import { type ActorName, namesFor } from "../Actors.ts"
import { kindMark } from "./MemoryPage.ts"
import { archiveForm, supersedeForm } from "./MemoryForms.ts"
import { facts, mark, name, tags, time } from "../Parts.ts"
import { isUuid, maySee, NotHere, pathOf, type View } from "../View.ts"

export const entryPage = Effect.gen(function* () {
  const memory = yield* Memory
  const tokens = yield* ProjectTokens
  return Effect.fnUntraced(function* (view: View) {
    const { id, now, project } = view
    if (!isUuid(id)) return yield* new NotHere()
    const read = (entry_id: string) =>
      memory.get(project, entry_id).pipe(Effect.catchTag("memory_not_found", () => new NotHere()))
    const entry = yield* read(id)
    const former = entry.supersedes === null ? undefined : yield* read(entry.supersedes)
    const called = yield* namesFor(tokens, project.project_id, [entry.provenance.actor])
    return {
      title: entry.title,
      body: html`<a class="back" href="${pathOf(view, "memory")}">Memory</a>
        <h1 class="name">${entry.title}</h1>
        <p class="marks">${kindMark(entry.kind)} ${tags(entry.tags)}</p>
        ${ended(entry, view)}
        <div class="two">
          <div>
            <div class="card">${view.markdown(entry.body)}</div>
            ${former !== undefined && superseded(former, view)} ${supersedeForm(view, entry)}
            ${archiveForm(view, entry)}
          </div>
          <div>
            <h2>About</h2>
            <div class="card about">${about(entry, called, now, view)}</div>
          </div>
        </div>`
    }
  })
})

const ended = ({ active, superseded_at, superseded_by }: MemoryEntry, view: View): Part => {
  if (active) return undefined
  if (superseded_by === null)
    return html`<div class="note"><p>This entry was archived; agents no longer find it.</p></div>`
  return html`<div class="note">
    <p>
      This entry was <a href="${pathOf(view, "memory", superseded_by)}">superseded by another</a>
      ${superseded_at !== null && time(superseded_at, view.now)}; agents no longer find it.
    </p>
  </div>`
}

const superseded = (former: MemoryEntry, view: View) =>
  html` <h2>It superseded</h2>
    <div class="card">
      <h3><a class="name" href="${pathOf(view, "memory", former.id)}">${former.title}</a></h3>
      <p class="meta"><span>${kindMark(former.kind)}</span> <span>${time(former.created_at, view.now)}</span></p>
      ${view.markdown(former.body)}
    </div>`

const about = ({ created_at, id, provenance }: MemoryEntry, called: ActorName, now: Date, view: View) => {
  const { actor, role, session_ref, source, task_id } = provenance
  return facts([
    ["Added", html`${time(created_at, now)} by ${name(called(actor))}`],
    ["Role", mark(role)],
    ["Session", session_ref === null ? undefined : name(session_ref)],
    [
      "Task",
      task_id === null || !maySee(view.session, "tasks:read")
        ? undefined
        : html`<a href="${pathOf(view, "tasks", task_id)}">the task that it came from</a>`
    ],
    ["Imported from", source === null ? undefined : name(source)],
    ["Id", html`<span class="id">${id}</span>`]
  ])
}
