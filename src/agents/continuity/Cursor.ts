/**
 * The cursor of a list: base64url of `{v, k, f}`, where `k` holds the sort keys of the last item and `f` a fingerprint
 * of the filters. It is neither secret nor signed, because it only names a position within the caller's own project.
 */
import { Effect, Option, Schema } from "effect"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { type ContinuityRefusal, refuse } from "./Errors.ts"

const Position = Schema.Struct({
  v: Schema.Literal(1),
  k: Schema.Array(Schema.Union([Schema.String, Schema.Finite])),
  f: Schema.String
})

/** A sort key as `write` gets it: a `Date` of the years 1970 to 9999. PostgreSQL has no year 0 and no 30 February. */
export const Time = Schema.String.check(
  Schema.makeFilter((time: string) => {
    const date = new Date(time)
    return date.getTime() >= 0 && date.toISOString() === time && time.length === 24
  })
)
/** A sort key that PostgreSQL can cast to uuid. */
export const Id = Schema.String.check(Schema.isUUID())

export const write = (keys: ReadonlyArray<string | number>, filters: unknown): string =>
  Buffer.from(JSON.stringify({ v: 1, k: keys, f: fingerprint(filters) })).toString("base64url")

/** The sort keys of a cursor, undefined without one. Refuses a cursor that was written for other filters. */
export const read = <Keys>(
  cursor: string | undefined,
  keys: Schema.ConstraintDecoder<Keys>,
  filters: unknown
): Effect.Effect<Keys | undefined, ContinuityRefusal<"cursor_invalid">> =>
  cursor === undefined
    ? Effect.succeed(undefined)
    : decodePosition(Buffer.from(cursor, "base64url").toString("utf8")).pipe(
        Option.filter(({ f }) => f === fingerprint(filters)),
        Option.flatMap(({ k }) => Schema.decodeUnknownOption(keys)(k)),
        Option.match({ onNone: () => refuse("cursor_invalid"), onSome: Effect.succeed<Keys> })
      )

const decodePosition = Schema.decodeUnknownOption(Schema.fromJsonString(Position))

const fingerprint = (filters: unknown) =>
  Buffer.from(sha256(JSON.stringify(filters)))
    .toString("hex")
    .slice(0, 16)
