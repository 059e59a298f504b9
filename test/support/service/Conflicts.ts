/**
 * A database that finds conflicts late, as distributed ones do: with CONFLICTS=0.05 every twentieth statement or COMMIT of
 * the service fails with SQLSTATE 40001, and its transaction has to begin anew. Which ones is chosen by SEED.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import { limitTransactions } from "../../../src/platform/database/Transactions.ts"
import { seed } from "../run/Seed.ts"

/** How many of the statements and commits fail. */
export const share = Number(process.env["CONFLICTS"] ?? 0)

const conflict = Effect.fail(
  new SqlError.SqlError({ reason: new SqlError.SerializationError({ cause: { code: "40001" }, operation: "execute" }) })
)

let drawn = seed >>> 0
/** A number from 0 to 1 (mulberry32). */
const draw = () => {
  drawn = (drawn + 0x6d2b79f5) >>> 0
  let mixed = Math.imul(drawn ^ (drawn >>> 15), 1 | drawn)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

const withConflicts = (inner: SqlConnection.Connection): SqlConnection.Connection => {
  let isOpen = false
  const run = <A>(text: string, statement: Effect.Effect<A, SqlError.SqlError>) =>
    Effect.suspend((): Effect.Effect<A, SqlError.SqlError> => {
      if (/^(ROLLBACK|SAVEPOINT)/.test(text)) {
        if (text === "ROLLBACK") isOpen = false
        return statement
      }
      if (text === "BEGIN") {
        isOpen = true
        return statement
      }
      const wasOpen = isOpen
      if (text === "COMMIT") isOpen = false
      if (draw() >= share) return statement
      // PostgreSQL refuses every further statement of a transaction that has failed, until its end.
      const end = text === "COMMIT" ? inner.executeRaw("ROLLBACK", []) : inner.executeRaw("select 1 / 0", [])
      return Effect.andThen(wasOpen ? Effect.ignore(end) : Effect.void, conflict)
    })
  return {
    execute: (sql, ...rest) => run(sql, inner.execute(sql, ...rest)),
    executeRaw: (sql, ...rest) => run(sql, inner.executeRaw(sql, ...rest)),
    executeValues: (sql, ...rest) => run(sql, inner.executeValues(sql, ...rest)),
    executeValuesUnprepared: (sql, ...rest) => run(sql, inner.executeValuesUnprepared(sql, ...rest)),
    executeUnprepared: (sql, ...rest) => run(sql, inner.executeUnprepared(sql, ...rest)),
    executeStream: (sql, ...rest) => inner.executeStream(sql, ...rest)
  }
}

const between = Layer.effect(
  SqlClient.SqlClient,
  Effect.gen(function* () {
    const { driver, reserve } = yield* SqlClient.SqlClient
    const client = yield* SqlClient.make({
      driver,
      acquirer: Effect.map(reserve, withConflicts),
      compiler: PgClient.makeCompiler(),
      spanAttributes: []
    })
    return limitTransactions(client, "5 seconds")
  })
).pipe(Layer.provide(Reactivity.layer))

const none = Layer.effect(SqlClient.SqlClient, Effect.service(SqlClient.SqlClient))

export const conflicts: typeof none = share > 0 ? between : none
