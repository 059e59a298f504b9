/** Memory entries and tasks of a project. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/frames/list.ts"
import { facts, next, table } from "../support/terminal/Print.ts"

const archiveMemory = command("archive-memory", {
  description: "Archive a memory entry: searches no longer find it, reading it by its id still works",
  remote: "write",
  flags: { project: Flags.project, entry: Flags.id("entry", "Id of the entry") },
  run: ({ entry, project }) =>
    using(({ memory }) =>
      Effect.map(memory.archive(project, entry), ({ active, id, kind, title }) => ({
        project_id: project,
        id,
        kind,
        title,
        active
      }))
    ),
  print: (archived) => [...facts(archived), next(`list-audit-events --project ${archived.project_id}`)]
})

const listMemory = list("list-memory", {
  description: "List the memory entries of a project, newest first",
  flags: { project: Flags.project },
  after: Flags.uuid("after", ""),
  key: "id",
  page: ({ contents }, { project }, page) => contents.entries(project, page),
  columns: ["id", "created_at", "kind", "active", "tags", "title"],
  none: "The project has no memory entries.",
  next: ({ length }, { project }) =>
    length === 0
      ? `create-project-token --project ${project} --role contributor --out FILE`
      : `archive-memory --project ${project} --entry ID`
})

const listTasks = list("list-tasks", {
  description: "List the tasks of a project, newest first",
  flags: {
    project: Flags.project,
    state: Flags.state(["open", "in_progress", "blocked", "done", "cancelled"]),
    since: Flags.since.pipe(Flag.withDescription("Only tasks that changed since then"), Flag.optional)
  },
  after: Flags.uuid("after", ""),
  key: "id",
  page: ({ contents }, { project, since, state }, page) =>
    contents.tasks(project, page, { status: Option.getOrUndefined(state), since: Option.getOrUndefined(since) }),
  columns: ["id", "updated_at", "status", "priority", "assignee", "tags", "title"],
  none: "The project has no tasks.",
  next: ([first], { project }) =>
    first === undefined
      ? `create-project-token --project ${project} --role contributor --out FILE`
      : `show-task --project ${project} --task ${first.id}`
})

const showTask = command("show-task", {
  description: "Show a task with its dependencies, its latest receipts and its latest notes",
  remote: "read",
  flags: { project: Flags.project, task: Flags.id("task", "Id of the task; see list-tasks") },
  run: ({ project, task }) => using(({ tasks }) => tasks.get({ project_id: project }, task)),
  print: ({ dependencies, notes, receipts, task }) => [
    ...facts(task),
    "",
    ...table(dependencies, ["id", "status", "title"], "The task waits for no other task."),
    "",
    ...table(receipts, ["created_at", "outcome", "worker", "summary"], "The task has no receipts."),
    "",
    ...table(notes, ["created_at", "actor", "text"], "The task has no notes."),
    next("list-tasks --project ID")
  ]
})

export const memory = [listMemory, archiveMemory, listTasks, showTask]
