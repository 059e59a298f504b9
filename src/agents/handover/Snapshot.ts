/**
 * The startup snapshot (spec 4.11): the state of a project for an agent that starts, within a size limit.
 *
 * Tasks with an answer come first, then those that wait for a person. Items are shortened to excerpts and added in turns
 * (a task, an entry, a receipt), each as long as it fits. One that does not fit at all is skipped and the next one tried.
 * Ids are never shortened, and skipped items are counted. Filters choose among the first or newest 2,000 of each kind; the
 * counts are of the whole project.
 */
import { Context, Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Actor } from "../../wire/Actor.ts"
import { after } from "../../wire/Instant.ts"
import { excerpt } from "../../wire/Text.ts"
import type { Receipt } from "../tasks/Shapes.ts"
import type { SnapshotEntry, SnapshotReceipt, SnapshotRequest, SnapshotTask, StartupSnapshot } from "./Shapes.ts"
import type { Unavailable } from "../continuity/Errors.ts"
import { notice } from "../continuity/Shapes.ts"
import { shown } from "../continuity/Shown.ts"
import * as ReceiptStore from "../tasks/ReceiptStore.ts"
import * as SearchStore from "../memory/SearchStore.ts"
import * as TaskStore from "../tasks/TaskStore.ts"

/** How many items of each kind a snapshot holds. */
const maxItems = { tasks: 20, memory: 15, decisions: 8, receipts: 10 }
/** How long an item may be: bytes of its text, bytes of a line in a list, items of a list, and whether a checkpoint fits. */
interface Length {
  readonly text: number
  readonly line: number
  readonly items: number
  readonly checkpoint: boolean
}
/** The longest that fits is chosen. With the last one, an item of each kind fits into the smallest snapshot. */
const lengths: ReadonlyArray<Length> = [
  { text: 600, line: 200, items: 16, checkpoint: true },
  { text: 200, line: 80, items: 6, checkpoint: true },
  { text: 60, line: 40, items: 1, checkpoint: true },
  { text: 60, line: 40, items: 1, checkpoint: false }
]
/** A task in progress is stale when it has not been updated for this long. */
const staleAfter = Duration.hours(24)

export class Snapshot extends Context.Service<
  Snapshot,
  {
    /** At most `max_bytes` as JSON. */
    readonly take: (actor: Actor, request?: SnapshotRequest) => Effect.Effect<StartupSnapshot, Unavailable>
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

      const take = Effect.fn("Snapshot.take")(function* (actor: Actor, request: SnapshotRequest = {}) {
        const { max_bytes = 24_576, ...filter } = request
        const tags = filter.tag === undefined ? [] : [filter.tag]
        const now = yield* clock.now
        const { project_id } = actor
        const answered = yield* tasks.withAnswer(project_id, filter, maxItems.tasks)
        const asked = yield* tasks.asked(project_id, filter, maxItems.tasks)
        const rest = yield* tasks.unfinished(project_id, filter, maxItems.tasks)
        const unfinished = distinct([...answered, ...asked, ...rest]).slice(0, maxItems.tasks)
        const decisions = yield* memory.recent(project_id, { kind: "decision", tags }, undefined, maxItems.decisions)
        const entries = yield* memory.recent(project_id, { tags }, undefined, maxItems.memory + maxItems.decisions)
        const latest = yield* receipts.recent(project_id, filter, maxItems.receipts)

        const first = decisions.slice(0, maxItems.decisions)
        const known = new Set(first.map(({ id }) => id))
        const others = entries.filter(({ id }) => !known.has(id)).slice(0, maxItems.memory - first.length)
        const offered = {
          tasks: unfinished.map((task) => lengths.map((length) => taskOf(task, now, length))),
          memory: [...first, ...others].map((entry) => lengths.map((length) => memoryOf(entry, length))),
          receipts: latest.map((receipt) => lengths.map((length) => receiptOf(receipt, length)))
        }
        const counts = Option.getOrThrow(yield* tasks.counts(project_id))
        const total = {
          tasks: counts.in_progress + counts.open + counts.blocked,
          memory: countOf(yield* memory.countActive(project_id)),
          receipts: countOf(yield* receipts.count(project_id))
        }
        // Escaped before it is measured.
        const project = shown({ id: project_id, name: actor.project_name })
        return select({ notice, project, generated_at: now, counts }, shown(offered), total, max_bytes)
      }, persistence)

      return { take }
    })
  )
}

type Head = Pick<StartupSnapshot, "notice" | "project" | "generated_at" | "counts">
/** Each item in all its lengths, the longest first. */
interface Offered {
  readonly tasks: ReadonlyArray<ReadonlyArray<SnapshotTask>>
  readonly memory: ReadonlyArray<ReadonlyArray<SnapshotEntry>>
  readonly receipts: ReadonlyArray<ReadonlyArray<SnapshotReceipt>>
}

/**
 * Selects the items that fit, each in the greatest length that does. Sizes are exact, because they are measured on the JSON
 * that is sent; space for the counts is reserved at their largest values.
 */
const select = (
  head: Head,
  offered: Offered,
  total: StartupSnapshot["omitted"],
  max_bytes: number
): StartupSnapshot => {
  const empty = { open_tasks: [], recent_memory: [], recent_receipts: [] }
  const frame = { ...head, ...empty, omitted: total, bytes: max_bytes, truncated: false }
  let used = sizeOf(frame)
  const collect = <A>(items: ReadonlyArray<ReadonlyArray<A>>) => {
    const taken: Array<A> = []
    const offer = (index: number, most: number) => {
      const item = items[index]?.find((length) => sizeOf(length) + 1 <= Math.min(most, max_bytes - used))
      if (item === undefined) return
      used += sizeOf(item) + 1
      taken.push(item)
    }
    return { taken, offer }
  }
  const tasks = collect(offered.tasks)
  const memory = collect(offered.memory)
  const receipts = collect(offered.receipts)
  // The first of each kind leaves room for those of the other kinds.
  const share = Math.floor((max_bytes - used) / 3)
  for (let index = 0; index < Math.max(maxItems.tasks, maxItems.memory, maxItems.receipts); index += 1) {
    const most = index === 0 ? share : Infinity
    tasks.offer(index, most)
    memory.offer(index, most)
    receipts.offer(index, most)
  }
  const omitted = {
    tasks: Math.max(0, total.tasks - tasks.taken.length),
    memory: Math.max(0, total.memory - memory.taken.length),
    receipts: Math.max(0, total.receipts - receipts.taken.length)
  }
  const snapshot = {
    ...head,
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

const taskOf = (
  { answer, blocked_reason, body, choices, tags, ...task }: TaskStore.UnfinishedTask,
  now: Date,
  { items, line, text }: Length
): SnapshotTask => ({
  ...task,
  tags: tags.slice(0, items),
  blocked_reason: blocked_reason === null ? null : excerpt(blocked_reason, text),
  choices: choices?.map((choice) => excerpt(choice, line)) ?? null,
  answer: answer === null ? null : { ...answer, text: excerpt(answer.text, text) },
  excerpt: excerpt(body, text),
  stale: task.status === "in_progress" && after(task.updated_at, staleAfter).getTime() <= now.getTime()
})

const memoryOf = ({ body, tags, ...entry }: SearchStore.Found, { items, text }: Length): SnapshotEntry => ({
  ...entry,
  tags: tags.slice(0, items),
  excerpt: excerpt(body, text)
})

const receiptOf = (receipt: Receipt, { checkpoint, items, line, text }: Length): SnapshotReceipt => ({
  id: receipt.id,
  task_id: receipt.task_id,
  session_ref: receipt.session_ref,
  worker: receipt.worker,
  outcome: receipt.outcome,
  summary: excerpt(receipt.summary, text),
  next_steps: receipt.next_steps.slice(0, items).map((step) => excerpt(step, line)),
  pitfalls: receipt.pitfalls.slice(0, items).map((pitfall) => excerpt(pitfall, line)),
  git_checkpoint: checkpoint ? receipt.git_checkpoint : null,
  actor: receipt.actor,
  created_at: receipt.created_at
})
