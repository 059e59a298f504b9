/**
 * Transactions whose BEGIN, COMMIT and ROLLBACK end, and whose failure is what failed first.
 *
 * The library lets nobody interrupt them. On a line that went silent without closing they would hold their request, its
 * place in the pool and the end of the process until TCP gives up, a quarter of an hour later. Here each has a time limit;
 * then its connection is given up, and a COMMIT has an outcome that only a retry can tell.
 *
 * The library makes a defect of a ROLLBACK or RELEASE that fails. Here nobody hears of a ROLLBACK that does: its connection
 * is gone, and PostgreSQL has rolled back by itself. Savepoints are released by the COMMIT.
 */
import { type Duration, Effect } from "effect"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"

/** The same client; its transactions are replaced. */
export const boundTransactions = (client: SqlClient.SqlClient, limit: Duration.Input) => {
  const control = (connection: SqlConnection.Connection, statement: string) =>
    Effect.interruptible(connection.executeRaw(statement, [])).pipe(
      Effect.timeoutOrElse({ duration: limit, orElse: () => silent })
    )
  const undo = (connection: SqlConnection.Connection, statement: string) =>
    control(connection, statement).pipe(Effect.retry({ while: wasCanceled, times: 1 }), Effect.ignore)
  return Object.assign(client, {
    withTransaction: SqlClient.makeWithTransaction({
      transactionService: client.transactionService,
      spanAttributes: [],
      acquireConnection: (restore) => restore(client.reserve),
      begin: (connection, statement) => control(connection, statement ?? "BEGIN"),
      savepoint: (connection, id) => control(connection, `SAVEPOINT inner_${id}`),
      commit: (connection) => Effect.flatMap(control(connection, "COMMIT"), committed),
      rollback: (connection) => undo(connection, "ROLLBACK"),
      rollbackSavepoint: (connection, id) => undo(connection, `ROLLBACK TO SAVEPOINT inner_${id}`)
    })
  })
}

const silent = Effect.fail(
  new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ cause: new Error("The database went silent"), operation: "transaction" })
  })
)

/** By the request to cancel the statement before it, which came late. */
const wasCanceled = ({ reason }: SqlError.SqlError) => reason._tag === "StatementTimeoutError"

/** Where a statement failed and nobody noticed, PostgreSQL answers COMMIT with ROLLBACK. */
const committed = (answer: unknown) =>
  (answer as { readonly command?: string }).command === "ROLLBACK"
    ? Effect.die("A transaction that had failed was committed.")
    : Effect.void
