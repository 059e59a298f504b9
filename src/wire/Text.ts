/** Text that PostgreSQL can store, and terminals and agents can show: well-formed, NFC-normalised, bounded, not blank. */
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
  { expected: "one line of text that is not blank, without control characters" }
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

/**
 * What one line must not show raw (decisions.md, Characters that are not shown): controls, line separators, and format
 * characters. U+200C and U+200D may join letters of scripts that need them, and emoji (UAX #31 2.3).
 */
const hiddenInLine =
  /[\p{Cc}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}|(?=\p{DI})\p{Cn}|(?<![[\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]--\p{DI}]\p{VS}?)[\u200c\u200d]|(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}]\p{VS}?)[\u200c\u200d]/v

/**
 * The same for text of several lines: line breaks, tabs, and the format characters of ordinary text are shown, such as
 * soft hyphens and marks of direction; overrides of direction and tag characters are not.
 */
const hiddenInProse =
  /(?![\t\n]|\r\n)\p{Cc}|(?![\u00ad\u061c\u180e\u200b-\u200f\u2060\ufeff])(?=\p{DI})[\p{Cf}\p{Cn}]|[\ufff9-\ufffb]/v

/**
 * What neither shows: Hangul fillers, variation selectors without a base for which Unicode registers them (emoji, keycaps,
 * Han, mathematical and Mongolian characters), and a third invisible character in a row. They carry hidden text.
 */
const hiddenAnywhere =
  /[\u115f\u1160\u3164\uffa0]|(?!(?<=[[\p{Emoji}\p{Extended_Pictographic}]--[0-9#*]])[\ufe0e\ufe0f]|(?<=[0-9#*])[\ufe0e\ufe0f]\u20e3|(?<=\p{Script=Han})[\ufe00-\ufe02\u{e0100}-\u{e01ef}]|(?<=\p{Sm})\ufe00|(?<=[\p{Script=Mongolian}&&\p{L}])[\u180b-\u180d\u180f])\p{VS}|(?<=\p{DI}{2})\p{DI}/v

export type Layout = "line" | "prose"
const hidden = {
  line: new RegExp(`${hiddenInLine.source}|${hiddenAnywhere.source}`, "gv"),
  prose: new RegExp(`${hiddenInProse.source}|${hiddenAnywhere.source}`, "gv")
}

/** A line without a visible character, and the first one in it that is more than a space. */
const invisibleLine = /^\p{Z}*([\p{M}\p{DI}\u2800])[\p{Z}\p{M}\p{DI}\u2800]*$/u

/** The first character that must not be shown raw, or that makes up a line without a visible one, as `U+202E`. */
export const findHidden = (given: string, layout: Layout): string | undefined => {
  const [found] = given.matchAll(hidden[layout])
  const character = found?.[0] ?? (layout === "line" ? invisibleLine.exec(given)?.[1] : undefined)
  return character && `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`
}

/** The text with each such character as `\\u` and four hex digits per UTF-16 unit. */
export const escaped = (given: string, layout: Layout): string => given.replaceAll(hidden[layout], escapes)

export const escapes = (characters: string) =>
  characters
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("")

/** The text without them. */
export const withoutHidden = (given: string): string => given.replaceAll(hidden.line, "")

const shown = Schema.makeFilter((given: string) => findHidden(given, "line") === undefined, {
  expected: "visible text without characters that control, reorder or hide text"
})

/** One line of 1 to `limit` code points after NFC normalisation. */
export const text = (limit: number) => storedText(limit).check(shown)

/** `text` as earlier releases accepted it, with any format characters. */
export const storedText = (limit: number) =>
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
