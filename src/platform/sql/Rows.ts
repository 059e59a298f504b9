/** Decodes the rows of a statement. A row that does not fit its schema is a defect: statement and migration disagree. */
import { Effect, Option, Schema } from "effect"
import type { SqlError, Statement } from "effect/sql"

export const rows = <Row extends Schema.ConstraintDecoder<unknown>>(row: Row) => {
  const decode = Schema.decodeUnknownEffect(Schema.Array(row))
  return (statement: Statement.Statement<unknown>): Effect.Effect<ReadonlyArray<Row["Type"]>, SqlError.SqlError> =>
    Effect.flatMap(statement, (found) => Effect.orDie(decode(found)))
}

/**
 * The row of a statement that finds at most one. Two are a defect: a statement that lost a join or a condition would hand
 * one project what belongs to another.
 */
export const firstRow = <Row extends Schema.ConstraintDecoder<unknown>>(row: Row) => {
  const only = onlyRow(row)
  return (statement: Statement.Statement<unknown>): Effect.Effect<Option.Option<Row["Type"]>, SqlError.SqlError> =>
    Effect.flatMap(statement, only)
}

export const onlyRow = <Row extends Schema.ConstraintDecoder<unknown>>(row: Row) => {
  const decode = Schema.decodeUnknownEffect(row)
  return (found: ReadonlyArray<unknown>): Effect.Effect<Option.Option<Row["Type"]>> => {
    if (found.length > 1) return Effect.die(new Error(`Expected at most one row, found ${found.length}.`))
    return found.length === 0 ? Effect.succeedNone : Effect.asSome(Effect.orDie(decode(found[0])))
  }
}
