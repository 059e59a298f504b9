/** The tasks of a project as a board: a column for each state, the most urgent first, and what was closed lately. */
import { Effect } from "effect"
import type { Status, TaskPage, TaskSummary } from "../../../agents/tasks/Shapes.ts"
import { Tasks } from "../../../agents/tasks/Tasks.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { name, tags, time } from "../Parts.ts"
import { statusMark } from "./StatusMark.ts"
import { pathOf, type View } from "../View.ts"

/** How many of each column the board shows; the list has the rest. */
const shown = 20

interface Column {
  readonly title: string
  readonly status: ReadonlyArray<Status>
  readonly order: "priority" | "updated"
  /** What the list shows as the rest of the column. */
  readonly rest: string
}

const columns: ReadonlyArray<Column> = [
  { title: "Open", status: ["open"], order: "priority", rest: "status=open" },
  { title: "In progress", status: ["in_progress"], order: "priority", rest: "status=in_progress" },
  { title: "Blocked", status: ["blocked"], order: "priority", rest: "status=blocked" },
  { title: "Closed lately", status: ["done", "cancelled"], order: "updated", rest: "status=all&order=updated" }
]

export const taskBoard = Effect.gen(function* () {
  const tasks = yield* Tasks
  return Effect.fnUntraced(function* (view: View) {
    const found = yield* Effect.forEach(columns, ({ order, status }) =>
      tasks
        .list(view.project, { status, order, limit: shown })
        .pipe(Effect.catchTag(["cursor_invalid", "task_not_found"], Effect.die))
    )
    return html`<div class="board">${columns.map((column, index) => columnOf(view, column, found[index]!))}</div>`
  })
})

const columnOf = (view: View, { rest, title }: Column, { next_cursor, tasks }: TaskPage): Html => {
  const count = next_cursor === undefined ? tasks.length : `${shown} and more`
  return html`<section>
    <h2>${title} <span class="soft small">${count}</span></h2>
    ${
      tasks.length === 0
        ? html`<p class="none soft small">None.</p>`
        : html`<ul class="rows">
            ${tasks.map((task) => cardOf(view, task))}
          </ul>`
    }
    ${
      next_cursor !== undefined &&
      html`<p class="more"><a href="${`${pathOf(view, "tasks")}?${rest}`}">All of them</a></p>`
    }
  </section>`
}

const cardOf = (view: View, task: typeof TaskSummary.Type): Html =>
  html`<li>
    <a class="name" href="${pathOf(view, "tasks", task.id)}">${task.title}</a>
    <p class="meta">
      <span>${statusMark(task)}</span> <span>priority ${task.priority}</span>
      ${task.assignee !== null && html`<span>${name(task.assignee)}</span>`}
      <span>${time(task.updated_at, view.now)}</span>
      ${task.tags.length > 0 && html`<span>${tags(task.tags)}</span>`}
    </p>
  </li>`
