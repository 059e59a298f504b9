/**
 * A SqlClient between the service and its pool. It can fail the n-th next statement (BEGIN and COMMIT count) in one of
 * four ways, records every error that PostgreSQL itself answers, and can rewrite statements. How the service reacts is
 * the service's own code.
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
 * - refused: the statement does not run and fails like a statement timeout.
 * - broken: it does not run, and a defect is thrown.
 * - disconnected before: the server ends the connection before the statement is sent.
 * - disconnected after: the statement runs, but its answer is lost with the connection.
 */
export type Fault = (typeof faults)[number]

export const faultyDatabase = (edited: (statement: string) => string = (statement) => statement) => {
  const errors: Array<string> = []
  let fault: Fault | undefined
  let left = 0

  const connection = (to: SqlConnection.Connection): SqlConnection.Connection => {
    const end = Effect.ignoreCause(to.executeRaw("select pg_terminate_backend(pg_backend_pid())", []))
    const dead = Effect.flatMap(to.executeRaw("select 1", []), () => Effect.die("The connection should be dead."))
    const note = (error: SqlError.SqlError) =>
      Effect.sync(() => {
        const { constraint, reason, sqlstate } = describe(error)
        errors.push([reason, sqlstate, constraint].join(" ").trim())
      })
    const may = <A>(text: string, run: (text: string) => Effect.Effect<A, SqlError.SqlError>) =>
      Effect.suspend((): Effect.Effect<A, SqlError.SqlError> => {
        const statement = Effect.tapError(run(edited(text)), note)
        if (fault === undefined || --left > 0) return statement
        const now = fault
        fault = undefined
        // A COMMIT that fails ends the transaction anyway.
        const undone = text === "COMMIT" ? Effect.ignoreCause(to.executeRaw("ROLLBACK", [])) : Effect.void
        switch (now) {
          case "refused":
            return Effect.andThen(undone, Effect.fail(refusal))
          case "broken":
            return Effect.andThen(undone, Effect.die(new Error("A planted defect")))
          case "disconnected before":
            return Effect.andThen(end, statement)
          case "disconnected after":
            return statement.pipe(Effect.andThen(end), Effect.andThen(dead))
        }
      })
    return {
      execute: (sql, ...given) => may(sql, (text) => to.execute(text, ...given)),
      executeRaw: (sql, ...given) => may(sql, (text) => to.executeRaw(text, ...given)),
      executeValues: (sql, ...given) => may(sql, (text) => to.executeValues(text, ...given)),
      executeValuesUnprepared: (sql, ...given) => may(sql, (text) => to.executeValuesUnprepared(text, ...given)),
      executeUnprepared: (sql, ...given) => may(sql, (text) => to.executeUnprepared(text, ...given)),
      executeStream: (sql, ...given) => to.executeStream(edited(sql), ...given)
    }
  }

  const layer = Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const { driver, reserve } = yield* SqlClient.SqlClient
      const client = yield* SqlClient.make({
        driver,
        acquirer: Effect.map(reserve, connection),
        compiler: PgClient.makeCompiler(),
        spanAttributes: []
      })
      return limitTransactions(client, "5 seconds")
    })
  ).pipe(Layer.provide(Reactivity.layer))

  return {
    layer,
    /** The same for dedicated connections. */
    dedicated: Layer.effect(
      Database,
      Effect.map(Database, (database) =>
        Database.of({ ...database, dedicated: (work) => database.dedicated(Effect.provide(work, layer)) })
      )
    ),
    /** Errors that PostgreSQL answered, oldest first: `DeadlockError 40P01`, `UniqueViolation 23505 name`. */
    errors,
    /** The `nth` statement from now fails, and only that one. */
    fail: (how: Fault, nth: number) =>
      Effect.sync(() => {
        fault = how
        left = nth
      }),
    /** Cancels the fault. Returns whether it had happened already. */
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
