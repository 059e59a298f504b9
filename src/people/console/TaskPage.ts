/** One task: its question, body, dependencies, and the receipts of its sessions as a time line. */
import { Effect } from "effect"
import type { Answer, Receipt, Task, TaskFound } from "../../agents/tasks/Shapes.ts"
import { Tasks } from "../../agents/tasks/Tasks.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { ProjectTokens } from "../../signin/access/ProjectTokens.ts"
import { type ActorName, namesFor } from "./Actors.ts"
import { markdown } from "./Markdown.ts"
import { facts, mark, more, name, tags, time } from "./Parts.ts"
import { shortId } from "./Frame.ts"
import { changeTaskForm, lostAnswer, question } from "./TaskForms.ts"
import { statusMark } from "./TasksPage.ts"
import { isUuid, maySee, NotHere, pathOf, type View } from "./View.ts"

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
    const called = yield* namesFor(tokens, project.project_id, [task.created_by, ...page.map(({ actor }) => actor)])
    return {
      title: task.title,
      body: html`<a class="back" href="${pathOf(view, "tasks")}">Tasks</a>
        <h1 class="name">${task.title}</h1>
        <p class="marks">${statusMark(task)} ${mark(`priority ${task.priority}`)} ${tags(task.tags)}</p>
        ${lostAnswer(view, task)} ${question(view, task)} ${decision(view, task)}
        <div class="two">
          <div>
            ${task.body !== "" && html`<div class="card">${markdown(task.body)}</div>`} ${changeTaskForm(view, task)}
            <h2>Sessions</h2>
            ${
              page.length === 0
                ? html`<p class="soft">
                    ${after === undefined ? "No session has left a receipt yet." : "No earlier receipts."}
                  </p>`
                : html`<ol class="timeline">
                    ${page.map((receipt) => receiptItem(receipt, called, now))}
                  </ol>`
            }
            ${more(pathOf(view, "tasks", id), query, next)}
          </div>
          <div>
            <h2>About</h2>
            <div class="card about">${about(task, called, now)}</div>
            ${links("Waits for", found.dependencies, view)} ${links("Others wait for it", found.blocks, view)}
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
    ${markdown(text)}
    <p class="meta">
      <span>${nameOf(by)}</span> <span>${time(at, view.now)}</span>
      ${same_credential && mark("by the credential that asked", "warn")}
      ${maySee(view.session, "memory:read") && html`<a href="${pathOf(view, "memory", entry_id)}">in memory</a>`}
    </p>
  </section>`
}

const nameOf = ({ id, kind, label }: Answer["by"]): Part => {
  if (kind === "operator") return html`by operator ${name(id)}`
  return html`by ${name(label ?? `${kind} ${shortId(id)}`)}`
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

const links = (title: string, tasks: TaskFound["dependencies"], view: View): Part =>
  tasks.length > 0 &&
  html`<h2>${title}</h2>
    <ul class="rows">
      ${tasks.map(
        (task) =>
          html`<li class="line">
            <a class="name" href="${pathOf(view, "tasks", task.id)}">${task.title}</a> <span>${statusMark(task)}</span>
          </li>`
      )}
    </ul>`

const outcomes = {
  progress: mark("progress", "info"),
  handoff: mark("handed over", "info"),
  completed: mark("completed", "good"),
  blocked: mark("blocked", "warn")
} as const

const receiptItem = (receipt: Receipt, called: ActorName, now: Date): Html =>
  html` <li>
    <p>
      ${outcomes[receipt.outcome]} <b class="name">${receipt.worker}</b>
      <span class="soft">${time(receipt.created_at, now)}, through ${name(called(receipt.actor))}</span>
    </p>
    <div class="card">
      ${markdown(receipt.summary)} ${steps("Next steps", receipt.next_steps)} ${steps("Pitfalls", receipt.pitfalls)}
      ${checkpoint(receipt.git_checkpoint)}
    </div>
  </li>`

const steps = (title: string, all: ReadonlyArray<string>): Part =>
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
