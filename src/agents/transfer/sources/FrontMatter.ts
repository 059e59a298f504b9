/** The YAML between the lines `---` at the beginning of a Markdown file. */
import { Option, Result } from "effect"
import { parseDocument, stringify } from "yaml"

/** A block that is longer is text. */
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

/** None if there is no block, or it is no map of YAML. Aliases are refused, because they expand without a bound. */
export const read = (text: string): Option.Option<FrontMatter> => {
  if (!text.startsWith(fence)) return Option.none()
  const end = text.slice(0, longest).indexOf(`\n${fence}`, fence.length - 1)
  const last = text.length <= longest && text.endsWith("\n---") ? text.length - 4 : -1
  const close = end === -1 ? last : end
  if (close === -1) return Option.none()
  const raw = text.slice(fence.length, close + 1)
  const body = text.slice(close + 1 + fence.length)
  const parsed = Result.getOrUndefined(
    Result.try(() => {
      const document = parseDocument(raw, { logLevel: "silent" })
      return document.errors.length > 0 ? undefined : (document.toJS({ maxAliasCount: 0 }) as unknown)
    })
  )
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return Option.none()
  const fields = parsed as Readonly<Record<string, unknown>>
  return Option.some({ fields, raw, body, lines: text.slice(0, text.length - body.length).split("\n").length - 1 })
}

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
  return (lineOf(value) ?? "").split(",").map((item) => item.trim())
}
