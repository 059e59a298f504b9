/**
 * A layer between the service and its connection pool. It fails the n-th statement from now on (BEGIN and COMMIT count) in
 * one of four ways, records every error that PostgreSQL returns, and can rewrite the text of a statement. The service's
 * own error handling runs unchanged.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import { Database } from "../../../src/platform/database/Database.ts"
import { describe } from "../../../src/platform/database/Persistence.ts"
import { limitTransactions } from "../../../src/platform/database/Transactions.ts"

export const faults = ["refused", "broken", "disconnected before", "disconnected after"] as const

/**
 * - refused: the statement does not run; it fails like a statement timeout.
 * - broken: the statement does not run; it dies with a defect.
 * - disconnected before: the server ends the connection before the statement is sent.
 * - disconnected after: the statement runs, and its answer is lost with the connection.
 */
export type Fault = (typeof faults)[number]

/**
 * `rewrite`: applied to the text of every statement before it is sent. `report`: gets errors that PostgreSQL itself returned:
 * `DeadlockError 40P01`, `UniqueViolation 23505 name`. `first`: run on a connection whenever it is taken from the pool.
 */
export const faultyDatabase = (
  rewrite: (statement: string) => string = (statement) => statement,
  report: (error: string) => void = () => {},
  first?: string
) => {
  let fault: Fault | undefined
  let remaining = 0

  const connection = (inner: SqlConnection.Connection): SqlConnection.Connection => {
    const end = Effect.ignoreCause(inner.executeRaw("select pg_terminate_backend(pg_backend_pid())", []))
    const failed = Effect.flatMap(inner.executeRaw("select 1", []), () =>
      Effect.die("The connection should be closed.")
    )
    const record = (error: SqlError.SqlError) =>
      Effect.sync(() => {
        const { constraint, reason, sqlstate } = describe(error)
        report([reason, sqlstate, constraint].join(" ").trim())
      })
    const intercept = <A>(text: string, run: (text: string) => Effect.Effect<A, SqlError.SqlError>) =>
      Effect.suspend((): Effect.Effect<A, SqlError.SqlError> => {
        const statement = Effect.tapError(run(rewrite(text)), record)
        if (fault === undefined || --remaining > 0) return statement
        const current = fault
        fault = undefined
        // PostgreSQL ends the transaction even if it refuses the COMMIT.
        const rolledBack = text === "COMMIT" ? Effect.ignoreCause(inner.executeRaw("ROLLBACK", [])) : Effect.void
        switch (current) {
          case "refused":
            return Effect.andThen(rolledBack, Effect.fail(refusal))
          case "broken":
            return Effect.andThen(rolledBack, Effect.die(new Error("A planted defect")))
          case "disconnected before":
            return Effect.andThen(end, statement)
          case "disconnected after":
            return statement.pipe(Effect.andThen(end), Effect.andThen(failed))
        }
      })
    return {
      execute: (sql, ...rest) => intercept(sql, (text) => inner.execute(text, ...rest)),
      executeRaw: (sql, ...rest) => intercept(sql, (text) => inner.executeRaw(text, ...rest)),
      executeValues: (sql, ...rest) => intercept(sql, (text) => inner.executeValues(text, ...rest)),
      executeValuesUnprepared: (sql, ...rest) => intercept(sql, (text) => inner.executeValuesUnprepared(text, ...rest)),
      executeUnprepared: (sql, ...rest) => intercept(sql, (text) => inner.executeUnprepared(text, ...rest)),
      executeStream: (sql, ...rest) => inner.executeStream(rewrite(sql), ...rest)
    }
  }

  const layer = Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const { driver, reserve } = yield* SqlClient.SqlClient
      const client = yield* SqlClient.make({
        driver,
        acquirer: Effect.map(
          first === undefined ? reserve : Effect.tap(reserve, (inner) => inner.executeRaw(first, [])),
          connection
        ),
        compiler: PgClient.makeCompiler(),
        spanAttributes: []
      })
      return limitTransactions(client, "5 seconds")
    })
  ).pipe(Layer.provide(Reactivity.layer))

  return {
    layer,
    /** The same for connections outside the pool. */
    dedicated: Layer.effect(
      Database,
      Effect.map(Database, (database) =>
        Database.of({
          ...database,
          dedicated: (work, limit) => database.dedicated(Effect.provide(work, layer), limit)
        })
      )
    ),
    /** The `nth` statement from now fails, and only that one. */
    fail: (how: Fault, nth: number) =>
      Effect.sync(() => {
        fault = how
        remaining = nth
      }),
    /** Cancels a pending fault. Returns whether the last fault had already been injected. */
    heal: Effect.sync(() => {
      const happened = fault === undefined
      fault = undefined
      return happened
    })
  }
}

const refusal = new SqlError.SqlError({
  reason: new SqlError.StatementTimeoutError({ cause: { code: "57014" }, operation: "execute" })
})
