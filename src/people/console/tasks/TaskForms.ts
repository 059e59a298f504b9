/** What people do to tasks: answer a question, create a task, change one, leave a note on one. */
import { Effect, Schema } from "effect"
import { Decisions } from "../../../agents/decisions/Decisions.ts"
import { Notes } from "../../../agents/tasks/Notes.ts"
import { type Task, TaskAnswer, TaskCreate, TaskNote, TaskUpdate } from "../../../agents/tasks/Shapes.ts"
import { Tasks } from "../../../agents/tasks/Tasks.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import type { Actor } from "../../../wire/Actor.ts"
import { options, prose } from "../Parts.ts"
import { NotHere, pathOf, type View } from "../View.ts"
import {
  checked,
  commonRefusals,
  conflict,
  folded,
  form,
  given,
  keyOf,
  mayWrite,
  periodOf,
  personOf,
  sentHere,
  tagsIn,
  textArea,
  textField,
  typed,
  type Sent
} from "../Writing.ts"

const statuses = [
  ["open", "Open"],
  ["in_progress", "In progress"],
  ["blocked", "Blocked"],
  ["done", "Done"],
  ["cancelled", "Cancelled"]
] as const
const waitsFor = [
  ["decision", "A decision of a person"],
  ["external", "Something outside"],
  ["other", "Something else"]
] as const
const priorities = [
  ["0", "0 critical"],
  ["1", "1 high"],
  ["2", "2 normal"],
  ["3", "3 low"],
  ["4", "4 backlog"]
] as const

/** Each returns the page to show next. */
export const taskActions = Effect.gen(function* () {
  const decisions = yield* Decisions
  const notes = yield* Notes
  const tasks = yield* Tasks
  const at = (view: View) => pathOf(view, "tasks", view.id)
  const gone = () => new NotHere()

  const answer = Effect.fnUntraced(function* (view: View, author: Actor, sent: Sent) {
    const { fields } = sent
    const said = [typed(fields, "choice"), typed(fields, "text")]
      .map((text) => text.trim())
      .filter((text) => text !== "")
    const input = yield* checked(view, TaskAnswer, {
      id: view.id,
      expected_version: versionIn(fields),
      text: said.join("\n"),
      idempotency_key: keyOf(view.session, at(view), sent)
    })
    yield* decisions.answer(author, personOf(view.session), input).pipe(
      Effect.catchTags({
        ...commonRefusals,
        task_not_found: gone,
        stale_version: () => conflict(wasFirst),
        task_not_asking: () => conflict(wasFirst)
      })
    )
    return at(view)
  })

  const create = Effect.fnUntraced(function* (view: View, author: Actor, sent: Sent) {
    const { fields } = sent
    const input = yield* checked(view, TaskCreate, {
      title: typed(fields, "title").trim(),
      body: typed(fields, "body"),
      priority: Number(fields.get("priority") ?? 2),
      tags: tagsIn(fields),
      idempotency_key: keyOf(view.session, pathOf(view, "tasks"), sent)
    })
    const created = yield* tasks
      .create(author, input)
      .pipe(Effect.catchTags({ ...commonRefusals, task_not_found: Effect.die, task_graph_too_large: Effect.die }))
    return pathOf(view, "tasks", created.answer.id)
  })

  const change = Effect.fnUntraced(function* (view: View, author: Actor, sent: Sent) {
    const { task } = yield* tasks.get(view.project, view.id).pipe(Effect.catchTag("task_not_found", gone))
    const changes = changesTo(task, sent.fields)
    if (versionIn(sent.fields) === task.version && Object.keys(changes).length === 0) return at(view)
    const input = yield* checked(view, TaskUpdate, {
      ...changes,
      id: view.id,
      expected_version: versionIn(sent.fields),
      idempotency_key: keyOf(view.session, at(view), sent)
    })
    const changed = (problem: string) => () => conflict(problem)
    yield* tasks.update(author, input).pipe(
      Effect.catchTags({
        ...commonRefusals,
        task_not_found: gone,
        stale_version: changed(hasChanged),
        task_claimed: () =>
          conflict("Somebody else is at work on this task. Set its status to open first, then assign it."),
        task_transition_invalid: ({ message }) => conflict(message),
        task_dependencies_open: ({ message }) => conflict(message),
        invalid_request: ({ message }) => conflict(message),
        task_dependency_cycle: Effect.die,
        task_graph_too_large: Effect.die,
        receipt_exists: Effect.die
      })
    )
    return at(view)
  })

  const note = Effect.fnUntraced(function* (view: View, author: Actor, sent: Sent) {
    const text = typed(sent.fields, "note").trim()
    const idempotency_key = keyOf(view.session, at(view), sent)
    const input = yield* checked(view, TaskNote, { id: view.id, text, idempotency_key }, { text: "Note" })
    yield* notes.add(author, input).pipe(Effect.catchTags({ ...commonRefusals, task_not_found: gone }))
    return at(view)
  })

  return { answer, create, change, note }
})

const wasFirst =
  "Somebody was first, so nothing was saved. The page shows the task as it is now, and what you typed below."
const hasChanged =
  "The task has changed since you opened it, so nothing was saved. Look at what it is now, then save again if you still want to."

/** Not a number: no version, which is refused. */
const versionIn = (fields: URLSearchParams) => Number(fields.get("version") ?? Number.NaN)

/** The fields of the form that differ from the task. Only a blocked task has a reason and a kind. */
const changesTo = (task: Task, fields: URLSearchParams) => {
  const assignee = typed(fields, "assignee").trim()
  const isBlocked = fields.get("status") === "blocked"
  const reason = typed(fields, "blocked_reason").trim()
  const wanted = {
    title: typed(fields, "title").trim(),
    body: typed(fields, "body"),
    status: fields.get("status") ?? task.status,
    priority: Number(fields.get("priority") ?? task.priority),
    tags: tagsIn(fields),
    assignee: assignee === "" ? null : assignee,
    blocked_kind: isBlocked ? (fields.get("blocked_kind") ?? "other") : undefined,
    blocked_reason: isBlocked && reason !== "" ? reason : undefined
  }
  return given(
    Object.fromEntries(
      Object.entries(wanted).filter(([name, value]) => !isEqual(value, task[name as keyof typeof wanted]))
    )
  )
}

const isEqual = Schema.toEquivalence(Schema.Unknown)

/** The question of a task, with the form that answers it for those who may. */
export const question = (view: View, task: Task): Part => {
  const { blocked_kind, blocked_reason, choices, status, title, version } = task
  const isAsking = blocked_kind === "decision"
  if (status !== "blocked") return undefined
  return html`<section class="card ask" aria-labelledby="question">
    <h2 id="question">${isAsking ? "A decision is needed" : "It is blocked"}</h2>
    ${view.markdown(blocked_reason ?? title)}
    ${isAsking && mayWrite(view, "tasks:write") && answerForm(view, choices ?? [], version)}
  </section>`
}

const answerForm = (view: View, choices: ReadonlyArray<string>, version: number) => {
  const sent = sentHere(view, "answer")
  const chosen = sent?.get("choice") ?? ""
  return form(
    view,
    "answer",
    html`<input type="hidden" name="version" value="${version}" />
      ${
        choices.length > 0 &&
        html`<fieldset>
          <legend>Choose an answer</legend>
          ${choices.map(
            (choice) =>
              html`<label class="choice">
                <input type="radio" name="choice" value="${choice}" ${choice === chosen && html`checked`} />
                <span class="name">${choice}</span>
              </label>`
          )}
        </fieldset>`
      }
      ${textArea(
        "text",
        choices.length > 0 ? "Add to it, or answer in your own words" : "Your answer",
        sent === undefined ? "" : typed(sent, "text"),
        choices.length > 0 ? html`rows="3" maxlength="4000"` : html`rows="3" maxlength="4000" required`
      )}
      <div><button class="primary">Answer</button></div>`
  )
}

/** What was typed as an answer to a question that has gone. */
export const lostAnswer = (view: View, task: Task): Part => {
  const sent = sentHere(view, "answer")
  if (sent === undefined || task.blocked_kind === "decision") return undefined
  const said = [typed(sent, "choice"), typed(sent, "text")].filter((text) => text.trim() !== "").join("\n")
  return html`<div class="note" role="alert" data-unsaved><p>${view.unsaved?.problem}</p></div>
    <section class="card ask" aria-labelledby="typed">
      <h2 id="typed">What you typed</h2>
      ${prose(said)}
    </section>`
}

export const createTaskForm = (view: View): Part => {
  if (!mayWrite(view, "tasks:write")) return undefined
  const sent = sentHere(view, "create")
  const value = (name: string) => (sent === undefined ? "" : typed(sent, name))
  return folded(
    view,
    "create",
    "New task",
    html`${periodOf(view)} ${textField("title", "Title", value("title"), html`required maxlength="200"`, "wide")}
      ${textArea("body", "Text", value("body"), html`rows="6" maxlength="16384"`)}
      ${choiceField("priority", "Priority", priorities, sent?.get("priority") ?? "2")}
      ${textField("tags", "Tags (with spaces between)", value("tags"))}
      <div class="wide"><button class="primary">Create task</button></div>`
  )
}

export const addNoteForm = (view: View): Part => {
  if (!mayWrite(view, "tasks:write")) return undefined
  const sent = sentHere(view, "note")
  const text = sent === undefined ? "" : typed(sent, "note")
  return folded(
    view,
    "note",
    "Add a note",
    html`${periodOf(view)} ${textArea("note", "Note", text, html`rows="4" maxlength="4000" required`)}
      <div class="wide"><button class="primary">Add note</button></div>`
  )
}

export const changeTaskForm = (view: View, task: Task): Part => {
  if (!mayWrite(view, "tasks:write")) return undefined
  const sent = sentHere(view, "change")
  const now: Readonly<Record<string, string>> = {
    title: task.title,
    body: task.body,
    status: task.status,
    priority: String(task.priority),
    assignee: task.assignee ?? "",
    tags: task.tags.join(" "),
    blocked_kind: task.blocked_kind ?? "other",
    blocked_reason: task.blocked_reason ?? ""
  }
  const value = (name: string) => (sent === undefined ? now[name]! : typed(sent, name))
  /** After a conflict: what the field is now, beside what was typed. */
  const current = (name: string): Part =>
    sent !== undefined &&
    value(name).trim() !== now[name]!.trim() &&
    html`<p class="soft small current">Now: <span class="name">${now[name] === "" ? "empty" : now[name]}</span></p>`
  return folded(
    view,
    "change",
    "Change this task",
    html`<input type="hidden" name="version" value="${task.version}" />
      ${textField("title", "Title", value("title"), html`required maxlength="200"`, "wide")} ${current("title")}
      ${textArea("body", "Text", value("body"), html`rows="8" maxlength="16384"`)} ${current("body")}
      ${choiceField("status", "Status", statuses, value("status"))} ${current("status")}
      ${choiceField("priority", "Priority", priorities, value("priority"))} ${current("priority")}
      ${textField("assignee", "Assigned to", value("assignee"), html`maxlength="128"`)} ${current("assignee")}
      ${textField("tags", "Tags (with spaces between)", value("tags"))} ${current("tags")}
      ${choiceField("blocked_kind", "If blocked: waits for", waitsFor, value("blocked_kind"))}
      ${current("blocked_kind")}
      ${textArea("blocked_reason", "If blocked: why", value("blocked_reason"), html`rows="3" maxlength="500"`)}
      ${current("blocked_reason")}
      <div class="wide"><button class="primary">Save</button></div>`
  )
}

const choiceField = (
  id: string,
  label: string,
  all: ReadonlyArray<readonly [value: string, label: string]>,
  chosen: string
): Html =>
  html`<div>
    <label for="${id}">${label}</label>
    <select id="${id}" name="${id}">
      ${options(all, chosen)}
    </select>
  </div>`
