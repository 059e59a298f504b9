/** The tasks of a project, as a list that is paged by key or as a board. Filters are in the address. */
import { Effect, Result, Schema } from "effect"
import { Status, TaskList, type TaskPage } from "../../../agents/tasks/Shapes.ts"
import { Tasks } from "../../../agents/tasks/Tasks.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import { empty, meta, more, name, options, tags, time } from "../Parts.ts"
import { statusMark } from "./StatusMark.ts"
import { taskBoard } from "./TaskBoard.ts"
import { createTaskForm } from "./TaskForms.ts"
import { NotHere, pathOf, type View } from "../View.ts"

const statuses = Status.literals
const choices = [
  ["unfinished", "Unfinished"],
  ["open", "Open"],
  ["in_progress", "In progress"],
  ["blocked", "Blocked"],
  ["done", "Done"],
  ["cancelled", "Cancelled"],
  ["all", "All"]
] as const
const orders = [
  ["priority", "Priority"],
  ["updated", "Last change"]
] as const

const decode = Schema.decodeUnknownResult(TaskList)

export const tasksPage = Effect.gen(function* () {
  const tasks = yield* Tasks
  const board = yield* taskBoard
  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query } = view
    if (query.get("view") === "board") {
      return {
        title: "Tasks",
        body: html`<h1>Tasks</h1>
          ${views(view, "board")} ${createTaskForm(view)} ${yield* board(view)}`
      }
    }
    const given = (name: string) => {
      const value = (query.get(name) ?? "").trim()
      return value === "" ? undefined : value
    }
    const status = choices.find(([value]) => value === given("status"))?.[0] ?? "unfinished"
    const order = orders.find(([value]) => value === given("order"))?.[0] ?? "priority"
    const filter = decode(
      Object.fromEntries(
        Object.entries({
          status: statusesOf(status),
          order,
          assignee: given("assignee"),
          tag: given("tag"),
          cursor: given("after"),
          limit: 50
        }).filter(([, value]) => value !== undefined)
      )
    )
    const found: TaskPage = Result.isSuccess(filter)
      ? yield* tasks
          .list(project, filter.success)
          .pipe(Effect.catchTag(["cursor_invalid", "task_not_found"], () => new NotHere()))
      : { tasks: [] }
    const next = found.next_cursor === undefined ? undefined : { after: found.next_cursor }
    const isFiltered = ["status", "assignee", "tag", "after"].some((name) => given(name) !== undefined)
    return {
      title: "Tasks",
      body: html`<h1>Tasks</h1>
        ${views(view, "list")} ${createTaskForm(view)}
        <form class="filters" method="get" role="search" aria-label="Filter tasks">
          <div>
            <label for="status">Status</label>
            <select id="status" name="status">
              ${options(choices, status)}
            </select>
          </div>
          <div>
            <label for="assignee">Assignee</label>
            <input id="assignee" name="assignee" maxlength="128" value="${given("assignee") ?? ""}" />
          </div>
          <div>
            <label for="tag">Tag</label>
            <input id="tag" name="tag" maxlength="64" value="${given("tag") ?? ""}" />
          </div>
          <div>
            <label for="order">Order</label>
            <select id="order" name="order">
              ${options(orders, order)}
            </select>
          </div>
          <div><button>Show</button></div>
        </form>
        ${found.tasks.length > 0 ? taskList(view, found.tasks, now) : nothing(isFiltered)}
        ${more(pathOf(view, "tasks"), query, next)}`
    }
  })
})

const views = (view: View, current: "list" | "board"): Html => {
  const path = pathOf(view, "tasks")
  const link = (href: string, name: string, label: string) =>
    name === current ? html`<a href="${href}" aria-current="page">${label}</a>` : html`<a href="${href}">${label}</a>`
  return html`<nav class="views" aria-label="View">
    ${link(path, "list", "List")} ${link(`${path}?view=board`, "board", "Board")}
  </nav>`
}

const nothing = (isFiltered: boolean): Part =>
  isFiltered
    ? empty("No task matches.")
    : empty("This project has no unfinished tasks.", "Agents create them with the tool task_create, people here.")

const statusesOf = (chosen: (typeof choices)[number][0]): ReadonlyArray<Status> | undefined => {
  if (chosen === "all") return undefined
  return chosen === "unfinished" ? statuses.slice(0, 3) : [chosen]
}

export const taskList = (view: View, tasks: TaskPage["tasks"], now: Date): Html =>
  html` <ul class="rows">
    ${tasks.map(
      (task) =>
        html`<li>
          <div class="line">
            <a class="name" href="${pathOf(view, "tasks", task.id)}">${task.title}</a>
            <span>${statusMark(task)}</span>
          </div>
          ${meta(
            `priority ${task.priority}`,
            task.assignee !== null && html`assigned to ${name(task.assignee)}`,
            html`changed ${time(task.updated_at, now)}`,
            task.tags.length > 0 && tags(task.tags)
          )}
        </li>`
    )}
  </ul>`
