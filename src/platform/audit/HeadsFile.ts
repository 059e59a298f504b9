/**
 * Heads as somebody else kept them: lines of the service's log, or of the file that an OpenTelemetry collector wrote.
 *
 * A line may have anything before its JSON, such as the time and host of the system's journal. Lines without a head are
 * skipped.
 */
import { Option, Schema, Stream } from "effect"
import { Instant } from "../../wire/Instant.ts"

const KeptHead = Schema.Struct({
  scope: Schema.String,
  at: Instant,
  /** How many rows the chain had. */
  count: Schema.Union([Schema.Int, Schema.FiniteFromString]),
  head: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))
})
export type KeptHead = typeof KeptHead.Type
const decode = Schema.decodeUnknownOption(KeptHead)

export const keptHeads = <E>(file: Stream.Stream<Uint8Array, E>): Stream.Stream<KeptHead, E> =>
  file.pipe(
    Stream.decodeText,
    Stream.splitLines,
    Stream.flatMap((line) => Stream.fromIterable(headsIn(line)))
  )

const headsIn = (line: string): ReadonlyArray<KeptHead> => {
  const start = line.indexOf("{")
  if (start === -1 || !line.includes("head")) return []
  const value = Option.liftThrowable(JSON.parse)(line.slice(start))
  return Option.isSome(value) ? within(value.value) : []
}

/** The heads anywhere in a JSON value: a log line has one in its annotations, an OTLP export several in its records. */
const within = (value: unknown): ReadonlyArray<KeptHead> => {
  if (Array.isArray(value)) return value.flatMap(within)
  if (typeof value !== "object" || value === null) return []
  const head = decode("attributes" in value ? attributesOf(value.attributes) : value)
  return Option.isSome(head) ? [head.value] : Object.values(value).flatMap(within)
}

/** OTLP: `[{"key":"scope","value":{"stringValue":"all"}}]`. */
const attributesOf = (attributes: unknown) =>
  Array.isArray(attributes)
    ? Object.fromEntries(attributes.map(({ key, value }) => [String(key), Object.values(value ?? {})[0]]))
    : attributes
