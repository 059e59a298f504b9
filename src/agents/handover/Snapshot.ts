/**
 * The startup snapshot (spec 4.11): the state of a project for an agent that starts, within a size limit.
 *
 * Tasks with an answer come first, then those that wait for a person. Items are shortened to excerpts and added in turns
 * (a task, an entry, a receipt) while they fit. An item that does
 * not fit is skipped and the next one tried. Ids are never shortened, and skipped items are counted.
 */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Actor } from "../../wire/Actor.ts"
import { after } from "../../wire/Instant.ts"
import { excerpt } from "../../wire/Text.ts"
import type { Receipt } from "../tasks/Shapes.ts"
import type { SnapshotReceipt, SnapshotTask, StartupSnapshot } from "./Shapes.ts"
import type { Unavailable } from "../continuity/Errors.ts"
import { notice } from "../continuity/Shapes.ts"
import { shown } from "../continuity/Shown.ts"
import * as ReceiptStore from "../tasks/ReceiptStore.ts"
import * as SearchStore from "../memory/SearchStore.ts"
import * as TaskStore from "../tasks/TaskStore.ts"

/** How many items of each kind a snapshot holds. */
const maxItems = { tasks: 20, memory: 15, decisions: 8, receipts: 10 }
const excerptBytes = 600
/** A task in progress is stale when it has not been updated for this long. */
const staleAfter = Duration.hours(24)

export class Snapshot extends Context.Service<
  Snapshot,
  {
    /** At most `max_bytes` as JSON. */
    readonly take: (actor: Actor, max_bytes?: number) => Effect.Effect<StartupSnapshot, Unavailable>
  }
>()("service/handover/Snapshot") {
  static readonly layer = Layer.effect(
    Snapshot,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const tasks = TaskStore.make(sql)
      const memory = SearchStore.make(sql)
      const receipts = ReceiptStore.make(sql)

      const take = Effect.fn("Snapshot.take")(function* (actor: Actor, max_bytes = 24_576) {
        const now = yield* clock.now
        const { project_id } = actor
        const answered = yield* tasks.withAnswer(project_id, maxItems.tasks)
        const asked = yield* tasks.asked(project_id, maxItems.tasks)
        const rest = yield* tasks.unfinished(project_id, maxItems.tasks)
        const unfinished = distinct([...answered, ...asked, ...rest]).slice(0, maxItems.tasks)
        const decisions = yield* memory.recent(project_id, { kind: "decision" }, undefined, maxItems.decisions)
        const entries = yield* memory.recent(project_id, {}, undefined, maxItems.memory + maxItems.decisions)
        const latest = yield* receipts.recent(project_id, maxItems.receipts)

        const first = decisions.slice(0, maxItems.decisions)
        const known = new Set(first.map(({ id }) => id))
        const others = entries.filter(({ id }) => !known.has(id)).slice(0, maxItems.memory - first.length)
        const offered = {
          open_tasks: unfinished.map((task) => taskOf(task, now)),
          recent_memory: [...first, ...others].map(memoryOf),
          recent_receipts: latest.map(receiptOf)
        }
        const total = {
          tasks: countOf(yield* tasks.countUnfinished(project_id)),
          memory: countOf(yield* memory.countActive(project_id)),
          receipts: countOf(yield* receipts.count(project_id))
        }
        // Escaped before it is measured.
        return select(shown({ id: project_id, name: actor.project_name }), now, shown(offered), total, max_bytes)
      }, persistence)

      return { take }
    })
  )
}

type Offered = Pick<StartupSnapshot, "open_tasks" | "recent_memory" | "recent_receipts">

/**
 * Selects the items that fit. Sizes are exact, because they are measured on the JSON that is sent; space for the counts
 * is reserved at their largest values.
 */
const select = (
  project: StartupSnapshot["project"],
  now: Date,
  offered: Offered,
  total: StartupSnapshot["omitted"],
  max_bytes: number
): StartupSnapshot => {
  const empty = { open_tasks: [], recent_memory: [], recent_receipts: [] }
  const frame = { notice, project, generated_at: now, ...empty, omitted: total, bytes: max_bytes, truncated: false }
  let used = sizeOf(frame)
  const collect = <A>(items: ReadonlyArray<A>) => {
    const taken: Array<A> = []
    const offer = (index: number) => {
      const item = items[index]
      if (item === undefined) return
      const size = sizeOf(item) + 1
      if (used + size > max_bytes) return
      used += size
      taken.push(item)
    }
    return { taken, offer }
  }
  const tasks = collect(offered.open_tasks)
  const memory = collect(offered.recent_memory)
  const receipts = collect(offered.recent_receipts)
  for (let index = 0; index < Math.max(maxItems.tasks, maxItems.memory, maxItems.receipts); index += 1) {
    tasks.offer(index)
    memory.offer(index)
    receipts.offer(index)
  }
  const omitted = {
    tasks: Math.max(0, total.tasks - tasks.taken.length),
    memory: Math.max(0, total.memory - memory.taken.length),
    receipts: Math.max(0, total.receipts - receipts.taken.length)
  }
  const snapshot = {
    notice,
    project,
    generated_at: now,
    open_tasks: tasks.taken,
    recent_memory: memory.taken,
    recent_receipts: receipts.taken,
    omitted,
    bytes: 0,
    truncated: omitted.tasks + omitted.memory + omitted.receipts > 0
  }
  return { ...snapshot, bytes: withOwnDigits(sizeOf(snapshot) - 1) }
}

/** `JSON.stringify` writes a `Date` as the same text as the wire format. */
const sizeOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

/** The total of `rest` and the digits of that total: the size of a text that contains its own size. */
const withOwnDigits = (rest: number): number => {
  const digits = String(rest + String(rest).length).length
  return rest + digits
}

const countOf = (row: Option.Option<{ readonly count: number }>) =>
  Option.match(row, { onNone: () => 0, onSome: ({ count }) => count })

/** Each task once, at its first place. */
const distinct = (tasks: ReadonlyArray<TaskStore.UnfinishedTask>) => {
  const seen = new Set<string>()
  return tasks.filter(({ id }) => seen.size < seen.add(id).size)
}

const taskOf = ({ answer, body, ...task }: TaskStore.UnfinishedTask, now: Date): SnapshotTask => ({
  ...task,
  answer: answer === null ? null : { ...answer, text: excerpt(answer.text, excerptBytes) },
  excerpt: excerpt(body, excerptBytes),
  stale: task.status === "in_progress" && after(task.updated_at, staleAfter).getTime() <= now.getTime()
})

const memoryOf = ({ body, ...entry }: SearchStore.Found) => ({ ...entry, excerpt: excerpt(body, excerptBytes) })

const receiptOf = (receipt: Receipt): SnapshotReceipt => ({
  id: receipt.id,
  task_id: receipt.task_id,
  session_ref: receipt.session_ref,
  worker: receipt.worker,
  outcome: receipt.outcome,
  summary: excerpt(receipt.summary, excerptBytes),
  next_steps: receipt.next_steps.map((step) => excerpt(step, 200)),
  git_checkpoint: receipt.git_checkpoint,
  actor: receipt.actor,
  created_at: receipt.created_at
})
