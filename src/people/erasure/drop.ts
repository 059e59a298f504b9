/** Deletes what a line of SERVICE_ERASURE_FILE names: for a command, for a retention period, or after a restore. */
import { Effect, Option } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { purgeDocument, purgeEntriesBefore, purgeEntry, purgeReceiptsBefore, purgeTask } from "../../agents/Wing.ts"
import * as Progress from "../../platform/metrics/Progress.ts"
import type { Erased } from "./ErasureFile.ts"
import * as Store from "./ErasureStore.ts"
import * as PersonStore from "./PersonStore.ts"

/** Rows of one transaction of a retention period. */
const batch = 1000

/** What the audit row says besides ids. */
export type Counts = Readonly<Record<string, string>>
export const done = Option.some<Counts>({})

type One = Erased & { readonly kind: "memory" | "task" | "document" | "subject" }

/** Deletes the one that a line names, in the transaction of its caller; none if it is not there. */
export const dropOne = (
  sql: SqlClient.SqlClient,
  { kind, project_id, target_id }: One,
  now: Date
): Effect.Effect<Option.Option<Counts>, SqlError.SqlError> => {
  const ifFound = Effect.map((found: boolean) => (found ? done : Option.none<Counts>()))
  switch (kind) {
    case "memory":
      return ifFound(purgeEntry(sql, project_id, target_id!))
    case "task":
      return ifFound(purgeTask(sql, project_id, target_id!))
    case "document":
      return ifFound(purgeDocument(sql, project_id, target_id!))
    case "subject":
      return ifFound(PersonStore.make(sql).eraseToken(project_id, target_id!, pseudonymOf(target_id!), now))
  }
}

/** Deletes what a line names from a restored database: in several transactions, as it was deleted before. May be repeated. */
export const dropAgain = (
  sql: SqlClient.SqlClient,
  erased: Erased,
  now: Date
): Effect.Effect<unknown, SqlError.SqlError> => {
  const { kind, project_id } = erased
  switch (kind) {
    case "project":
      return Effect.andThen(
        dropDerived(project_id, (next) => next(sql)),
        sql.withTransaction(Store.make(sql).dropProject(project_id, now))
      )
    case "retention":
      return Effect.repeat(sql.withTransaction(applyRetention(sql, erased)), {
        until: ({ entries, receipts }) => entries + receipts === 0
      })
    default:
      return sql.withTransaction(dropOne(sql, { ...erased, kind }, now))
  }
}

type Dropped = Option.Option<{ readonly next: ReadonlyArray<string> }>

/** Leaves so little of a project that the rest goes in one transaction. `run` carries out one batch after the other. */
export const dropDerived = Effect.fnUntraced(function* <E>(
  project_id: string,
  run: (next: (sql: SqlClient.SqlClient) => Effect.Effect<Dropped, SqlError.SqlError>) => Effect.Effect<Dropped, E>
) {
  yield* Progress.expect(Effect.succeed(Store.derivedTables.length))
  for (const table of Store.derivedTables) {
    let start: ReadonlyArray<string> | undefined
    do {
      const dropped: Dropped = yield* run((sql) => Store.make(sql).dropDerived(table, project_id, start))
      start = Option.getOrUndefined(dropped)?.next
    } while (start !== undefined)
    yield* Progress.done(1)
  }
})

/** One batch of entries and one of receipts; returns how many rows went. */
export const applyRetention = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { memory_before, project_id, receipts_before }: Erased
) {
  const entries = memory_before === null ? 0 : yield* purgeEntriesBefore(sql, project_id, memory_before, batch)
  const receipts = receipts_before === null ? 0 : yield* purgeReceiptsBefore(sql, project_id, receipts_before, batch)
  return { entries, receipts }
})

/** The same for a token wherever and whenever it is erased. */
export const pseudonymOf = (token_id: string) => `erased-${token_id.slice(-12)}`
