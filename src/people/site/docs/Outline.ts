/** The headings of a page, the text under each and the rows of its tables, read from the HTML that this service made. */

export interface Section {
  /** 1 for the title of the page. */
  readonly level: number
  readonly id: string
  readonly title: string
  /** Without the rows. */
  readonly text: string
  readonly rows: ReadonlyArray<Row>
}

/** Of a table or a list of terms. */
interface Row {
  readonly id: string
  /** The cell that names it. */
  readonly title: string
  /** The other cells. */
  readonly rest: string
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
    const [text = "", ...rows] = part.slice(end).split(/(?=<(?:tr|div) id=")/)
    const between = rows.map((row) => row.slice(endOf(row)))
    return [
      { level, id, title: textOf(part.slice(0, end)), text: textOf([text, ...between].join("")), rows: rows.map(rowOf) }
    ]
  })

const endOf = (row: string) => row.indexOf(row.startsWith("<tr") ? "</tr>" : "</div>")

const rowOf = (row: string): Row => {
  const id = row.slice(row.indexOf('"') + 1, row.indexOf('">'))
  const start = row.search(/<(?:th|dt)\b/)
  const end = row.search(/<\/(?:th|dt)>/)
  return { id, title: textOf(row.slice(start, end)), rest: textOf(row.slice(0, start) + row.slice(end, endOf(row))) }
}

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
