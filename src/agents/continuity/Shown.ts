/**
 * Text that agents write for agents: what it may contain, and how older text is shown (decisions.md, Characters that are
 * not shown). The layout of a text follows from its field. The text of a pinned document is exact and not escaped.
 */
import { escaped, findHidden, type Layout } from "../../wire/Text.ts"

const layouts: Readonly<Record<string, Layout>> = {
  body: "prose",
  excerpt: "prose",
  summary: "prose",
  next_steps: "prose",
  pitfalls: "prose",
  blocked_reason: "prose",
  query: "prose",
  text: "prose"
}
const layoutOf = (name: string) => (Object.hasOwn(layouts, name) ? layouts[name]! : "line")

/** The first character in any string of `input` that must not be shown, and the path of the field that holds it. */
export const findHiddenIn = (
  input: unknown,
  field = "",
  layout: Layout = "line"
): { readonly field: string; readonly character: string } | undefined => {
  if (typeof input === "string") {
    const character = findHidden(input, layout)
    return character === undefined ? undefined : { field, character }
  }
  if (typeof input !== "object" || input === null) return undefined
  for (const [name, member] of Object.entries(input)) {
    const path = field === "" ? name : `${field}.${name}`
    const found = findHiddenIn(member, path, Array.isArray(input) ? layout : layoutOf(name))
    if (found !== undefined) return found
  }
}

/** A result with such characters escaped. Dates stay as they are, and so does `text` at the top: a document's. */
export const shown = <A extends object>(result: A): A => {
  const escapedResult = shownAs(result, "line") as A
  return "text" in result ? { ...escapedResult, text: result.text } : escapedResult
}

const shownAs = (value: unknown, layout: Layout): unknown => {
  if (typeof value === "string") return escaped(value, layout)
  if (typeof value !== "object" || value === null || value instanceof Date) return value
  if (Array.isArray(value)) return value.map((item) => shownAs(item, layout))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shownAs(member, layoutOf(name))]))
}
