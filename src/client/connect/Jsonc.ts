/**
 * Edits JSON files that people keep by hand: comments, trailing commas, order, indentation and line endings stay.
 *
 * `set` changes only the text of one member, and `remove` undoes it byte for byte. For that, what `set` creates looks
 * different from what was there: a member of an object that was empty directly follows the brace, one of an object that
 * `set` created follows a space or stands on a line of its own. The same holds for lists.
 */
import { type Edited, lineEnding, lineOf, type Unreadable } from "./Edit.ts"

export type Json = string | number | boolean | null | ReadonlyArray<Json> | { readonly [key: string]: Json }

interface Node {
  readonly start: number
  readonly end: number
  readonly value: Json
  /** Undefined if the value is neither an object nor a list. */
  readonly members?: ReadonlyArray<Member>
  readonly isList?: boolean
}

/** A member of an object, or an item of a list: then without a key. */
interface Member {
  readonly key: string | undefined
  readonly start: number
  readonly value: Node
  /** Where the comma after the value stands; undefined without one. */
  readonly comma: number | undefined
}

/** The key of a member, or which item of a list is meant. */
type Step = string | { readonly item: (value: Json) => boolean }
export type Path = readonly [Step, ...Array<Step>]

const maxDepth = 100

/** Sets the member at `path` and creates the objects and lists on the way to it. */
export const set = (text: string, path: Path, value: Json): Edited => {
  if (isBlank(text)) return { text: text + formatted(nested(path, value), "", "  ", lineEnding(text)) }
  const root = parse(text)
  if ("why" in root) return root
  let node: Node = root
  for (const [depth, key] of path.entries()) {
    const found = memberOf(text, node, key)
    if (found !== undefined && "why" in found) return found
    if (found === undefined) return { text: inserted(text, node, key, nested(path.slice(depth + 1), value), root) }
    node = found.value
  }
  if (JSON.stringify(node.value) === JSON.stringify(value)) return { text }
  const replacement = formatted(value, indentationAt(text, node.start), unitOf(text, root), lineEnding(text))
  return { text: text.slice(0, node.start) + replacement + text.slice(node.end) }
}

/** Removes the member at `path`, and the objects and lists around it if they are empty then and `set` created them. */
export const remove = (text: string, path: Path): Edited => {
  if (isBlank(text)) return { text }
  const root = parse(text)
  if ("why" in root) return root
  const objects: Array<Node> = [root]
  const members: Array<Member> = []
  for (const key of path) {
    const found = memberOf(text, objects.at(-1)!, key)
    if (found === undefined) return { text }
    if ("why" in found) return found
    members.push(found)
    objects.push(found.value)
  }
  let depth = members.length - 1
  while (depth > 0 && isCreated(text, objects[depth]!)) depth -= 1
  if (depth === 0 && isCreated(text, root)) {
    const rest = text.slice(0, root.start) + text.slice(root.end)
    return { text: rest === "\n" && root.start === 0 ? null : rest }
  }
  return { text: without(text, objects[depth]!, members[depth]!) }
}

/** The value at `path`; undefined if there is none. */
export const get = (text: string, path: ReadonlyArray<string>): { readonly value: Json | undefined } | Unreadable => {
  if (isBlank(text)) return { value: undefined }
  const root = parse(text)
  if ("why" in root) return root
  let node: Node = root
  for (const key of path) {
    const found = memberOf(text, node, key)
    if (found === undefined) return { value: undefined }
    if ("why" in found) return found
    node = found.value
  }
  return { value: node.value }
}

const isBlank = (text: string) => text.trim() === ""

const nested = (path: ReadonlyArray<Step>, value: Json): Json =>
  path.reduceRight<Json>((inner, key) => (typeof key === "string" ? { [key]: inner } : [inner]), value)

const memberOf = (
  text: string,
  { isList = false, members, start }: Node,
  key: Step
): Member | Unreadable | undefined => {
  const wanted = typeof key === "string" ? "an object" : "a list"
  if (members === undefined || isList !== (wanted === "a list")) {
    return { why: `has something other than ${wanted} on line ${lineOf(text, start)}` }
  }
  if (typeof key !== "string") return members.find(({ value }) => key.item(value.value))
  const [first, second] = members.filter((member) => member.key === key)
  if (second === undefined) return first
  return { why: `has "${key}" twice, on line ${lineOf(text, first!.start)} and on line ${lineOf(text, second.start)}` }
}

const formatted = (value: Json, indentation: string, unit: string, eol: string) =>
  JSON.stringify(value, null, unit).replaceAll("\n", eol + indentation)

const onOneLine = (value: Json): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[ ${value.map(onOneLine).join(", ")} ]`
  return `{ ${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${onOneLine(inner)}`)
    .join(", ")} }`
}

const inserted = (text: string, { members, start }: Node, key: Step, value: Json, root: Node) => {
  const eol = lineEnding(text)
  const name = typeof key === "string" ? `${JSON.stringify(key)}: ` : ""
  const entry = (indentation: string) => name + formatted(value, indentation, unitOf(text, root), eol)
  const last = members!.at(-1)
  if (last === undefined) {
    return text.slice(0, start + 1) + entry(indentationAt(text, start)) + text.slice(start + 1)
  }
  const before = members!.at(-2)?.value.end ?? start
  const end = last.value.end
  if (!text.slice(before, last.start).includes("\n")) {
    return `${text.slice(0, end)}, ${name}${onOneLine(value)}${text.slice(end)}`
  }
  const after = afterComments(text, last.comma === undefined ? end : last.comma + 1)
  const indentation = indentationAt(text, last.start)
  const [comma, trailing] = last.comma === undefined ? [",", ""] : ["", ","]
  return [text.slice(0, end), comma, text.slice(end, after), eol, indentation, entry(indentation), trailing]
    .concat(text.slice(after))
    .join("")
}

const without = (text: string, { members }: Node, member: Member) => {
  const previous = members![members!.indexOf(member) - 1]
  if (previous === undefined && member.comma === undefined) {
    return text.slice(0, member.start) + text.slice(member.value.end)
  }
  const start = text.slice(0, member.start).trimEnd().length
  if (member.comma !== undefined) return text.slice(0, start) + text.slice(member.comma + 1)
  const comma = previous!.comma!
  return text.slice(0, comma) + text.slice(comma + 1, start) + text.slice(member.value.end)
}

/** An object or list with one member behind a space or on a line of its own, and neither a comment nor a trailing comma. */
const isCreated = (text: string, { end, members, start }: Node) => {
  const [only, second] = members!
  if (only === undefined || second !== undefined || only.comma !== undefined) return false
  const before = text.slice(start + 1, only.start)
  return before !== "" && isBlank(before) && isBlank(text.slice(only.value.end, end - 1))
}

/** Where the comments end that follow `at` on its line; `at` without any. */
const afterComments = (text: string, at: number): number => {
  let next = at
  while (text[next] === " " || text[next] === "\t") next += 1
  const newline = text.indexOf("\n", next)
  const line = newline < 0 ? text.length : newline
  if (text.startsWith("//", next)) return text[line - 1] === "\r" ? line - 1 : line
  const close = text.startsWith("/*", next) ? text.indexOf("*/", next + 2) + 2 : 0
  return close >= 2 && close <= line ? afterComments(text, close) : at
}

const indentationAt = (text: string, at: number) => {
  const start = text.lastIndexOf("\n", at - 1) + 1
  let end = start
  while (text[end] === " " || text[end] === "\t") end += 1
  return text.slice(start, end)
}

/** One level of indentation: that of the first member of the file, or two spaces. */
const unitOf = (text: string, { members, start }: Node) => {
  const first = members?.[0]
  return (
    (first !== undefined && text.slice(start, first.start).includes("\n") && indentationAt(text, first.start)) || "  "
  )
}

/** JSON with comments and trailing commas, and where everything stands. */
const parse = (text: string): Node | Unreadable => {
  let at = 0
  let why: string | undefined

  const skip = () => {
    while (at < text.length) {
      if (text.startsWith("//", at)) at = (text.indexOf("\n", at) + 1 || text.length + 1) - 1
      else if (text.startsWith("/*", at)) {
        const close = text.indexOf("*/", at + 2)
        if (close < 0) return
        at = close + 2
      } else if (text[at]!.trim() === "") at += 1
      else return
    }
  }
  const fail = (): undefined => {
    why ??= `is not valid JSON on line ${lineOf(text, Math.min(at, text.length))}`
  }
  /** A string, number or word. */
  const scalar = (): Node | undefined => {
    const start = at
    if (text[at] === '"') {
      at += 1
      while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1
      at += 1
    } else while (at < text.length && /[\w.+-]/.test(text[at]!)) at += 1
    try {
      return { start, end: at, value: JSON.parse(text.slice(start, at)) }
    } catch {
      at = start
      return fail()
    }
  }
  const commaAt = () => {
    skip()
    if (text[at] !== ",") return undefined
    at += 1
    return at - 1
  }
  const member = (depth: number): Member | undefined => {
    const key = text[at] === '"' ? scalar() : fail()
    if (key === undefined) return undefined
    skip()
    if (text[at] !== ":") return fail()
    at += 1
    const value = node(depth)
    return value && { key: String(key.value), start: key.start, value, comma: commaAt() }
  }
  const element = (depth: number): Member | undefined => {
    const value = node(depth)
    return value && { key: undefined, start: value.start, value, comma: commaAt() }
  }
  /** What stands between brackets; `at` is behind them afterwards. */
  const items = (close: string, item: () => Member | undefined) => {
    const found: Array<Member> = []
    at += 1
    for (;;) {
      skip()
      if (text[at] === close) {
        at += 1
        return found
      }
      if (found.length > 0 && found.at(-1)!.comma === undefined) return fail()
      const next = item()
      if (next === undefined) return undefined
      found.push(next)
    }
  }
  const node = (depth: number): Node | undefined => {
    skip()
    if (depth > maxDepth) {
      why ??= `is nested more than ${maxDepth} deep on line ${lineOf(text, at)}`
      return undefined
    }
    const start = at
    if (text[at] === "{") {
      const members = items("}", () => member(depth + 1))
      const entries = members?.map(({ key, value }) => [key, value.value] as const)
      return members && { start, end: at, members, value: Object.fromEntries(entries!) }
    }
    if (text[at] === "[") {
      const members = items("]", () => element(depth + 1))
      return members && { start, end: at, members, isList: true, value: members.map(({ value }) => value.value) }
    }
    return scalar()
  }

  const root = node(0)
  if (root === undefined) return { why: why! }
  skip()
  if (at < text.length) fail()
  return why === undefined ? root : { why }
}
