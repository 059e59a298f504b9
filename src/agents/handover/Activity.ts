/** What happened in a project since a time, and its receipts: for an agent that was away (spec 4.11). */
import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Actor } from "../../wire/Actor.ts"
import { excerpt } from "../../wire/Text.ts"
import * as Cursor from "../continuity/Cursor.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import * as TaskStore from "../tasks/TaskStore.ts"
import * as Store from "./ActivityStore.ts"
import {
  type ActivityPage,
  type ActivityRequest,
  happenedKinds,
  instantOf,
  type ReceiptPage,
  type ReceiptRequest
} from "./Shapes.ts"

/** What reading needs of an actor. */
type InProject = Pick<Actor, "project_id">

export class Activity extends Context.Service<
  Activity,
  {
    /** The newest first: changed tasks, receipts, decisions, notes, and notes on tasks, each as an excerpt. */
    readonly since: (
      actor: InProject,
      input: ActivityRequest
    ) => Effect.Effect<ActivityPage, Unavailable | ContinuityRefusal<"cursor_invalid">>
    /** The newest first. */
    readonly receipts: (
      actor: InProject,
      input: ReceiptRequest
    ) => Effect.Effect<ReceiptPage, Unavailable | ContinuityRefusal<"cursor_invalid" | "task_not_found">>
  }
>()("service/handover/Activity") {
  static readonly layer = Layer.effect(
    Activity,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const store = Store.make(sql)
      const tasks = TaskStore.make(sql)

      const since = Effect.fn("Activity.since")(function* ({ project_id }: InProject, input: ActivityRequest) {
        const { cursor, kinds = happenedKinds, limit = 25 } = input
        // A page that follows another goes back as far as the first one did.
        const filters = ["activity", input.since, kinds.toSorted()]
        const after = yield* Cursor.read(cursor, After, filters)
        const from = instantOf(input.since, after === undefined ? yield* clock.now : new Date(after[2]))
        const found = yield* store.since(project_id, from, kinds, after && [after[0], after[1]], limit)
        const page = found.slice(0, limit).map(({ text, ...happened }) => ({ ...happened, text: excerpt(text, 300) }))
        const last = found[limit - 1]
        const asked = after?.[2] ?? (yield* clock.now).toISOString()
        if (found.length <= limit || last === undefined) return { since: from, activity: page }
        const keys = [last.at.toISOString(), last.id, asked]
        return { since: from, activity: page, next_cursor: Cursor.write(keys, filters) }
      }, persistence)

      const receipts = Effect.fn("Activity.receipts")(function* ({ project_id }: InProject, input: ReceiptRequest) {
        const { cursor, limit = 10, since: from, task_id, worker } = input
        const filters = ["receipt_list", task_id ?? null, worker ?? null, from ?? null]
        const after = yield* Cursor.read(cursor, AfterReceipt, filters)
        const since = from === undefined ? undefined : instantOf(from, yield* clock.now)
        const found = yield* store.receipts(project_id, { task_id, worker, since }, after, limit)
        if (found.length === 0 && task_id !== undefined && Option.isNone(yield* tasks.find(project_id, task_id)))
          return yield* refuse("task_not_found")
        const page = found.slice(0, limit)
        const last = page.at(-1)
        if (found.length <= limit || last === undefined) return { receipts: page }
        return { receipts: page, next_cursor: Cursor.write([last.created_at.toISOString(), last.id], filters) }
      }, persistence)

      return { since, receipts }
    })
  )
}

/** The sort keys of the last item, and when the first page was asked for. */
const After = Schema.Tuple([Cursor.Time, Cursor.Id, Cursor.Time])
const AfterReceipt = Schema.Tuple([Cursor.Time, Cursor.Id])
