/**
 * A database that fails on cue: the n-th statement from now on, BEGIN and COMMIT included, in one of five ways.
 *
 * It stands between the service and its pool, so that what the service makes of a failure is the service's own.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"

export const faults = ["refused", "broken", "disconnected before", "disconnected after"] as const

/**
 * - refused: the statement does not run and fails as it does when it takes too long.
 * - broken: it does not run, and a defect is thrown.
 * - disconnected before: the server ends the connection, then the statement is sent.
 * - disconnected after: the statement runs, and its answer is lost with the connection.
 */
export type Fault = (typeof faults)[number]

export const faultyDatabase = () => {
  let fault: Fault | undefined
  let left = 0

  const connection = (to: SqlConnection.Connection): SqlConnection.Connection => {
    const end = Effect.ignoreCause(to.executeRaw("select pg_terminate_backend(pg_backend_pid())", []))
    const dead = Effect.flatMap(to.executeRaw("select 1", []), () => Effect.die("The connection should be dead."))
    const may = <A>(statement: Effect.Effect<A, SqlError.SqlError>): Effect.Effect<A, SqlError.SqlError> =>
      Effect.suspend(() => {
        if (fault === undefined || --left > 0) return statement
        const now = fault
        fault = undefined
        switch (now) {
          case "refused":
            return Effect.fail(refusal)
          case "broken":
            return Effect.die(new Error("A planted defect"))
          case "disconnected before":
            return Effect.andThen(end, statement)
          case "disconnected after":
            return statement.pipe(Effect.andThen(end), Effect.andThen(dead))
        }
      })
    return {
      execute: (...given) => may(to.execute(...given)),
      executeRaw: (...given) => may(to.executeRaw(...given)),
      executeValues: (...given) => may(to.executeValues(...given)),
      executeValuesUnprepared: (...given) => may(to.executeValuesUnprepared(...given)),
      executeUnprepared: (...given) => may(to.executeUnprepared(...given)),
      executeStream: to.executeStream
    }
  }

  return {
    layer: Layer.effect(
      SqlClient.SqlClient,
      Effect.gen(function* () {
        const { driver, reserve } = yield* SqlClient.SqlClient
        return yield* SqlClient.make({
          driver,
          acquirer: Effect.map(reserve, connection),
          compiler: PgClient.makeCompiler(),
          prepareTransactionControls: true,
          spanAttributes: []
        })
      })
    ).pipe(Layer.provide(Reactivity.layer)),
    /** From now on the `nth` statement fails, and only that one. */
    fail: (how: Fault, nth: number) =>
      Effect.sync(() => {
        fault = how
        left = nth
      }),
    /** No further statement fails. Answers whether the fault had struck. */
    heal: Effect.sync(() => {
      const struck = fault === undefined
      fault = undefined
      return struck
    })
  }
}

const refusal = new SqlError.SqlError({
  reason: new SqlError.StatementTimeoutError({ cause: { code: "57014" }, operation: "execute" })
})
