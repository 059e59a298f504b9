/**
 * Tables of conditions: rows in which a statement acts, and single changes of these rows after which it does not. So each
 * condition decides alone in one row of the table, and a statement that lost a condition fails there.
 *
 * Every row runs in a transaction of its own that is rolled back. Foreign keys are not checked, so that a change may move
 * a row to another project or identity.
 */
import { assert, type Vitest } from "@effect/vitest"
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"

/** State -> the SQL that brings it about. */
type Changes = Readonly<Record<string, string>>

export interface Statement {
  /** SQL that inserts the rows. */
  readonly given: string
  /** Runs the statement. It acted if it returns a row. */
  readonly act: (sql: SqlClient.SqlClient) => Effect.Effect<Option.Option<unknown> | ReadonlyArray<unknown>, unknown>
  /** For a statement that returns no row: a query that finds one if it acted. */
  readonly seen?: string
  readonly actsOn?: Changes
  readonly actsNotOn: Changes
}

class Undo {
  declare readonly acted: boolean
  constructor(acted: boolean) {
    this.acted = acted
  }
}

export const testConditions = (
  it: Vitest.MethodsNonLive<SqlClient.SqlClient>,
  name: string,
  { act, actsNotOn, actsOn = {}, given, seen }: Statement
) => {
  const run = Effect.fnUntraced(function* (change: string) {
    const sql = yield* SqlClient.SqlClient
    const rows = `do $rows$ begin set local session_replication_role = replica; ${given}; ${change}; end $rows$`
    return yield* Effect.gen(function* () {
      yield* sql.unsafe(rows.replaceAll(/;\s*(?=;)/g, "")).unprepared
      const result = yield* act(sql)
      const found = seen === undefined ? result : yield* sql.unsafe(seen).unprepared
      return yield* Effect.fail(new Undo(Option.isOption(found) ? Option.isSome(found) : found.length > 0))
    }).pipe(
      sql.withTransaction,
      Effect.catch((error) => (error instanceof Undo ? Effect.succeed(error.acted) : Effect.fail(error)))
    )
  })
  const each = (changes: Changes, acts: boolean) =>
    Object.entries(changes).forEach(([state, change]) =>
      it.effect(`${name}: ${acts ? "" : "not "}${state}`, () =>
        Effect.gen(function* () {
          assert.strictEqual(yield* run(change), acts)
        })
      )
    )
  each({ "as given": "", ...actsOn }, true)
  each(actsNotOn, false)
}
