/** The headings of a page and the text under each, read from the HTML that this service made. */

export interface Section {
  /** 1 for the title of the page. */
  readonly level: number
  readonly id: string
  readonly title: string
  readonly text: string
}

/** As GitHub makes the anchor of a heading, so that a link works there and here. */
export const slug = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-")

export const outline = (body: string): ReadonlyArray<Section> =>
  body.split(/(?=<h[1-3] id=")/).flatMap((part) => {
    if (!/^<h[1-3] id="/.test(part)) return []
    const level = Number(part[2])
    const id = part.slice('<h1 id="'.length, part.indexOf('">'))
    const end = part.indexOf(`</h${level}>`)
    return [{ level, id, title: textOf(part.slice(0, end)), text: textOf(part.slice(end)) }]
  })

const inline = new Set(["a", "code", "em", "span", "strong"])

const textOf = (markup: string): string => {
  const [first = "", ...rest] = markup.split("<")
  const texts = rest.map((piece) => {
    const [, tag = ""] = /^\/?([a-z]{1,10})/.exec(piece) ?? []
    return (inline.has(tag) ? "" : " ") + piece.slice(piece.indexOf(">") + 1)
  })
  return [first, ...texts]
    .join("")
    .replaceAll(/&(?:amp|lt|gt|quot|#39|#x27);/g, (entity) => characters[entity]!)
    .split(/\s/)
    .filter((word) => word !== "")
    .join(" ")
}

const characters: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&#x27;": "'"
}
