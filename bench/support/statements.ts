/**
 * Records the statements that the service runs during one operation, so that peers run exactly the statements that are
 * shipped.
 */
import { Effect } from "effect"
import { Statement } from "effect/sql"

/** A named value is supplied by the peer, a fresh value is new in every operation, a constant is as recorded. */
export type Parameter =
  | { readonly named: string }
  | { readonly fresh: "uuid" | "bytes"; readonly index: number }
  | { readonly constant: string | number | boolean | null | ReadonlyArray<string> }

export interface Recorded {
  readonly sql: string
  readonly parameters: ReadonlyArray<Parameter>
}

type Value = string | Uint8Array
type Ran = readonly [sql: string, values: ReadonlyArray<unknown>]

/** Runs `operation` and records its statements with their values, in order. */
export const running = Effect.fnUntraced(function* <A, E, R>(operation: Effect.Effect<A, E, R>) {
  const ran: Array<Ran> = []
  const result = yield* Effect.provideService(operation, Statement.CurrentTransformer, (statement) => {
    ran.push(statement.compile())
    return Effect.succeed(statement)
  })
  return { result, ran }
})

/** Turns the values of one recorded operation into parameters; equal values in different statements are one parameter. */
export const generalize = (
  ran: ReadonlyArray<Ran>,
  names: Readonly<Record<string, Value>>,
  constants: ReadonlyArray<string>
): ReadonlyArray<Recorded> => {
  const known = new Map(Object.entries(names).map(([name, value]) => [keyOf(value), name]))
  const fresh = new Map<string, number>()
  const parameter = (value: unknown): Parameter => {
    if (value instanceof Date) return { constant: value.toISOString() }
    if (typeof value !== "string" && !(value instanceof Uint8Array)) {
      return { constant: value as number | boolean | null | ReadonlyArray<string> }
    }
    const named = known.get(keyOf(value))
    if (named !== undefined) return { named }
    const isUuid = typeof value === "string" && /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(value)
    if (typeof value === "string" && (!isUuid || constants.includes(value))) return { constant: value }
    const index = fresh.get(keyOf(value)) ?? fresh.size
    fresh.set(keyOf(value), index)
    return { fresh: isUuid ? "uuid" : "bytes", index }
  }
  return ran.map(([sql, values]) => ({ sql, parameters: values.map(parameter) }))
}

const keyOf = (value: Value) => (typeof value === "string" ? value : Buffer.from(value).toString("hex"))

/** A pgbench script. `:n` is the operation's number; fresh UUIDs sort by it, as the service's UUIDs sort by time. */
export const asScript = (recorded: ReadonlyArray<Recorded>, expressions: Readonly<Record<string, string>>) =>
  recorded
    .map(({ sql, parameters }) =>
      sql.replaceAll(/\$(\d+)/g, (_, number) => expression(parameters[number - 1]!, expressions))
    )
    .map((sql) => `${sql};\n`)
    .join("")

const expression = (parameter: Parameter, expressions: Readonly<Record<string, string>>) => {
  if ("named" in parameter) return `(${expressions[parameter.named]})`
  if ("fresh" in parameter) {
    return parameter.fresh === "uuid"
      ? `lpad(to_hex(:n::bigint * 16 + ${parameter.index}), 32, '0')::uuid`
      : `sha256((:n::text || ' fresh ${parameter.index}')::bytea)`
  }
  const { constant } = parameter
  if (typeof constant === "string") return literal(constant)
  return Array.isArray(constant) ? literal(`{${constant.join(",")}}`) : String(constant)
}

/** Escapes colons, because pgbench replaces `:name` by a variable even inside a literal. */
const literal = (text: string) => `e'${text.replaceAll("\\", "\\\\").replaceAll("'", "''").replaceAll(":", "\\x3a")}'`
