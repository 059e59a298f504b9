/** Text that PostgreSQL can store and a terminal can show: no control characters, well-formed, normalised, bounded. */
import { Schema, SchemaTransformation } from "effect"

const printable = Schema.makeFilter(
  (text: string) => text.isWellFormed() && !/\p{Cc}/u.test(text) && text.trim() !== "",
  { expected: "text without control characters" }
)

/** Between 1 and `limit` code points after NFC normalisation. */
export const text = (limit: number) =>
  Schema.String.pipe(
    Schema.decode(SchemaTransformation.transform({ decode: (raw) => raw.normalize("NFC"), encode: (kept) => kept })),
    Schema.check(
      printable,
      Schema.makeFilter((kept: string) => [...kept].length <= limit, { expected: `at most ${limit} characters` })
    )
  )
