/** A template tag for HTML that escapes every interpolated value, unless it is `Html` itself. */

export class Html {
  declare readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** Markup of our own that must not be escaped, such as a style sheet. Never pass input here. */
export const trusted = (text: string): Html => new Html(text)

/** Undefined and false render as nothing, a list as its parts in order. */
export type Part = string | number | Html | undefined | false | ReadonlyArray<Part>

/** Put attribute values in double quotes, and interpolate nothing into a style: escaping does not protect there. */
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
