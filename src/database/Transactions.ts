/**
 * Transactions whose BEGIN, COMMIT and ROLLBACK end.
 *
 * The library lets nobody interrupt them. On a line that went silent without closing they would hold their request, its
 * place in the pool and the end of the process until TCP gives up, a quarter of an hour later. Here each has five seconds;
 * then its connection is given up, and a COMMIT has an outcome that only a retry can tell.
 */
import { Effect } from "effect"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"

/** The same client; its transactions are replaced. */
export const boundTransactions = (client: SqlClient.SqlClient) => {
  const savepoint = (how: string) => (connection: SqlConnection.Connection, id: number) =>
    control(connection, `${how} inner_${id}`)
  return Object.assign(client, {
    withTransaction: SqlClient.makeWithTransaction({
      transactionService: client.transactionService,
      spanAttributes: [],
      acquireConnection: (restore) => restore(client.reserve),
      begin: (connection, statement) => control(connection, statement ?? "BEGIN"),
      savepoint: savepoint("SAVEPOINT"),
      releaseSavepoint: savepoint("RELEASE SAVEPOINT"),
      commit: (connection) => Effect.flatMap(control(connection, "COMMIT"), committed),
      rollback: (connection) => control(connection, "ROLLBACK"),
      rollbackSavepoint: savepoint("ROLLBACK TO SAVEPOINT")
    })
  })
}

const control = (connection: SqlConnection.Connection, statement: string) =>
  Effect.interruptible(connection.executeRaw(statement, [])).pipe(
    Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => silent })
  )

const silent = Effect.fail(
  new SqlError.SqlError({
    reason: new SqlError.ConnectionError({ cause: new Error("The database went silent"), operation: "transaction" })
  })
)

/** Where a statement failed and nobody noticed, PostgreSQL answers COMMIT with ROLLBACK. */
const committed = (answer: unknown) =>
  (answer as { readonly command?: string }).command === "ROLLBACK"
    ? Effect.die("A transaction that had failed was committed.")
    : Effect.void
