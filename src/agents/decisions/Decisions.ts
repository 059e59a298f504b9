/**
 * A person's answer to the question of a task that is blocked for a decision (decisions.md, The loop of a decision).
 *
 * 1. The answer names the version of the task that the person has seen: of several answers one wins.
 * 2. One transaction adds it to memory as a decision of the task, and frees the task, which carries it until its next
 *    receipt. A refusal rolls all of it back.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { refuseFull } from "../continuity/Budget.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import * as Idempotency from "../continuity/Idempotency.ts"
import * as Memory from "../memory/Memory.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import { searchText } from "../memory/Search.ts"
import { type Answer, type Task, type TaskAnswer, TaskAnswered } from "../tasks/Shapes.ts"
import { Embeddings } from "../embeddings/Embeddings.ts"
import * as Tasks from "../tasks/Tasks.ts"
import * as TaskStore from "../tasks/TaskStore.ts"

export class Decisions extends Context.Service<
  Decisions,
  {
    /** `by` says who the actor is, as the answer shows it. */
    readonly answer: (
      actor: Actor,
      by: Answer["by"],
      input: TaskAnswer
    ) => Effect.Effect<
      Replayable<TaskAnswered>,
      | Unavailable
      | ContinuityRefusal<
          "task_not_found" | "stale_version" | "task_not_asking" | "idempotency_conflict" | "limit_exceeded"
        >
    >
  }
>()("service/decisions/Decisions") {
  static readonly layer = Layer.effect(
    Decisions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const tasks = TaskStore.make(sql)
      const memory = MemoryStore.make(sql)
      const { configured } = yield* Embeddings
      const { once } = Idempotency.make(sql)

      const answer = Effect.fn("Decisions.answer")(function* (actor: Actor, by: Answer["by"], input: TaskAnswer) {
        const now = yield* clock.now
        const { project_id } = actor
        const { expected_version, id, text } = input

        const work = Effect.gen(function* () {
          const found = yield* tasks.lock(project_id, id)
          if (Option.isNone(found)) return yield* refuse("task_not_found")
          const task = found.value
          if (task.version !== expected_version) {
            return yield* withDetails(refuse("stale_version"), { current_version: task.version })
          }
          if (task.blocked_kind !== "decision") return yield* refuse("task_not_asking")

          const entry = entryOf(task, text, actor, yield* uuidAt(now), now)
          const same_credential = isOwnAnswer(task, actor)
          const given: Answer = { entry_id: entry.id, text, by, at: now, same_credential }
          const freed = { ...task, blocked_reason: null, choices: null, answer: given }
          const bytes = Memory.storedBytes(entry) + Tasks.storedBytes(freed) - Tasks.storedBytes(task)
          const maxima = storedMaxima(actor.limits)
          const index = searchText(Memory.textOf(entry))
          const added = yield* memory.insert(
            project_id,
            entry,
            index,
            now,
            yield* traceAt(now),
            bytes,
            maxima,
            configured
          )
          // The task is locked and the entry supersedes nothing, so only a limit can have stopped the statement.
          if (Option.isNone(added)) {
            return yield* refuseFull(sql, actor, { entries: 1, stored_bytes: bytes, index_bytes: 0 })
          }
          const next = { id, version: task.version + 1, answer: given }
          return Option.getOrThrow(yield* tasks.answered(project_id, next, actorName(actor), yield* traceAt(now)))
        }).pipe(sql.withTransaction)

        return yield* once(TaskAnswered, { actor, tool: "task_answer" }, input, now, work)
      }, persistence)

      return { answer }
    })
  )
}

/** A passkey is never the credential that asked. Questions of earlier releases do not say who asked; whoever wrote the version did. */
const isOwnAnswer = ({ asked_by, updated_by }: Task, actor: Actor) => (asked_by ?? updated_by) === actorName(actor)

/** The first line of the question becomes the title; the body is the answer, then the question. */
const entryOf = (task: Task, text: string, actor: Actor, id: string, now: Date): MemoryStore.EntryRow => {
  const question = task.blocked_reason ?? task.title
  return {
    id,
    kind: "decision",
    title: Memory.firstLine(question),
    body: `${text}\n\n${question}`,
    tags: [],
    active: true,
    supersedes: null,
    superseded_by: null,
    superseded_at: null,
    actor: actorName(actor),
    role: Memory.roleOf(actor),
    session_ref: null,
    task_id: task.id,
    source: null,
    created_at: now
  }
}
