/** What waits for a person, what is at work, and what has changed since the last visit. */
import { Duration, Effect } from "effect"
import { Memory } from "../../agents/memory/Memory.ts"
import { Tasks } from "../../agents/tasks/Tasks.ts"
import { Bridges } from "../../bridges/identity/Bridges.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { after } from "../../wire/Instant.ts"
import { bridgeRow } from "./bridges/BridgesPage.ts"
import { kindMark } from "./memory/MemoryPage.ts"
import { empty, meta, name, time } from "./Parts.ts"
import { statusMark } from "./tasks/StatusMark.ts"
import { taskList } from "./tasks/TasksPage.ts"
import { maySee, pathOf, type View } from "./View.ts"

/** How many of each kind the page shows; the lists have the rest. */
const shown = 10

export const todayPage = Effect.gen(function* () {
  const tasks = yield* Tasks
  const memory = yield* Memory
  const bridges = yield* Bridges

  const asked = Effect.fnUntraced(function* (view: View) {
    const found = yield* tasks.questions(view.project.project_id, shown + 1)
    return section(
      "Waits for a decision",
      found.length === 0
        ? empty("Nothing waits for a person.")
        : found.slice(0, shown).map(
            (task) =>
              html`<article class="card ask">
                <h3><a class="name" href="${pathOf(view, "tasks", task.id)}">${task.title}</a></h3>
                ${view.markdown(task.blocked_reason ?? task.title)}
                ${meta(...(task.choices ?? []).map((choice) => html`<a href="${pathOf(view, "tasks", task.id)}">${choice}</a>`))}
                ${meta(
                  `priority ${task.priority}`,
                  task.assignee !== null && html`asked by ${name(task.assignee)}`,
                  html`since ${time(task.updated_at, view.now)}`
                )}
              </article>`
          ),
      found.length > shown && allOf(`${pathOf(view, "tasks")}?status=blocked`, "All blocked tasks")
    )
  })

  const atWork = Effect.fnUntraced(function* (view: View) {
    const { tasks: found, next_cursor } = yield* tasks
      .list(view.project, { status: ["in_progress"], order: "updated", limit: shown })
      .pipe(Effect.catchTag(["cursor_invalid", "task_not_found"], Effect.die))
    return section(
      "At work",
      found.length === 0 ? empty("No agent works on a task.") : taskList(view, found, view.now),
      next_cursor !== undefined && allOf(`${pathOf(view, "tasks")}?status=in_progress`, "All tasks in progress")
    )
  })

  /** Tasks and entries that are newer than the last visit, newest first. */
  const changed = Effect.fnUntraced(function* (view: View) {
    const { now, project, session } = view
    const since = session.last_visit_at ?? after(now, Duration.days(-1))
    const newest = { order: "updated", limit: shown } as const
    const changedTasks = maySee(session, "tasks:read")
      ? (yield* tasks.list(project, newest).pipe(Effect.catchTag(["cursor_invalid", "task_not_found"], Effect.die)))
          .tasks
      : []
    const entries = maySee(session, "memory:read")
      ? (yield* memory
          .search(project, { limit: shown })
          .pipe(Effect.catchTags({ cursor_invalid: Effect.die, search_too_broad: Effect.die }))).entries
      : []
    const all = [
      ...changedTasks.map((task) => ({
        at: task.updated_at,
        row: changeRow(view, "tasks", task, statusMark(task), task.updated_at)
      })),
      ...entries.map((entry) => ({
        at: entry.created_at,
        row: changeRow(view, "memory", entry, kindMark(entry.kind), entry.created_at)
      }))
    ]
      .filter(({ at }) => at > since)
      .toSorted((one, other) => other.at.getTime() - one.at.getTime())
    return section(
      session.last_visit_at === null
        ? html`In the last 24 hours`
        : html`Since your last visit, ${time(session.last_visit_at, now)}`,
      all.length === 0
        ? empty("Nothing has changed.")
        : html`<ul class="rows">
            ${all.slice(0, shown).map(({ row }) => row)}
          </ul>`,
      all.length >= shown && allOf(pathOf(view, "activity"), "All activity")
    )
  })

  const ending = Effect.fnUntraced(function* (view: View) {
    const found = yield* bridges.listEnding(view.project.project_id, shown + 1)
    return (
      found.length > 0 &&
      section(
        "Bridges that end soon",
        html`<ul class="rows">
          ${found.slice(0, shown).map((bridge) => bridgeRow(bridge, view.session, view.now))}
        </ul>`,
        allOf(pathOf(view, "bridges"), "All Bridges")
      )
    )
  })

  return Effect.fnUntraced(function* (view: View) {
    const seesTasks = maySee(view.session, "tasks:read")
    return {
      title: "Today",
      body: html`<h1>Today</h1>
        ${seesTasks && (yield* asked(view))} ${yield* ending(view)} ${seesTasks && (yield* atWork(view))}
        ${yield* changed(view)}`
    }
  })
})

const section = (title: string | Html, body: Part, link: Part) =>
  html` <section>
    <h2>${title}</h2>
    ${body} ${link}
  </section>`

const allOf = (href: string, label: string) => html`<p class="more"><a href="${href}">${label}</a></p>`

const changeRow = (
  view: View,
  section: "tasks" | "memory",
  { id, title }: { readonly id: string; readonly title: string },
  mark: Html,
  at: Date
) =>
  html`<li>
    <div class="line"><a class="name" href="${pathOf(view, section, id)}">${title}</a> <span>${mark}</span></div>
    ${meta(section === "tasks" ? "task" : "memory", time(at, view.now))}
  </li>`
