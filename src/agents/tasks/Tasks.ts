/**
 * Tasks of a project, and the receipts of the sessions that worked on them (spec 2.8, 3.5, 4.11).
 *
 * 1. An update names the version that its caller has read. If several callers send the same version, one wins; this is
 *    how tasks are claimed.
 * 2. The row is locked, checked and written with the receipt in one transaction. A refusal rolls the transaction back.
 * 3. Refusals are checked in this order: not found, stale version, claimed by somebody else, transition, dependencies,
 *    receipt exists.
 */
import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import type { Page } from "../../platform/sql/Page.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { withDetails } from "../../wire/Refusal.ts"
import {
  type Receipt,
  Task,
  TaskChanged,
  type TaskCreate,
  type TaskCreateMany,
  type TaskFound,
  type TaskList,
  type TaskPage,
  TasksAdded,
  type TaskUpdate
} from "./Shapes.ts"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { bytesOf, FurtherWrites, refuseFull } from "../continuity/Budget.ts"
import * as Cursor from "../continuity/Cursor.ts"
import * as Dependencies from "./dependencies/Dependencies.ts"
import * as DependencyStore from "./dependencies/DependencyStore.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import * as Idempotency from "../continuity/Idempotency.ts"
import { inOrder } from "./inOrder.ts"
import * as NoteStore from "./NoteStore.ts"
import * as ReceiptStore from "./ReceiptStore.ts"
import { changed, checkChange, claimed, notificationOf, stale, takes } from "./TaskChange.ts"
import * as Store from "./TaskStore.ts"

/** Tasks that wait for another one, and are written when that is closed or reopened: so many cost as much as a call. */
const waitingPerWrite = 20

/** What reading needs of an actor. */
type InProject = Pick<Actor, "project_id">

export class Tasks extends Context.Service<
  Tasks,
  {
    readonly create: (
      actor: Actor,
      input: TaskCreate
    ) => Effect.Effect<
      Replayable<Task>,
      | Unavailable
      | ContinuityRefusal<"task_not_found" | "task_graph_too_large" | "idempotency_conflict" | "limit_exceeded">
    >
    /** All or none, in one transaction. */
    readonly createMany: (
      actor: Actor,
      input: TaskCreateMany
    ) => Effect.Effect<
      Replayable<typeof TasksAdded.Type>,
      | Unavailable
      | ContinuityRefusal<
          | "task_not_found"
          | "task_dependency_cycle"
          | "task_graph_too_large"
          | "idempotency_conflict"
          | "invalid_request"
          | "limit_exceeded"
        >
    >
    readonly update: (
      actor: Actor,
      input: TaskUpdate
    ) => Effect.Effect<
      Replayable<TaskChanged>,
      | Unavailable
      | ContinuityRefusal<
          | "task_not_found"
          | "stale_version"
          | "task_claimed"
          | "task_transition_invalid"
          | "task_dependencies_open"
          | "task_dependency_cycle"
          | "task_graph_too_large"
          | "receipt_exists"
          | "idempotency_conflict"
          | "invalid_request"
          | "limit_exceeded"
        >
    >
    /** With its last 5 receipts, its dependencies, and up to 10 tasks that depend on it. */
    readonly get: (
      actor: InProject,
      id: string
    ) => Effect.Effect<TaskFound, Unavailable | ContinuityRefusal<"task_not_found">>
    readonly list: (
      actor: InProject,
      input: TaskList
    ) => Effect.Effect<TaskPage, Unavailable | ContinuityRefusal<"cursor_invalid" | "task_not_found">>
    /** Tasks that wait for a decision of a person, with the question as `blocked_reason`; the most urgent first. */
    readonly questions: (project_id: string, limit: number) => Effect.Effect<ReadonlyArray<Store.Question>, Unavailable>
    /** The receipts of a task, newest first. */
    readonly receipts: (
      project_id: string,
      task_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<Receipt>, Unavailable>
  }
>()("service/tasks/Tasks") {
  static readonly layer = Layer.effect(
    Tasks,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const outbox = yield* Outbox
      const store = Store.make(sql)
      const dependencies = DependencyStore.make(sql)
      const { checkCrowds, checkDependencies, setDependencies, unfinishedOf } = Dependencies.make(dependencies)
      const receipts = ReceiptStore.make(sql)
      const notes = NoteStore.make(sql)
      const { once } = Idempotency.make(sql)

      /** Adds a task in one statement, or in the transaction of its caller. */
      const add = Effect.fnUntraced(function* (actor: Actor, task: Task, now: Date) {
        const { project_id } = actor
        const trace = yield* traceAt(now)
        const maxima = storedMaxima(actor.limits)
        const added = yield* store.insert(project_id, task, now, trace, storedBytes(task), maxima)
        if (Option.isSome(added)) return { ...task, ready: added.value.ready }
        yield* checkDependencies(project_id, task.depends_on)
        if (typeof task.parent === "string" && Option.isNone(yield* store.find(project_id, task.parent)))
          return yield* withDetails(refuse("task_not_found"), { field: "parent" })
        return yield* refuseFull(sql, actor, { tasks: 1, stored_bytes: storedBytes(task) })
      })

      /** The same in a transaction that holds the lock of the project's dependencies. */
      const addWaiting = Effect.fnUntraced(function* (actor: Actor, task: Task, now: Date) {
        yield* checkCrowds(actor.project_id, task.depends_on)
        return yield* add(actor, task, now)
      })

      const create = Effect.fn("Tasks.create")(function* (actor: Actor, input: TaskCreate) {
        const now = yield* clock.now
        const task = newTask(yield* uuidAt(now), input, actor, now)
        const waiting = sql.withTransaction(
          Effect.andThen(dependencies.lockGraph(actor.project_id), addWaiting(actor, task, now))
        )
        const work = task.depends_on.length === 0 ? add(actor, task, now) : waiting
        return yield* once(Task, { actor, tool: "task_create" }, input, now, work)
      }, persistence)

      const createMany = Effect.fn("Tasks.createMany")(function* (actor: Actor, input: TaskCreateMany) {
        const now = yield* clock.now
        const work = Effect.gen(function* () {
          const items = yield* Effect.forEach(input.tasks, (item) => Effect.map(uuidAt(now), (id) => ({ ...item, id })))
          const ordered = yield* inOrder(items)
          const named = ordered.flatMap(({ depends_on }) => depends_on)
          if (named.length > 0) {
            yield* dependencies.lockGraph(actor.project_id)
            yield* dependencies.lock(actor.project_id, named)
          }
          yield* Effect.forEach(ordered, ({ field, ...item }) =>
            Effect.catchTag(
              addWaiting(actor, newTask(item.id, item, actor, now), now),
              "task_not_found",
              ({ details }) =>
                withDetails(refuse("task_not_found"), { field: `${field}.${String(details?.["field"])}` })
            )
          )
          return {
            tasks: items.map(({ id, ref }) => ({
              ...(ref === undefined ? undefined : { ref }),
              id,
              version: 1,
              status: "open" as const,
              assignee: null
            }))
          }
        }).pipe(sql.withTransaction)
        return yield* once(TasksAdded, { actor, tool: "task_create_many" }, input, now, work)
      }, persistence)

      const update = Effect.fn("Tasks.update")(function* (actor: Actor, input: TaskUpdate) {
        const now = yield* clock.now
        const { project_id, subject } = actor
        const depends_on = input.depends_on === undefined ? undefined : distinct(input.depends_on).toSorted()

        const work = Effect.gen(function* () {
          if (depends_on !== undefined || closesOrReopens(input)) yield* dependencies.lockGraph(project_id)
          const found = yield* store.lock(project_id, input.id)
          if (Option.isNone(found)) return yield* refuse("task_not_found")
          const before = found.value
          if (before.version !== input.expected_version) {
            return yield* stale(before)
          }
          if (takes(before, input, actor)) return yield* claimed(before)
          const after = {
            ...changed(before, input, actor, now),
            ...(depends_on === undefined ? undefined : { depends_on })
          }
          yield* checkChange(before, after, input)
          if (depends_on !== undefined) yield* setDependencies(project_id, before, depends_on)
          const unfinished = yield* unfinishedOf(project_id, after, before, depends_on)
          if (after.status === "in_progress" && before.status !== "in_progress" && unfinished.length > 0) {
            return yield* withDetails(refuse("task_dependencies_open"), { open: unfinished })
          }
          if ((after.closed_at === null) !== (before.closed_at === null)) {
            const waiting = yield* dependencies.lockWaiting(project_id, [input.id])
            yield* (yield* FurtherWrites)(Math.floor(waiting / waitingPerWrite))
          }
          const receipt = input.receipt === undefined ? undefined : yield* receiptOf(input.receipt, after, actor, now)
          const bytes =
            storedBytes(after) - storedBytes(before) + (receipt === undefined ? 0 : storedBytesOfReceipt(receipt))
          const trace = yield* traceAt(now)
          const maxima = storedMaxima(actor.limits)
          const written = yield* store.update(project_id, after, receipt, actorName(actor), now, trace, bytes, maxima)
          // The row is locked and its version checked, so only a limit can have stopped the statement.
          if (Option.isNone(written)) return yield* refuseFull(sql, actor, { stored_bytes: bytes })
          if (receipt !== undefined && written.value.receipt_id === null) return yield* refuse("receipt_exists")
          const kind = notificationOf(before, after)
          if (kind !== undefined) {
            const event_id = yield* uuidAt(now)
            yield* outbox.enqueue(now, { kind, event_id, project_id, about: after.id, subject })
          }
          const task = { ...after, ready: after.status === "open" && unfinished.length === 0 }
          return receipt === undefined ? { task } : { task, receipt }
        }).pipe(sql.withTransaction)

        return yield* once(TaskChanged, { actor, tool: "task_update" }, input, now, work)
      }, persistence)

      const get = Effect.fn("Tasks.get")(function* ({ project_id }: InProject, id: string) {
        const found = yield* store.find(project_id, id)
        if (Option.isNone(found)) return yield* refuse("task_not_found")
        return {
          task: found.value,
          receipts: yield* receipts.ofTask(project_id, id, { after: undefined, limit: 5 }),
          notes: yield* notes.ofTask(project_id, id, 5),
          dependencies: yield* dependencies.dependenciesOf(project_id, id),
          blocks: yield* dependencies.blockedBy(project_id, id, 10)
        }
      }, persistence)

      const list = Effect.fn("Tasks.list")(function* ({ project_id }: InProject, input: TaskList) {
        const { assignee, cursor, limit = 25, order = "priority", parent, ready, status, tag } = input
        const filters = [
          "task_list",
          order,
          status ?? null,
          ready ?? null,
          assignee ?? null,
          tag ?? null,
          ...(parent === undefined ? [] : [parent])
        ]
        const after: Store.After =
          order === "priority"
            ? { order, keys: yield* Cursor.read(cursor, ByPriority, filters) }
            : { order, keys: yield* Cursor.read(cursor, ByUpdate, filters) }
        const found = yield* store.list(project_id, { assignee, parent, ready, status, tag }, after, limit)
        if (found.length === 0 && parent !== undefined && Option.isNone(yield* store.find(project_id, parent)))
          return yield* withDetails(refuse("task_not_found"), { field: "parent" })
        const page = found.slice(0, limit)
        const last = page.at(-1)
        if (found.length <= limit || last === undefined) return { tasks: page }
        const keys =
          order === "priority"
            ? [last.priority, last.created_at.toISOString(), last.id]
            : [last.updated_at.toISOString(), last.id]
        return { tasks: page, next_cursor: Cursor.write(keys, filters) }
      }, persistence)

      return {
        create,
        createMany,
        update,
        get,
        list,
        questions: Effect.fn("Tasks.questions")(store.questions, persistence),
        receipts: Effect.fn("Tasks.receipts")(receipts.ofTask, persistence)
      }
    })
  )
}

const newTask = (
  id: string,
  input: Omit<TaskCreate, "idempotency_key" | "verbose">,
  actor: Actor,
  now: Date
): Task => ({
  id,
  title: input.title,
  body: input.body ?? "",
  status: "open",
  priority: input.priority ?? 2,
  tags: distinct(input.tags),
  depends_on: distinct(input.depends_on).toSorted(),
  parent: input.parent ?? null,
  ready: true,
  assignee: null,
  claimed_at: null,
  claimed_by: null,
  version: 1,
  blocked_reason: null,
  blocked_kind: null,
  created_by: actorName(actor),
  updated_by: actorName(actor),
  created_at: now,
  updated_at: now,
  closed_at: null,
  choices: null,
  asked_by: null,
  answer: null,
  answered_by: null,
  answer_entry_id: null
})

/** Whether the update can change whether the task is closed; the task is read under the locks that this decides on. */
const closesOrReopens = ({ status }: TaskUpdate) => status === "done" || status === "cancelled" || status === "open"

const ByPriority = Schema.Tuple([
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
  Cursor.Time,
  Cursor.Id
])
const ByUpdate = Schema.Tuple([Cursor.Time, Cursor.Id])

/** What a task adds to the project's `stored_bytes`. */
export const storedBytes = ({
  answer,
  blocked_reason,
  body,
  choices,
  tags,
  title
}: Pick<Task, "answer" | "blocked_reason" | "body" | "choices" | "tags" | "title">) =>
  bytesOf(title, body, blocked_reason, answer?.text ?? null, ...(choices ?? []), ...tags)

/** Bytes that a receipt counts for besides its text: receipts have no other limit, and each takes two rows. */
const perReceipt = 1024

/** The same for a receipt. */
export const storedBytesOfReceipt = ({
  git_checkpoint,
  next_steps,
  pitfalls,
  summary
}: Pick<Receipt, "git_checkpoint" | "next_steps" | "pitfalls" | "summary">) =>
  perReceipt +
  bytesOf(summary, git_checkpoint === null ? null : JSON.stringify(git_checkpoint), ...next_steps, ...pitfalls)

const distinct = (texts: ReadonlyArray<string> = []): ReadonlyArray<string> => [...new Set(texts)]

const receiptOf = Effect.fnUntraced(function* (
  input: NonNullable<TaskUpdate["receipt"]>,
  task: Task,
  actor: Actor,
  now: Date
) {
  return {
    id: yield* uuidAt(now),
    task_id: task.id,
    session_ref: input.session_ref,
    worker: input.worker,
    thread: input.thread ?? null,
    outcome: input.outcome,
    summary: input.summary,
    next_steps: input.next_steps ?? [],
    pitfalls: input.pitfalls ?? [],
    git_checkpoint: input.git_checkpoint ?? null,
    task_version_after: task.version,
    task_status_after: task.status,
    actor: actorName(actor),
    created_at: now
  } satisfies Receipt
})
