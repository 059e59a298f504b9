/** The tasks of an import: added, updated, or left as they are. Nothing is notified. */
import { Effect, Option, Struct } from "effect"
import { traceAt } from "../../platform/audit/Audit.ts"
import { refuseFull } from "../continuity/Budget.ts"
import { refuse } from "../continuity/Errors.ts"
import { checkAcyclic } from "../tasks/dependencies/checkAcyclic.ts"
import { edgeOfCycle } from "../tasks/dependencies/Cycle.ts"
import * as DependencyStore from "../tasks/dependencies/DependencyStore.ts"
import { storedBytesOfNote } from "../tasks/Notes.ts"
import type { Task } from "../tasks/Shapes.ts"
import { isAllowed } from "../tasks/TaskChange.ts"
import * as Tasks from "../tasks/Tasks.ts"
import * as TaskStore from "../tasks/TaskStore.ts"
import { checkText } from "./checkText.ts"
import type { Run } from "./importMemory.ts"
import { pagesOf, sameList, sameText } from "./items.ts"
import type { TaskItem } from "./sources/Item.ts"
import { invalid } from "./sources/Place.ts"

export const importTasks = Effect.fnUntraced(function* (run: Run, items: ReadonlyArray<TaskItem>) {
  const { project_id, sql } = run
  const tasks = TaskStore.make(sql)
  const dependencies = DependencyStore.make(sql)
  const known = new Map<string, Task>()
  for (const page of pagesOf(items)) {
    const found = yield* tasks.findAll(
      project_id,
      page.map(({ id }) => id)
    )
    for (const task of found) known.set(task.id, task)
  }
  // What is added locks the tasks that it waits for.
  if (items.length > 0) yield* dependencies.lockGraph(project_id)
  yield* add(
    run,
    items.filter(({ id }) => !known.has(id))
  )
  yield* addNotes(run, items)

  const changes: Array<readonly [TaskItem, Task]> = []
  for (const item of items) {
    const task = known.get(item.id)
    if (task === undefined) continue
    const why = isSame(task, item) ? undefined : whyKept(run, task, item)
    if (isSame(task, item)) run.report("unchanged", item)
    else if (why !== undefined) run.report("kept", item, item.id, why)
    else changes.push([item, task])
  }
  if (changes.length > 0) {
    const ids = changes.map(([{ id }]) => id)
    const named = changes.flatMap(([item, task]) => [...item.depends_on, ...task.depends_on])
    yield* dependencies.lock(project_id, [...ids, ...named])
    yield* dependencies.lockWaiting(project_id, ids)
  }
  for (const [item, task] of changes) yield* update(run, tasks, dependencies, item, task)
})

const add = Effect.fnUntraced(function* (run: Run, items: ReadonlyArray<TaskItem>) {
  const { added, now, project_id, store } = run
  yield* checkCycles(items)
  for (const page of pagesOf(items)) {
    for (const item of page) yield* checkText(item, now)
    const keys = yield* store.add(project_id, "task", JSON.stringify(page.map((item) => rowOf(run, item))))
    if (keys.length < page.length) return yield* refuse("import_overtaken")
    for (const item of page) {
      added.tasks += 1
      added.stored_bytes += Tasks.storedBytes(item)
      run.report("added", item)
    }
    yield* run.progress
  }
  // Each may name any other.
  for (const page of pagesOf(items)) {
    yield* checkNamed(run, page)
    const links = page.flatMap(({ depends_on, id }) => depends_on.map((other) => ({ task_id: id, depends_on: other })))
    for (const some of pagesOf(links)) yield* store.add(project_id, "dependency", JSON.stringify(some))
  }
})

const addNotes = Effect.fnUntraced(function* (run: Run, items: ReadonlyArray<TaskItem>) {
  const { actor, added, now, project_id, store } = run
  const all = items.flatMap((item) => item.notes.map((note) => ({ item, note })))
  for (const page of pagesOf(all)) {
    for (const { item, note } of page) yield* checkText({ ...item, title: "", body: note.text, tags: [] }, now)
    const rows = page.map(({ item, note }) => ({
      ...note,
      task_id: item.id,
      actor,
      created_at: earlier(note.created_at, now)
    }))
    const keys = new Set((yield* store.add(project_id, "note", JSON.stringify(rows))).map(({ key }) => key))
    added.notes += keys.size
    for (const row of rows) if (keys.has(row.id)) added.stored_bytes += storedBytesOfNote(row)
  }
})

const update = Effect.fnUntraced(function* (
  run: Run,
  tasks: ReturnType<typeof TaskStore.make>,
  dependencies: ReturnType<typeof DependencyStore.make>,
  item: TaskItem,
  known: Task
) {
  const { actor, limits, maxima, now, project_id, sql } = run
  yield* checkText(item, now)
  const locked = yield* tasks.lock(project_id, item.id)
  if (Option.isNone(locked) || locked.value.version !== known.version) return yield* refuse("import_overtaken")
  const before = locked.value
  yield* checkNamed(run, [item])
  const links = yield* dependencies.findAll(project_id, item.depends_on)
  const waits = links.some(({ status }) => status !== "done" && status !== "cancelled")
  if (item.status === "in_progress" && before.status !== "in_progress" && waits) {
    return run.report("kept", item, item.id, "It waits for tasks that are not done or cancelled")
  }
  const gained = item.depends_on.filter((id) => !before.depends_on.includes(id))
  if (gained.length > 0) {
    yield* checkAcyclic(dependencies, project_id, item.id, gained).pipe(
      Effect.catchTag("task_dependency_cycle", ({ message }) => invalid(item.place, message))
    )
  }
  yield* dependencies.replaceDependencies(project_id, item.id, item.depends_on)
  const after = changed(before, item, now)
  const stored_bytes = Tasks.storedBytes(after) - Tasks.storedBytes(before)
  const trace = yield* traceAt(now)
  const written = yield* tasks.update(project_id, after, undefined, actor, now, trace, stored_bytes, maxima)
  if (Option.isNone(written)) return yield* refuseFull(sql, { project_id, limits }, { stored_bytes })
  run.report("updated", item)
})

const checkCycles = Effect.fnUntraced(function* (items: ReadonlyArray<TaskItem>) {
  const [waiting] = edgeOfCycle(new Map(items.map(({ depends_on, id }) => [id, depends_on]))) ?? []
  const [part] = edgeOfCycle(new Map(items.map(({ id, parent }) => [id, parent === null ? [] : [parent]]))) ?? []
  const item = items.find(({ id }) => id === (waiting ?? part))
  if (item === undefined) return
  const reason = waiting === undefined ? "The task would be a part of itself" : "The task would wait for itself"
  return yield* invalid(item.place, reason)
})

const checkNamed = Effect.fnUntraced(function* ({ project_id, store }: Run, items: ReadonlyArray<TaskItem>) {
  const namedBy = ({ depends_on, parent }: TaskItem) => (parent === null ? depends_on : [...depends_on, parent])
  const unknown = new Set((yield* store.unknownTasks(project_id, items.flatMap(namedBy))).map(({ id }) => id))
  const item = items.find((item) => namedBy(item).some((id) => unknown.has(id)))
  if (item !== undefined)
    return yield* invalid(item.place, "It names a task that neither the source nor the project has")
})

const fields = ["title", "status", "priority", "assignee", "blocked_kind", "blocked_reason"] as const
const all = [...fields, "body", "tags", "depends_on"] as const

const isSame = (task: Task, item: TaskItem) =>
  fields.every((name) => task[name] === item[name]) &&
  sameText(task.body, item.body) &&
  sameList(task.tags, item.tags) &&
  sameList(task.depends_on, item.depends_on)

/** Why a task that differs is not updated. An import decides on the version that it wrote, or that the file names. */
const whyKept = ({ isOwn }: Run, task: Task, item: TaskItem): string | undefined => {
  const isLast = isOwn(task.version === 1 ? task.created_by : task.updated_by) || task.version === item.version
  if (!isLast) return "The project has changed it since"
  return isAllowed(task.status, item.status) ? undefined : `A task cannot go from ${task.status} to ${item.status}`
}

const isClosed = ({ status }: TaskItem) => status === "done" || status === "cancelled"

const changed = (before: Task, item: TaskItem, now: Date): Task => {
  const claims = item.status === "in_progress" && before.status !== "in_progress"
  const isOpen = item.status === "open"
  const asks = item.blocked_kind === "decision" && before.blocked_kind === "decision"
  return {
    ...before,
    ...Struct.pick(item, all),
    version: before.version + 1,
    claimed_at: claims ? now : isOpen ? null : before.claimed_at,
    claimed_by: claims || isOpen ? null : (before.claimed_by ?? null),
    choices: asks ? (before.choices ?? null) : null,
    asked_by: asks ? (before.asked_by ?? null) : null,
    closed_at: isClosed(item) ? (before.closed_at ?? earlier(item.closed_at, now)) : null
  }
}

/** A time that the source gives may be wrong. */
const earlier = (time: Date | undefined, now: Date) =>
  time === undefined || time.getTime() > now.getTime() ? now : time

const rowOf = ({ actor, now }: Run, item: TaskItem) => ({
  ...Struct.pick(item, ["id", "parent", ...fields, "body", "tags"]),
  version: 1,
  claimed_at: item.status === "in_progress" ? now : null,
  created_by: actor,
  updated_by: actor,
  created_at: earlier(item.created_at, now),
  updated_at: now,
  closed_at: isClosed(item) ? earlier(item.closed_at, now) : null
})
