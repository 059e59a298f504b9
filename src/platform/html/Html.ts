/** HTML by construction: whatever is interpolated is text, unless this function made it. */

export class Html {
  declare readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** Text of our own that is markup already, such as a style sheet. Never anything that came from outside. */
export const trusted = (text: string): Html => new Html(text)

/** Undefined and false leave nothing, a list its parts one after the other. */
export type Part = string | number | Html | undefined | false | ReadonlyArray<Part>

/** Attribute values have to stand in double quotes; nothing may be interpolated into a style. */
export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html =>
  new Html(strings.map((text, index) => text + render(parts[index])).join(""))

const render = (part: Part): string => {
  if (part instanceof Html) return part.text
  if (part === undefined || part === false) return ""
  return typeof part === "object" ? part.map(render).join("") : escape(String(part))
}

const escape = (text: string) => text.replaceAll(/[&<>"']/g, (character) => entities[character]!)

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}
