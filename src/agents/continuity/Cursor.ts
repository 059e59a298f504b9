/**
 * Where a list goes on: base64url of `{v, k, f}`, k the sort keys of the last item, f the filters' fingerprint.
 *
 * Not secret and not signed: it names a place in the caller's own project, and a false one is refused.
 */
import { Effect, Option, Schema } from "effect"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { type ContinuityRefusal, refuse } from "./Errors.ts"

const Place = Schema.Struct({
  v: Schema.Literal(1),
  k: Schema.Array(Schema.Union([Schema.String, Schema.Finite])),
  f: Schema.String
})

/** Sort keys as text that PostgreSQL can cast. */
export const Time = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  Schema.makeFilter((time: string) => !Number.isNaN(Date.parse(time)))
)
export const Id = Schema.String.check(Schema.isUUID())

export const write = (keys: ReadonlyArray<string | number>, filters: unknown): string =>
  Buffer.from(JSON.stringify({ v: 1, k: keys, f: fingerprint(filters) })).toString("base64url")

/** The sort keys, if the cursor was written for the same filters. */
export const read = <Keys>(
  cursor: string | undefined,
  keys: Schema.ConstraintDecoder<Keys>,
  filters: unknown
): Effect.Effect<Keys | undefined, ContinuityRefusal<"cursor_invalid">> =>
  cursor === undefined
    ? Effect.succeed(undefined)
    : decodePlace(Buffer.from(cursor, "base64url").toString("utf8")).pipe(
        Option.filter(({ f }) => f === fingerprint(filters)),
        Option.flatMap(({ k }) => Schema.decodeUnknownOption(keys)(k)),
        Option.match({ onNone: () => refuse("cursor_invalid"), onSome: Effect.succeed<Keys> })
      )

const decodePlace = Schema.decodeUnknownOption(Schema.fromJsonString(Place))

const fingerprint = (filters: unknown) =>
  Buffer.from(sha256(JSON.stringify(filters)))
    .toString("hex")
    .slice(0, 16)
