/**
 * Edits one table of a TOML file, and nothing else of it: comments, order and line endings stay.
 *
 * `set` appends the table, or changes single keys of the one that is there; `remove` undoes it byte for byte. A file
 * without a newline at its end stays one. A table that is written in another way (inline, with dotted keys) is refused.
 */
import { type Edited, lineEnding, lineOf, type Unreadable } from "./Edit.ts"

/** One logical line, with its line ending. */
interface Statement {
  readonly kind: "blank" | "table" | "tables" | "pair"
  readonly key: ReadonlyArray<string>
  readonly start: number
  readonly end: number
}

interface Placed extends Statement {
  /** The key, behind that of the table in which it stands. */
  readonly path: ReadonlyArray<string>
}

type Table = readonly [string, string]

/** Sets the keys of a table; null removes one, and other keys of the table stay. */
export const set = (text: string, table: Table, keys: Readonly<Record<string, string | null>>): Edited => {
  const statements = parse(text, table)
  if ("why" in statements) return statements
  const header = statements.findIndex((statement) => isTable(statement, table))
  const eol = lineEnding(text)
  const line = (key: string, value: string) => `${key} = ${JSON.stringify(value)}`
  if (header < 0) {
    const lines = Object.entries(keys).flatMap(([key, value]) => (value === null ? [] : [line(key, value)]))
    const section = [`[${table.join(".")}]`, ...lines].join(eol)
    if (text === "") return { text: section }
    return { text: text.endsWith("\n") ? text + eol + section + eol : text + eol + eol + section }
  }
  const own = sectionFrom(statements, header)
  const edits = Object.entries(keys).flatMap(([key, value]) => {
    const found = own.find((statement) => statement.kind === "pair" && statement.key.join(".") === key)
    if (value === null) return found === undefined ? [] : [{ ...found, replacement: "" }]
    if (found !== undefined && text.slice(found.start, found.end).trim() === line(key, value)) return []
    if (found !== undefined) return [{ ...found, replacement: line(key, value) + endingOf(text, found) }]
    const { end } = own[0]!
    const header = text.slice(0, end)
    return [{ start: end, end, replacement: header.endsWith("\n") ? line(key, value) + eol : eol + line(key, value) }]
  })
  // From the end to the start, so that the offsets before stay right.
  const backwards = edits.toSorted((one, other) => other.start - one.start)
  return {
    text: backwards.reduce(
      (rest, { end, replacement, start }) => rest.slice(0, start) + replacement + rest.slice(end),
      text
    )
  }
}

const endingOf = (text: string, { end, start }: Statement) => {
  const written = text.slice(start, end)
  return written.slice(written.trimEnd().length)
}

/** Removes a table and the tables below it. */
export const remove = (text: string, table: Table): Edited => {
  const statements = parse(text, table)
  if ("why" in statements) return statements
  let rest = text
  for (let at = statements.length - 1; at >= 0; at -= 1) {
    if (!isWithin(statements[at]!, table)) continue
    const section = sectionFrom(statements, at)
    let { start } = section[0]!
    const { end } = section.at(-1)!
    const before = statements[at - 1]
    if (before !== undefined && text.slice(before.start, before.end).trim() === "") ({ start } = before)
    // The file had no newline at its end.
    const eol = lineEnding(text)
    if (end === text.length && !text.endsWith("\n") && text.slice(0, start).endsWith(eol)) start -= eol.length
    rest = rest.slice(0, start) + rest.slice(end)
  }
  return { text: rest === "" && text.endsWith("\n") ? null : rest }
}

/** The string at a key of a table, as it is written; undefined if there is none. */
export const get = (text: string, table: Table, key: string): { readonly value: string | undefined } | Unreadable => {
  const statements = parse(text, table)
  if ("why" in statements) return statements
  const header = statements.findIndex((statement) => isTable(statement, table))
  const pair = header < 0 ? undefined : sectionFrom(statements, header).find((each) => each.key.join(".") === key)
  if (pair === undefined) return { value: undefined }
  const written = text.slice(pair.start, pair.end)
  const value = written.slice(written.indexOf("=") + 1).trim()
  return { value: value.slice(1, -1) }
}

/** The keys of a table and of the tables below it, each as its path below the table. */
export const paths = (
  text: string,
  table: Table
): { readonly value: ReadonlyArray<ReadonlyArray<string>> } | Unreadable => {
  const statements = parse(text, table)
  if ("why" in statements) return statements
  const pairs = statements.filter(({ kind, path }) => kind === "pair" && isBelow(path, table))
  return { value: pairs.map(({ path }) => path.slice(table.length)) }
}

const isTable = ({ key, kind }: Statement, table: Table) => kind === "table" && key.join("\0") === table.join("\0")

const isWithin = ({ key, kind }: Statement, table: Table) =>
  (kind === "table" || kind === "tables") && isBelow(key, table)

const isBelow = (path: ReadonlyArray<string>, table: Table) => path.slice(0, 2).join("\0") === table.join("\0")

/** A header with its pairs; the comments and blank lines behind the last pair belong to what follows. */
const sectionFrom = (statements: ReadonlyArray<Statement>, header: number) => {
  let last = header
  for (let at = header + 1; at < statements.length; at += 1) {
    if (statements[at]!.kind === "pair") last = at
    else if (statements[at]!.kind !== "blank") break
  }
  return statements.slice(header, last + 1)
}

/** The statements of a file; refused if it is broken or has the table in another form. */
const parse = (text: string, table: Table): ReadonlyArray<Placed> | Unreadable => {
  const found: Array<Placed> = []
  let current: ReadonlyArray<string> = []
  let seen = false
  for (let at = text.startsWith("\uFEFF") ? 1 : 0; at < text.length;) {
    const end = statementEnd(text, at)
    const statement = end === undefined ? undefined : statementAt(text, at, end)
    if (statement === undefined) return { why: `is not valid TOML on line ${lineOf(text, at)}` }
    if (statement.kind === "table" || statement.kind === "tables") current = statement.key
    const path = statement.kind === "pair" ? [...current, ...statement.key] : statement.key
    const other =
      statement.kind === "pair"
        ? current.length < 2 && path[0] === table[0] && (path.length === 1 || path[1] === table[1])
        : statement.kind === "tables" && path[0] === table[0] && path.length <= 2
    const twice = isTable(statement, table) && seen
    if (other || twice) {
      const line = lineOf(text, at)
      return { why: `has ${table.join(".")} on line ${line} in a form that cannot be edited here` }
    }
    seen ||= isTable(statement, table)
    found.push({ ...statement, path })
    at = statement.end
  }
  return found
}

/** Where the logical line at `start` ends; undefined if a string or bracket stays open. */
const statementEnd = (text: string, start: number): number | undefined => {
  let depth = 0
  let at = start
  while (at < text.length) {
    const char = text[at]!
    if (char === "#") {
      const newline = text.indexOf("\n", at)
      at = newline < 0 ? text.length : newline
    } else if (char === "\n" && depth === 0) return at + 1
    else if (char === '"' || char === "'") {
      const close = stringEnd(text, at)
      if (close === undefined) return undefined
      at = close
    } else {
      if (char === "[" || char === "{") depth += 1
      if (char === "]" || char === "}") depth -= 1
      at += 1
    }
  }
  return depth === 0 ? at : undefined
}

const stringEnd = (text: string, start: number): number | undefined => {
  const quote = text[start]!
  const long = text.startsWith(quote.repeat(3), start)
  const close = long ? quote.repeat(3) : quote
  for (let at = start + close.length; at < text.length; at += 1) {
    if (!long && text[at] === "\n") return undefined
    if (quote === '"' && text[at] === "\\") at += 1
    else if (text.startsWith(close, at)) {
      const end = at + close.length
      // A long string may end with up to two quotes of its own.
      const extra = long ? [0, 1].findIndex((offset) => text[end + offset] !== quote) : 0
      return end + (extra < 0 ? 2 : extra)
    }
  }
  return undefined
}

const statementAt = (text: string, start: number, end: number): Statement | undefined => {
  const line = text.slice(start, end).trim()
  if (line === "" || line.startsWith("#")) return { kind: "blank", key: [], start, end }
  const open = line.startsWith("[[") ? "[[" : line.startsWith("[") ? "[" : ""
  const parsed = keyAt(line, open.length)
  if (parsed === undefined) return undefined
  const close = open === "" ? "=" : open === "[[" ? "]]" : "]"
  if (!line.startsWith(close, parsed.end)) return undefined
  const after = line.slice(parsed.end + close.length).trim()
  if (open === "" ? after === "" || after.startsWith("#") : after !== "" && !after.startsWith("#")) return undefined
  return { kind: open === "" ? "pair" : open === "[" ? "table" : "tables", key: parsed.key, start, end }
}

/** A dotted key and where the text goes on behind it. */
const keyAt = (line: string, start: number) => {
  const key: Array<string> = []
  let at = start
  const skip = () => {
    while (line[at] === " " || line[at] === "\t") at += 1
  }
  for (;;) {
    skip()
    const from = at
    if (line[at] === '"' || line[at] === "'") {
      const end = stringEnd(line, at)
      if (end === undefined) return undefined
      key.push(line.slice(at + 1, end - 1))
      at = end
    } else {
      while (at < line.length && /[\w-]/.test(line[at]!)) at += 1
      if (at === from) return undefined
      key.push(line.slice(from, at))
    }
    skip()
    if (line[at] !== ".") return { key, end: at }
    at += 1
  }
}
