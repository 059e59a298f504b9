/**
 * Notes in Markdown: any files, those of basic-memory, and those that export-project wrote.
 *
 * A file of up to 4 KiB becomes one entry, a longer one an entry for each section of its first two levels of headings: a
 * search then finds the section, and an edit supersedes only what it changed.
 */
import type { Format } from "./formats.ts"
import { Effect, Option } from "effect"
import { exported } from "./exported.ts"
import * as FrontMatter from "./FrontMatter.ts"
import { entriesOf, type EntryItem, type Item, originOf, type Skipped, tagsOf, titleOf } from "./Item.ts"
import { normalTag } from "../../continuity/Shapes.ts"
import type { SourceFile } from "./Place.ts"
import { textOf } from "./text.ts"
import { excerpt } from "../../../wire/Text.ts"

/** The longest file that stays whole, in bytes. */
const whole = 4096

export const readMarkdown = Effect.fnUntraced(function* (
  format: Format,
  label: string,
  files: ReadonlyArray<SourceFile>
) {
  const items: Array<Item> = []
  const skipped: Array<Skipped> = []
  for (const file of files) {
    const place = { file: file.path, line: 1 }
    const text = yield* textOf(file)
    const found = Option.getOrUndefined(yield* FrontMatter.read(file.path, text))
    const own = yield* exported(place, found)
    if (own !== undefined) {
      if ("why" in own) skipped.push(own)
      else items.push(...own.items)
      continue
    }
    const made = yield* note(format, label, file.path, text, found)
    if (made.length === 0) skipped.push({ place, why: "It is empty" })
    items.push(...made)
  }
  return { items, skipped }
})

const note = Effect.fnUntraced(function* (
  format: Format,
  label: string,
  path: string,
  text: string,
  frontMatter: FrontMatter.FrontMatter | undefined
) {
  const { permalink, tags, title: given, type, ...others } = frontMatter?.fields ?? {}
  const body = frontMatter?.body ?? text
  const first = 1 + (frontMatter?.lines ?? 0)
  const key = format === "basic-memory" ? (FrontMatter.lineOf(permalink) ?? path) : path
  const origin = originOf(format, label, key)
  const parts = sectionsOf(body)
  const heading = parts.find(({ level }) => level === 1)?.heading
  const title = FrontMatter.lineOf(given) ?? heading
  // Of basic-memory, whose observations carry hashtags.
  const hashtags = format === "basic-memory" ? hashtagsOf(body) : []
  const all = tagsOf([...FrontMatter.listOf(tags), ...hashtags])
  const rest = FrontMatter.kept({
    ...others,
    ...(type !== undefined && type !== "note" && type !== "decision" && { type })
  })
  const common = { kind: type === "decision" ? ("decision" as const) : ("note" as const), tags: all }
  const entry = (origin: string, from: number, title: string | undefined, text: string) =>
    entriesOf({ ...common, origin, place: { file: path, line: first + from }, title, text })

  if (Buffer.byteLength(body) + rest.length <= whole || parts.length < 2) {
    const { from, text } = trimmed(body)
    return text === "" ? [] : yield* entry(origin, from, title ?? firstWords(text), `${text}${rest}`)
  }
  const slugs = new Map<string, number>()
  const made: Array<EntryItem> = []
  for (const { from, heading, text } of parts) {
    const part = trimmed(text)
    if (part.text === "" || (heading !== undefined && !part.text.includes("\n"))) continue
    const slug = excerpt(normalTag(heading ?? ""), 40)
    const count = (slugs.get(slug) ?? 0) + 1
    slugs.set(slug, count)
    const named = count === 1 ? slug : `${slug}-${count}`
    const name = title ?? path
    const isFirst = made.length === 0
    made.push(
      ...(yield* entry(
        heading === undefined ? origin : `${origin}#${named}`,
        from + part.from,
        heading === undefined || heading === name ? name : titleOf(`${name}: ${heading}`),
        isFirst ? `${part.text}${rest}` : part.text
      ))
    )
  }
  return made
})

interface Section {
  /** The line where it begins, from 0. */
  readonly from: number
  readonly level: number
  readonly heading: string | undefined
  readonly text: string
}

/** What stands before the first heading, then each heading of the first two levels with what follows it. */
const sectionsOf = (body: string): ReadonlyArray<Section> => {
  const lines = body.split("\n")
  const starts: Array<Omit<Section, "text">> = [{ from: 0, level: 0, heading: undefined }]
  let fence: string | undefined
  for (const [from, line] of lines.entries()) {
    const mark = line.trimStart().slice(0, 3)
    if (fence !== undefined) {
      if (mark === fence) fence = undefined
      continue
    }
    if (mark === "```" || mark === "~~~") fence = mark
    const level = line.startsWith("# ") ? 1 : line.startsWith("## ") ? 2 : 0
    if (level > 0) starts.push({ from, level, heading: line.slice(level).trim() })
  }
  return starts.map((start, index) => ({
    ...start,
    text: lines.slice(start.from, starts[index + 1]?.from).join("\n")
  }))
}

/** The first line with a letter or digit: neither a rule nor a fence. */
const firstWords = (text: string) => text.split("\n").find((line) => /[\p{L}\p{N}]/u.test(line))

/** Without blank lines around it, and the line where it begins. */
const trimmed = (text: string) => {
  const kept = text.trimEnd()
  const lines = kept.split("\n")
  const from = Math.max(
    0,
    lines.findIndex((line) => line.trim() !== "")
  )
  return { from, text: lines.slice(from).join("\n") }
}

/** The tags of observations: `- [method] Pour over #brewing`. */
const hashtagsOf = (body: string) =>
  body
    .split("\n")
    .filter((line) => line.trimStart().startsWith("- ["))
    .flatMap((line) => line.split(" "))
    .filter((word) => word.startsWith("#") && word.length > 1)
    .map((word) => word.slice(1))
