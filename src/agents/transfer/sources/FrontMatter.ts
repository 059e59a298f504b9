/** The YAML between the lines `---` at the beginning of a Markdown file. */
import { Effect, Option, Result } from "effect"
import { parseDocument, stringify } from "yaml"
import { invalid } from "./Place.ts"

const longest = 16_384
const fence = "---\n"

export interface FrontMatter {
  readonly fields: Readonly<Record<string, unknown>>
  /** The YAML itself. */
  readonly raw: string
  readonly body: string
  /** Lines before the body. */
  readonly lines: number
}

/** Without it, a line `---` at the beginning is a rule across the page. */
const firstField = /^[\p{L}_][\p{L}\p{N}_ .-]*:(?:\s|$)/u

/**
 * None if the file does not begin with fields. Fields that cannot be read are refused: as text they would be an entry with
 * the title `---`. So are aliases, because they expand without a bound.
 */
export const read = Effect.fnUntraced(function* (file: string, text: string) {
  if (!text.startsWith(fence)) return Option.none<FrontMatter>()
  const isMeant = firstField.test(text.slice(fence.length, longest))
  const refuseAt = (line: number, why: string) => (isMeant ? invalid({ file, line }, why) : Effect.succeedNone)
  const end = text.slice(0, longest).indexOf(`\n${fence}`, fence.length - 1)
  const last = text.length <= longest && text.endsWith("\n---") ? text.length - 4 : -1
  const close = end === -1 ? last : end
  if (close === -1) {
    return yield* refuseAt(
      1,
      `The front matter that begins here has no end: within ${longest / 1024} KiB no line is ---`
    )
  }
  const raw = text.slice(fence.length, close + 1)
  const body = text.slice(close + 1 + fence.length)
  const parsed = Result.try(() => {
    const document = parseDocument(raw, { logLevel: "silent", prettyErrors: false })
    return { error: document.errors[0], value: document.toJS({ maxAliasCount: 0 }) as unknown }
  })
  if (Result.isFailure(parsed)) return yield* refuseAt(1, "The front matter has aliases, or is nested too deeply")
  const { error, value } = parsed.success
  if (error !== undefined) {
    const hint = error.code === "BLOCK_AS_IMPLICIT_KEY" ? ": a value with a colon needs quotes" : ""
    const line = 1 + raw.slice(0, error.pos[0]).split("\n").length
    return yield* refuseAt(line, `The front matter is not valid YAML${hint}`)
  }
  const fields = value ?? {}
  if (typeof fields !== "object" || Array.isArray(fields)) return Option.none()
  const lines = text.slice(0, text.length - body.length).split("\n").length - 1
  return Option.some({ fields: fields as FrontMatter["fields"], raw, body, lines })
})

export const write = (fields: Readonly<Record<string, unknown>>) =>
  `${fence}${stringify(fields, { lineWidth: 0, aliasDuplicateObjects: false })}${fence}`

/** Fields that an import has no other place for, as a block of the body. */
export const kept = (fields: Readonly<Record<string, unknown>>) =>
  Object.keys(fields).length === 0 ? "" : `\n\n\`\`\`yaml\n${stringify(fields, { lineWidth: 0 })}\`\`\``

/** A field as one line of text. */
export const lineOf = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" ? String(value) : undefined

/** A list, or words between commas. */
export const listOf = (value: unknown): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap((item) => lineOf(item) ?? [])
  return (lineOf(value) ?? "").split(",")
}
