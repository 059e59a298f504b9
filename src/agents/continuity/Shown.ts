/**
 * Text that agents write for agents: what it may contain, and how older text is shown (decisions.md, Characters that are
 * not shown). The layout of a text follows from its field. The text of a pinned document is exact and not escaped.
 */
import { escaped, findHidden, type Layout } from "../../wire/Text.ts"

const layouts: Readonly<Record<string, Layout | "exact">> = {
  body: "prose",
  excerpt: "prose",
  summary: "prose",
  next_steps: "prose",
  pitfalls: "prose",
  blocked_reason: "prose",
  query: "prose",
  text: "exact"
}
const layoutOf = (name: string) => (Object.hasOwn(layouts, name) ? layouts[name]! : "line")

/** The first character in any string of `input` that must not be shown, and the path of the field that holds it. */
export const findHiddenIn = (
  input: unknown,
  field = "",
  layout: Layout | "exact" = "line"
): { readonly field: string; readonly character: string } | undefined => {
  if (typeof input === "string") {
    const character = layout === "exact" ? undefined : findHidden(input, layout)
    return character === undefined ? undefined : { field, character }
  }
  if (typeof input !== "object" || input === null) return undefined
  for (const [name, member] of Object.entries(input)) {
    const path = field === "" ? name : `${field}.${name}`
    const found = findHiddenIn(member, path, Array.isArray(input) ? layout : layoutOf(name))
    if (found !== undefined) return found
  }
}

/** A result with such characters escaped. Dates stay as they are. */
export const shown = <A>(result: A): A => shownAs(result, "line") as A

const shownAs = (value: unknown, layout: Layout | "exact"): unknown => {
  if (typeof value === "string") return layout === "exact" ? value : escaped(value, layout)
  if (typeof value !== "object" || value === null || value instanceof Date) return value
  if (Array.isArray(value)) return value.map((item) => shownAs(item, layout))
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shownAs(member, layoutOf(name))]))
}
