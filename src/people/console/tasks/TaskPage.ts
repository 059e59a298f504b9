/**
 * One task: its question, its place among others, its body, notes, and the receipts of its sessions as a time line. In this
 * order its texts take from the budget of the page, so old receipts lose their structure first.
 */
import { Effect } from "effect"
import type { Answer, Note, Receipt, Task, TaskFound } from "../../../agents/tasks/Shapes.ts"
import { Tasks } from "../../../agents/tasks/Tasks.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import { ProjectTokens } from "../../../signin/access/ProjectTokens.ts"
import { activityAbout } from "../activity/ActivityPage.ts"
import { type ActorName, namesFor } from "../Actors.ts"
import { facts, mark, more, name, tags, time } from "../Parts.ts"
import { shortId } from "../frame/Frame.ts"
import { addNoteForm, changeTaskForm, lostAnswer, question } from "./TaskForms.ts"
import { statusMark } from "./StatusMark.ts"
import { isUuid, maySee, NotHere, pathOf, type View } from "../View.ts"

const shown = 10

export const taskPage = Effect.gen(function* () {
  const tasks = yield* Tasks
  const tokens = yield* ProjectTokens
  return Effect.fnUntraced(function* (view: View) {
    const { id, now, project, query } = view
    const after = query.get("after") ?? undefined
    if (!isUuid(id) || (after !== undefined && !isUuid(after))) return yield* new NotHere()
    const found = yield* tasks.get(project, id).pipe(Effect.catchTag("task_not_found", () => new NotHere()))
    const receipts = yield* tasks.receipts(project.project_id, id, { after, limit: shown + 1 })
    const page = receipts.slice(0, shown)
    const next = receipts.length > shown ? { after: page.at(-1)!.id } : undefined
    const { task } = found
    const called = yield* namesFor(tokens, project.project_id, [
      task.created_by,
      ...[...page, ...found.notes].map(({ actor }) => actor)
    ])
    return {
      title: task.title,
      body: html`<a class="back" href="${pathOf(view, "tasks")}">Tasks</a>
        <h1 class="name">${task.title}</h1>
        <p class="marks">${statusMark(task)} ${mark(`priority ${task.priority}`)} ${tags(task.tags)}</p>
        ${lostAnswer(view, task)} ${question(view, task)} ${decision(view, task)} ${graph(view, found)}
        <div class="two">
          <div>
            ${task.body !== "" && html`<div class="card">${view.markdown(task.body)}</div>`}
            ${changeTaskForm(view, task)}
            <h2>Notes</h2>
            ${notes(found.notes, called, view)} ${addNoteForm(view)}
            <h2>Sessions</h2>
            ${
              page.length === 0
                ? html`<p class="soft">
                    ${after === undefined ? "No session has left a receipt yet." : "No earlier receipts."}
                  </p>`
                : html`<ol class="timeline">
                    ${page.map((receipt) => receiptItem(receipt, called, view))}
                  </ol>`
            }
            ${more(pathOf(view, "tasks", id), query, next)}
          </div>
          <div>
            <h2>About</h2>
            <div class="card about">${about(task, called, now)}</div>
            <p class="more"><a href="${activityAbout(project.project_id, id)}">All that happened to it</a></p>
          </div>
        </div>`
    }
  })
})

/** The answer that the task carries until its next receipt; afterwards the entry of memory that keeps it. */
const decision = (view: View, { answer, answer_entry_id }: Task): Part => {
  if (answer === undefined || answer === null) {
    return (
      typeof answer_entry_id === "string" &&
      maySee(view.session, "memory:read") &&
      html`<p><a href="${pathOf(view, "memory", answer_entry_id)}">The last decision about this task</a></p>`
    )
  }
  const { at, by, entry_id, same_credential, text } = answer
  return html`<section class="card ask" aria-labelledby="decision">
    <h2 id="decision">Decided</h2>
    ${view.markdown(text)}
    <p class="meta">
      <span>${nameOf(by)}</span> <span>${time(at, view.now)}</span>
      ${same_credential && mark("by the credential that asked", "warn")}
      ${maySee(view.session, "memory:read") && html`<a href="${pathOf(view, "memory", entry_id)}">in memory</a>`}
    </p>
  </section>`
}

const nameOf = ({ id, kind, label }: Answer["by"]): Part => {
  if (kind === "operator") return html`by operator ${name(id)}`
  return html`by ${name(label ?? `${kind} ${shortId(id)}`)}${kind === "passkey" && " with a passkey"}`
}

const about = (task: Task, called: ActorName, now: Date) =>
  facts([
    ["Assigned to", task.assignee === null ? html`<span class="soft">nobody</span>` : name(task.assignee)],
    ["Claimed", task.claimed_at === null ? undefined : time(task.claimed_at, now)],
    ["Created", html`${time(task.created_at, now)} by ${name(called(task.created_by))}`],
    ["Changed", time(task.updated_at, now)],
    ["Closed", task.closed_at === null ? undefined : time(task.closed_at, now)],
    ["Version", task.version],
    ["Id", html`<span class="id">${task.id}</span>`]
  ])

/** What has to be finished first, this task, and what waits for it, joined by lines. */
const graph = (view: View, { blocks, dependencies, task }: TaskFound): Part =>
  dependencies.length + blocks.length > 0 &&
  html`<section class="graph" aria-label="Dependencies">
    ${linked("before", "It waits for", dependencies, view)}
    <p class="this">This task ${statusMark(task)}</p>
    ${linked("after", blocks.length < mostShown ? "These wait for it" : "The first that wait for it", blocks, view)}
  </section>`

/** How many of the tasks that wait for one are read with it. */
const mostShown = 10

const linked = (side: "before" | "after", title: string, tasks: TaskFound["dependencies"], view: View): Part =>
  tasks.length > 0 &&
  html`<div class="${side}">
    <h2>${title}</h2>
    <ul>
      ${tasks.map(
        (task) =>
          html`<li>
            <span>
              <a class="name" href="${pathOf(view, "tasks", task.id)}">${task.title}</a> ${statusMark(task)}
            </span>
          </li>`
      )}
    </ul>
  </div>`

/** How many notes are read with a task. */
const mostNotes = 5

const notes = (all: ReadonlyArray<Note>, called: ActorName, { markdown, now }: View): Part => {
  if (all.length === 0) return html`<p class="soft">Nobody has left a note.</p>`
  return html`${all.length === mostNotes && html`<p class="soft small">The newest five.</p>`}
    <ul class="rows">
      ${all.map(
        ({ actor, created_at, text }) =>
          html`<li>
            ${markdown(text)}
            <p class="meta"><span>${name(called(actor))}</span> <span>${time(created_at, now)}</span></p>
          </li>`
      )}
    </ul>`
}

const outcomes = {
  progress: mark("progress", "info"),
  handoff: mark("handed over", "info"),
  completed: mark("completed", "good"),
  blocked: mark("blocked", "warn")
} as const

const receiptItem = (receipt: Receipt, called: ActorName, { markdown, now }: View): Html =>
  html` <li>
    <p>
      ${outcomes[receipt.outcome]} <b class="name">${receipt.worker}</b>
      <span class="soft">${time(receipt.created_at, now)}, through ${name(called(receipt.actor))}</span>
    </p>
    <div class="card">
      ${markdown(receipt.summary)} ${steps("Next steps", receipt.next_steps, markdown)}
      ${steps("Pitfalls", receipt.pitfalls, markdown)} ${checkpoint(receipt.git_checkpoint)}
    </div>
  </li>`

const steps = (title: string, all: ReadonlyArray<string>, markdown: View["markdown"]): Part =>
  all.length > 0 &&
  html`<h3>${title}</h3>
    <ul>
      ${all.map((step) => html`<li>${markdown(step)}</li>`)}
    </ul>`

const checkpoint = (at: Receipt["git_checkpoint"]): Part =>
  at !== null &&
  html`<p class="meta">
    <span class="name">${at.repository}</span> <span class="name">${at.branch}</span>
    <code title="${at.commit_sha}">${at.commit_sha.slice(0, 12)}</code>
    ${at.dirty && mark("changes not committed", "warn")} ${at.pushed === false && mark("not pushed", "warn")}
  </p>`
