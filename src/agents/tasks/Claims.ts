/**
 * Claims of tasks (decisions.md, Claims): a claim holds until its holder gives the task up, or somebody takes it over and
 * says why.
 *
 * 1. The holder is the credential and the assignee together. The same two claim again without a change, so a lost answer
 *    is safe to repeat. The remembered answer of an idempotency_key is for the credential that claimed only.
 * 2. A task at work by another is refused before its version is looked at: whoever repeats a claim with the new version
 *    must not get it.
 * 3. A takeover writes an audit row and a note on the task, and no receipt.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { refuseFull } from "../continuity/Budget.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import * as Idempotency from "../continuity/Idempotency.ts"
import * as DependencyStore from "./dependencies/DependencyStore.ts"
import { noteOf, storedBytesOfNote } from "./Notes.ts"
import * as NoteStore from "./NoteStore.ts"
import { Task, type TaskClaim } from "./Shapes.ts"
import { changed, checkChange, claimed, holds, isAtWork, stale } from "./TaskChange.ts"
import * as Tasks from "./Tasks.ts"
import * as TaskStore from "./TaskStore.ts"

export class Claims extends Context.Service<
  Claims,
  {
    readonly claim: (
      actor: Actor,
      input: TaskClaim
    ) => Effect.Effect<
      Replayable<Task>,
      | Unavailable
      | ContinuityRefusal<
          | "task_not_found"
          | "task_claimed"
          | "stale_version"
          | "task_transition_invalid"
          | "task_dependencies_open"
          | "idempotency_conflict"
          | "invalid_request"
          | "limit_exceeded"
        >
    >
  }
>()("service/tasks/Claims") {
  static readonly layer = Layer.effect(
    Claims,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const tasks = TaskStore.make(sql)
      const dependencies = DependencyStore.make(sql)
      const notes = NoteStore.make(sql)
      const { once } = Idempotency.make(sql)

      const claim = Effect.fn("Claims.claim")(function* (actor: Actor, input: TaskClaim) {
        const now = yield* clock.now
        const { project_id } = actor
        const { assignee = actorName(actor), expected_version, id, takeover } = input

        const work = Effect.gen(function* () {
          const found = yield* tasks.lock(project_id, id)
          if (Option.isNone(found)) return yield* refuse("task_not_found")
          const before = found.value
          const mine = holds(before, actor, assignee)
          if (isAtWork(before) && mine && before.claimed_by === actorName(actor)) return before
          const isTaken = isAtWork(before) && !mine
          if (isTaken && takeover === undefined) return yield* claimed(before)
          if (before.version !== expected_version) return yield* stale(before)
          if (before.blocked_kind === "decision") return yield* waitsForDecision

          const update = { id, expected_version, status: "in_progress", assignee } as const
          const after = { ...changed(before, update, actor, now), claimed_at: now, claimed_by: actorName(actor) }
          yield* checkChange(before, after, update)
          yield* checkDependencies(project_id, before)
          const bytes = Tasks.storedBytes(after) - Tasks.storedBytes(before)
          const maxima = storedMaxima(actor.limits)
          const written = yield* tasks.update(
            project_id,
            after,
            undefined,
            actorName(actor),
            now,
            yield* traceAt(now),
            bytes,
            maxima
          )
          if (Option.isNone(written)) return yield* refuseFull(sql, actor, { stored_bytes: bytes })
          if (isTaken) yield* recordTakeover(actor, before, takeover!.reason, now)
          return { ...after, ready: false }
        }).pipe(sql.withTransaction)

        const done = yield* once(Task, { actor, tool: "task_claim" }, input, now, work)
        if (done.replayed && done.answer.claimed_by !== actorName(actor)) return yield* claimOfAnother
        return done
      }, persistence)

      const checkDependencies = Effect.fnUntraced(function* (project_id: string, { depends_on, ready }: Task) {
        if (ready || depends_on.length === 0) return
        const found = yield* dependencies.findAll(project_id, depends_on)
        const open = found.filter(({ status }) => status !== "done" && status !== "cancelled").map(({ id }) => id)
        if (open.length > 0) return yield* withDetails(refuse("task_dependencies_open"), { open })
      })

      const recordTakeover = Effect.fnUntraced(function* (actor: Actor, before: Task, reason: string, now: Date) {
        const { project_id } = actor
        const from = before.assignee ?? before.claimed_by
        const text = `Taken over from ${from}, at work since ${before.claimed_at?.toISOString()}: ${reason}`
        const note = noteOf(before.id, text, actor, yield* uuidAt(now), now)
        const stored_bytes = storedBytesOfNote(note)
        const added = yield* notes.insert(
          project_id,
          note,
          yield* traceAt(now),
          stored_bytes,
          storedMaxima(actor.limits)
        )
        if (Option.isNone(added)) return yield* refuseFull(sql, actor, { stored_bytes })
        const subject = { task_id: before.id, note_id: note.id }
        yield* audit.done(now, { action: "task.taken_over", project_id, actor: actorName(actor), subject })
      })

      return { claim }
    })
  )
}

const claimOfAnother = withDetails(
  refuse("idempotency_conflict"),
  {},
  "Another credential claimed with this idempotency_key. Claim with another key."
)

const waitsForDecision = withDetails(
  refuse("task_transition_invalid"),
  { from: "blocked", to: "in_progress", allowed: [] },
  "The task waits for a person's decision; task_wait says when it is made."
)
