/** Text that PostgreSQL can store and terminals can show: well-formed Unicode, NFC-normalised, bounded, not blank. */
import { Schema, SchemaTransformation } from "effect"

/**
 * NFC in linear time. Sorting combining marks takes time quadratic in their number, 30 seconds for 500 KB of them, so
 * more than 30 in a row stay as they are; no language has so many (UAX #15, Stream-Safe Text Format).
 */
export const nfc = (text: string): string =>
  text
    .split(/((?<!\p{M})\p{M}{31,})/u)
    .map((part, index) => (index % 2 === 1 ? part : part.normalize("NFC")))
    .join("")

const normalised = (description?: string) =>
  Schema.String.annotate(description === undefined ? {} : { description }).pipe(
    Schema.decode(SchemaTransformation.transform({ decode: nfc, encode: (kept) => kept }))
  )

const printable = Schema.makeFilter(
  (text: string) => text.isWellFormed() && !/\p{Cc}/u.test(text) && text.trim() !== "",
  { expected: "text without control characters" }
)

const storable = Schema.makeFilter((text: string) => text.isWellFormed() && !text.includes("\0"), {
  expected: "well-formed text without NUL"
})

const notBlank = Schema.makeFilter((text: string) => text.replaceAll(/\p{Cc}+/gu, " ").trim() !== "", {
  expected: "text that is not blank"
})

const atMostBytes = (limit: number) =>
  Schema.makeFilter((text: string) => Buffer.byteLength(text) <= limit, {
    expected: `at most ${limit} bytes of UTF-8`
  })

/** Between 1 and `limit` code points after NFC normalisation. */
export const text = (limit: number) =>
  normalised().pipe(
    Schema.check(
      printable,
      // A character has one or two units: a long text is refused before its characters are counted.
      Schema.makeFilter((kept: string) => kept.length <= 2 * limit && [...kept].length <= limit, {
        expected: `at most ${limit} characters`
      })
    )
  )

/** One line of 1 to `limit` bytes of UTF-8. */
export const line = (limit: number) =>
  normalised(`one line, <= ${limit} bytes`).pipe(Schema.check(printable, atMostBytes(limit)))

/** Any number of lines, 1 to `limit` bytes of UTF-8. NUL is the only control character that is refused. */
export const prose = (limit: number) =>
  normalised(`<= ${limit} bytes`).pipe(Schema.check(storable, notBlank, atMostBytes(limit)))

/** Like `prose`, but may be empty or blank. */
export const optionalProse = (limit: number) =>
  normalised(`<= ${limit} bytes`).pipe(Schema.check(storable, atMostBytes(limit)))

/** Text of at most `limit` bytes: the whole, or its longest prefix that splits no character, followed by `…`. */
export const excerpt = (whole: string, limit: number): string => {
  if (Buffer.byteLength(whole) <= limit) return whole
  const bytes = Buffer.from(whole)
  let end = limit - 3
  while ((bytes[end]! & 0b1100_0000) === 0b1000_0000) end -= 1
  return `${bytes.toString("utf8", 0, end)}…`
}
