/** Notes on tasks: what a session wants to leave between receipts. A note changes no version (spec 3.5). */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { bytesOf, refuseFull } from "../continuity/Budget.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import * as Idempotency from "../continuity/Idempotency.ts"
import * as NoteStore from "./NoteStore.ts"
import { Note, type TaskNote } from "./Shapes.ts"
import * as TaskStore from "./TaskStore.ts"

export class Notes extends Context.Service<
  Notes,
  {
    readonly add: (
      actor: Actor,
      input: TaskNote
    ) => Effect.Effect<
      Replayable<Note>,
      Unavailable | ContinuityRefusal<"task_not_found" | "idempotency_conflict" | "limit_exceeded">
    >
  }
>()("service/tasks/Notes") {
  static readonly layer = Layer.effect(
    Notes,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const tasks = TaskStore.make(sql)
      const notes = NoteStore.make(sql)
      const { once } = Idempotency.make(sql)

      const add = Effect.fn("Notes.add")(function* (actor: Actor, input: TaskNote) {
        const now = yield* clock.now
        const { project_id } = actor
        const work = Effect.gen(function* () {
          const note = noteOf(input.id, input.text, actor, yield* uuidAt(now), now)
          const stored_bytes = storedBytesOfNote(note)
          const trace = yield* traceAt(now)
          const added = yield* notes.insert(project_id, note, trace, stored_bytes, storedMaxima(actor.limits))
          if (Option.isSome(added)) return note
          if (Option.isNone(yield* tasks.find(project_id, input.id))) return yield* refuse("task_not_found")
          return yield* refuseFull(sql, actor, { stored_bytes })
        })
        return yield* once(Note, { actor, tool: "task_note" }, input, now, work)
      }, persistence)

      return { add }
    })
  )
}

export const noteOf = (task_id: string, text: string, actor: Actor, id: string, now: Date): Note => ({
  id,
  task_id,
  text,
  actor: actorName(actor),
  created_at: now
})

/** Bytes that a note counts for besides its text: notes have no other limit. */
const perNote = 512

/** What a note adds to the project's `stored_bytes`. */
export const storedBytesOfNote = ({ text }: Pick<Note, "text">) => perNote + bytesOf(text)
