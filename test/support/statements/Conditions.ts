/**
 * Tables of conditions: rows in which a statement acts, and single changes of these rows after which it does not. So each
 * condition decides alone in one row of the table, and a statement that lost a condition fails there.
 *
 * Beside the rows stand those of a bystander: the same in another project, unchanged. A statement that lost a join finds
 * or changes them, or finds a row twice.
 *
 * Every row runs in a transaction of its own that is rolled back. Foreign keys are not checked, so that a change may move
 * a row to another project or identity.
 */
import { assert, type Vitest } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import type { Sweep } from "../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import type { Locking } from "../../../src/platform/sql/Asked.ts"
import type { Asked, Lookup } from "../../../src/platform/sql/Lookup.ts"
import { environment } from "../service/Service.ts"

/** State -> the SQL that brings it about. */
type Changes = Readonly<Record<string, string>>

export interface Statement {
  /** SQL that inserts the rows. */
  readonly given: string
  /** The bystander's rows; by default those of `given`, under other ids. */
  readonly bystander?: string
  /** Runs the statement. It acted if it returns a row. */
  readonly act: (sql: SqlClient.SqlClient) => Effect.Effect<Option.Option<unknown> | ReadonlyArray<unknown>, unknown>
  /** For a statement that returns no row: a query that finds one if it acted. */
  readonly seen?: string
  readonly actsOn?: Changes
  readonly actsNotOn: Changes
}

/**
 * Runs a statement that serves several requests (Asked.ts) for one that waits for locks. Before that, and undone, it runs for
 * one and for two requests that do not wait; what they change must be the same. `other` changes nothing.
 */
export const changedEachWay =
  <In, Out, E>(
    act: (all: ReadonlyArray<In>, locking: Locking) => Effect.Effect<ReadonlyArray<Option.Option<Out>>, E>,
    input: In,
    other: In
  ): Statement["act"] =>
  (sql) =>
    Effect.gen(function* () {
      const undone = (all: ReadonlyArray<In>) =>
        Effect.flatMap(act(all, "skip locked"), (results) =>
          Effect.fail(new Undo(Option.isSome(results.at(-1)!) && results.slice(0, -1).every(Option.isNone)))
        ).pipe(
          sql.withTransaction,
          Effect.catch((error) => (error instanceof Undo ? Effect.succeed(error.acted) : Effect.fail(error)))
        )
      const early = [yield* undone([input]), yield* undone([other, input])]
      const [result] = yield* act([input], "")
      assert.deepStrictEqual(
        early,
        [Option.isSome(result!), Option.isSome(result!)],
        "alone, and together with another"
      )
      return result!
    })

/** Runs the sweep of this name, with the default settings. */
export const sweepOf =
  (sweeps: ReadonlyArray<Sweep<Settings>>, name: string, now: Date): Statement["act"] =>
  (sql) =>
    Effect.provide(sweeps.find((sweep) => sweep.name === name)!.run(sql, now, 9), settings)

const settings = Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))

class Undo {
  declare readonly acted: boolean
  constructor(acted: boolean) {
    this.acted = acted
  }
}

export const testConditions = (
  it: Vitest.MethodsNonLive<SqlClient.SqlClient>,
  name: string,
  { act, actsNotOn, actsOn = {}, bystander, given, seen }: Statement
) => {
  const beside = ofBystander(bystander ?? given)
  const run = Effect.fnUntraced(function* (change: string) {
    const sql = yield* SqlClient.SqlClient
    const query = (text: string) => sql.unsafe(text).unprepared
    return yield* Effect.gen(function* () {
      yield* query(blockOf(given, change, beside))
      const before = yield* query(rowsOfBystander)
      const result = yield* act(sql)
      if (!Option.isOption(result)) {
        assert.strictEqual(new Set(result.map((row) => inspect(row))).size, result.length, "each row once")
      }
      const found = seen === undefined ? result : yield* query(seen)
      assert.deepStrictEqual(yield* query(rowsOfBystander), before, "rows of the bystander")
      return yield* Effect.fail(new Undo(Option.isOption(found) ? Option.isSome(found) : found.length > 0))
    }).pipe(
      sql.withTransaction,
      Effect.catch((error) => (error instanceof Undo ? Effect.succeed(error.acted) : Effect.fail(error)))
    )
  })
  const each = (changes: Changes, acts: boolean) =>
    Object.entries(changes).forEach(([state, change]) =>
      it.effect(`${name}${acts ? "" : ", but not"} ${state}`, () =>
        Effect.gen(function* () {
          assert.strictEqual(yield* run(change), acts)
        })
      )
    )
  each({ "as given": "", ...actsOn }, true)
  each(actsNotOn, false)
}

/** Runs the lookup for one token and for several. Both must find the same. */
export const lookedUp = Effect.fnUntraced(function* <A>({ each, one }: Lookup<A>, asked: Asked) {
  const found = yield* one(asked)
  const together = yield* each([{ ...asked, token_hash: new Uint8Array(32) }, asked, asked])
  assert.deepStrictEqual(together, [Option.none(), found, found])
  return found
})

const statementsIn = (text: string) => text.split(/;\s*/).filter((statement) => statement.trim() !== "")

/** One statement, and so one round trip. */
const blockOf = (...parts: ReadonlyArray<string>) => {
  const statements = parts.flatMap(statementsIn).map((statement) => `${statement};`)
  return `do $$ begin set local session_replication_role = replica; ${statements.join(" ")} end $$`
}

const isBystanders = "::text ~ 'bystander|-7000-8001-'"

/** Updates and deletes usually name no row, because there is only one; these are limited to the bystander's. */
const ofBystander = (given: string) =>
  statementsIn(given)
    .map((statement) => {
      const [, table] = /^\s*(?:update|delete from) (\w+)/.exec(statement) ?? []
      if (table === undefined) return statement
      return `${statement} ${/\bwhere\b/.test(statement) ? "and" : "where"} ${table}${isBystanders}`
    })
    .join("; ")
    .replaceAll("-7000-8000-", "-7000-8001-")
    .replaceAll(/sha256\('([^']*)'\)/g, "sha256('$1 of the bystander')")
    .replaceAll("'client'", "'client of the bystander'")
    .replaceAll("https://agent.example", "https://bystander.example")

const tables = [
  "bridge_identity",
  "bridge_enrollment_credential",
  "bridge_token",
  "bridge_rotation",
  "bridge_key_rotation",
  "bridge_access_token",
  "enrollment_challenge",
  "approved_account_reference",
  "project",
  "project_token",
  "operator_token",
  "person_key",
  "console_session",
  "console_link",
  "oauth_client",
  "oauth_grant",
  "oauth_request",
  "oauth_code",
  "oauth_access_token",
  "oauth_refresh_token",
  "mobile_device",
  "mobile_registration",
  "push_outbox",
  "memory_entry",
  "memory_posting",
  "memory_count",
  "memory_reindex",
  "memory_embedding",
  "embedding_block",
  "embedding_queue",
  "task",
  "task_dependency",
  "receipt",
  "task_note",
  "idempotency_record",
  "project_usage",
  "pinned_document"
]

const rowsOfBystander = tables
  .map((table) => `select '${table}' as name, t::text as row from ${table} t where t${isBystanders}`)
  .join(" union all ")
  .concat(" order by 1, 2")
