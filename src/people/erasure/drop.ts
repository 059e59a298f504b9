/** Deletes what a line of SERVICE_ERASURE_FILE names: for a command, for a retention period, or after a restore. */
import { Effect, Option } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { purgeDocument, purgeEntriesBefore, purgeEntry, purgeReceiptsBefore, purgeTask } from "../../agents/Wing.ts"
import type { Erased } from "./ErasureFile.ts"
import * as Store from "./ErasureStore.ts"
import * as PersonStore from "./PersonStore.ts"

/** Rows of one transaction of a retention period. */
const batch = 1000

/** What the audit row says besides ids. */
export type Counts = Readonly<Record<string, string>>
export const done = Option.some<Counts>({})

/** Deletes what a line names; none if there is nothing of it. */
export const drop = (
  sql: SqlClient.SqlClient,
  erased: Erased,
  now: Date
): Effect.Effect<Option.Option<Counts>, SqlError.SqlError> => {
  const { kind, project_id, target_id } = erased
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
    case "project":
      return Effect.as(Store.make(sql).dropProject(project_id, now), done)
    case "retention":
      return Effect.as(
        Effect.repeat(applyRetention(sql, erased), { until: ({ entries, receipts }) => entries + receipts === 0 }),
        done
      )
  }
}

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
