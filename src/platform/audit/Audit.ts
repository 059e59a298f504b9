/**
 * The audit log (spec 6.2): append-only rows of ids and codes.
 *
 * The row of a mutation is part of its transaction: `done`, or `auditRow` as a clause of the statement. A refusal gets a
 * row only if the caller is known, and at most one per minute, project, code and subject; other refusals are only logged. What an
 * authenticated caller may not change is refused only with its row (decisions.md, Refusals and their audit rows).
 */
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { persistence } from "../database/Persistence.ts"
import { uuidAt } from "../crypto/Random.ts"
import type { Trace } from "../sql/AuditRow.ts"
import { Caller } from "../../wire/Headers.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import * as Store from "./AuditStore.ts"
import type { Page } from "../sql/Page.ts"

export const traceAt = Effect.fnUntraced(function* (at: Date) {
  const { address, userAgent } = yield* Caller
  return { event_id: yield* uuidAt(at), at, address, user_agent: userAgent } satisfies Trace
})

type Refused = Store.Event & { readonly code: string }

export class Audit extends Context.Service<
  Audit,
  {
    /** Call this in the mutation's transaction. */
    readonly done: (at: Date, event: Store.Event) => Effect.Effect<void, SqlError.SqlError>
    /** Like `done`, for what changes nothing and may be repeated at will: one row a minute and subject, with a count. */
    readonly repeated: (at: Date, event: Store.Event) => Effect.Effect<void, SqlError.SqlError>
    /** Call this before refusing a mutation: if the row cannot be written, the answer is not the refusal (spec 4.11). */
    readonly refused: (at: Date, event: Refused) => Effect.Effect<void, SqlError.SqlError>
    /** The same for a credential or proof that is refused. A failed write is logged and does not change the answer. */
    readonly rejected: (at: Date, event: Refused) => Effect.Effect<void>
    /** Newest first; of one project, or of all. Only within a project can it be filtered by action or `about`. */
    readonly list: (
      project_id: string | undefined,
      page: Page,
      filter?: Store.Filter
    ) => Effect.Effect<ReadonlyArray<Store.AuditEvent>, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/audit/Audit") {
  static readonly layer = Layer.effect(
    Audit,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)

      const done = (at: Date, event: Store.Event) =>
        Effect.flatMap(traceAt(at), (trace) => store.insertDone(event, trace)).pipe(Effect.asVoid)

      const count = Effect.fn("Audit.count")(function* (at: Date, event: Store.Event & { readonly code?: string }) {
        const minute = Math.floor(at.getTime() / 60_000)
        const { action, code = "done", project_id, subject } = event
        const key = JSON.stringify([minute, action, code, project_id, subject])
        yield* store.count(event, key, yield* traceAt(at))
      })
      const repeated = (at: Date, event: Store.Event) => count(at, event)
      const refused = (at: Date, event: Refused) => count(at, event)

      const rejected = (at: Date, event: Refused) => Effect.ignore(persistence(refused(at, event)))

      const list = Effect.fn("Audit.list")(store.list, persistence)

      return { done, repeated, refused, rejected, list }
    })
  )
}
