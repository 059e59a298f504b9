/**
 * Transactions whose BEGIN, COMMIT and ROLLBACK have a time limit, and which fail with the error that came first.
 *
 * The library runs these statements uninterruptibly. On a connection that went silent without closing they would hold
 * their request, its place in the pool and the shutdown until TCP gives up, about fifteen minutes later. Past the limit
 * the connection is dropped here; whether a COMMIT took effect is then unknown, and only a retry can tell.
 *
 * A failed ROLLBACK is a defect in the library. It is ignored here: the connection is gone, so PostgreSQL has rolled
 * back by itself. Savepoints are not released one by one; the COMMIT releases them.
 */
import { type Duration, Effect, Option } from "effect"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"

/** Returns a copy of the client with such transactions. */
export const limitTransactions = (client: SqlClient.SqlClient, limit: Duration.Input): SqlClient.SqlClient => {
  const control = (connection: SqlConnection.Connection, statement: string) =>
    Effect.interruptible(connection.executeRaw(statement, [])).pipe(
      Effect.timeoutOrElse({ duration: limit, orElse: () => silent })
    )
  const undo = (connection: SqlConnection.Connection, statement: string) =>
    control(connection, statement).pipe(Effect.retry({ while: wasCanceled, times: 1 }), Effect.ignore)
  // A client is a function with properties. `bind` copies the function, `assign` its properties.
  return Object.assign(client.bind(undefined), client, {
    withTransaction: SqlClient.makeWithTransaction({
      transactionService: client.transactionService,
      spanAttributes: [],
      acquireConnection: (restore) => restore(client.reserve),
      begin: (connection, statement) => control(connection, statement ?? "BEGIN"),
      savepoint: (connection, id) => control(connection, `SAVEPOINT inner_${id}`),
      commit: (connection) => Effect.flatMap(control(connection, "COMMIT"), failIfRolledBack),
      rollback: (connection) => undo(connection, "ROLLBACK"),
      rollbackSavepoint: (connection, id) => undo(connection, `ROLLBACK TO SAVEPOINT inner_${id}`)
    })
  })
}

/** Statements whose failure must not end the transaction around them, if there is one: then they get a savepoint. */
export const apart =
  ({ transactionService, withTransaction }: SqlClient.SqlClient) =>
  <A, E, R>(statements: Effect.Effect<A, E, R>) =>
    Effect.flatMap(Effect.serviceOption(transactionService), (open) =>
      Option.isSome(open) ? withTransaction(statements) : statements
    )

const silent = Effect.fail(
  new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ cause: new Error("The database went silent"), operation: "transaction" })
  })
)

/** A cancel request meant for the previous statement can arrive late and hit the ROLLBACK. */
const wasCanceled = ({ reason }: SqlError.SqlError) => reason._tag === "StatementTimeoutError"

/** PostgreSQL answers COMMIT with ROLLBACK when a statement failed and the failure was swallowed. */
const failIfRolledBack = (answer: unknown) =>
  (answer as { readonly command?: string }).command === "ROLLBACK"
    ? Effect.die("A transaction that had failed was committed.")
    : Effect.void
