/**
 * Renders a Markdown file of this repository. Links between the files lead to their pages; a link to a file that no page
 * shows, such as source code, becomes its text. A mermaid block is drawn here, and by GitHub. Pictures are left out: they
 * show the console, which is at hand where /docs is.
 */
import MarkdownIt, { type Token } from "markdown-it"
import { posix } from "node:path"
import { html, type Html, trusted } from "../../../platform/html/Html.ts"
import { pageOf } from "./Contents.ts"
import { diagram } from "./Diagrams.ts"
import { highlighted } from "./Highlight.ts"
import { slug } from "./Outline.ts"
import { block } from "../Parts.ts"

const parser = new MarkdownIt({ html: false, linkify: false, typographer: false })

/** An inline code up to this length is never broken into two lines. */
const unbroken = 32

export const markdown = (file: string, text: string): Html => {
  const tokens = parser.parse(text.replaceAll(/^<picture>[^]*?^<\/picture>$/gm, ""), {})
  identify(tokens)
  unlink(tokens, file)
  // The policy of the page allows no style in an attribute.
  for (const token of tokens) if (token.attrGet("style") !== null) token.attrs = [["class", "number"]]
  dropEmptyHeads(tokens)
  for (const [index, table] of tokens.filter(({ type }) => type === "table_open").entries()) {
    table.attrSet("aria-label", `Table ${index + 1}`)
  }
  return trusted(parser.renderer.render(tokens, parser.options, {}))
}

/** Gives each heading its id, as on GitHub, then each row of a table one from its name. Repeated ones are numbered. */
const identify = (tokens: ReadonlyArray<Token>) => {
  const seen = new Map<string, number>()
  const set = (token: Token, name: string) => {
    const id = slug(name)
    if (id === "") return
    const before = seen.get(id) ?? 0
    seen.set(id, before + 1)
    token.attrSet("id", before === 0 ? id : `${id}-${before}`)
  }
  for (const [index, token] of tokens.entries()) {
    if (token.type === "heading_open") set(token, plain(tokens[index + 1]!))
  }
  for (const rows of tables(tokens)) {
    const columns = rows[0]!.cells.map((_, column) => rows.map(({ cells }) => cells[column]!.content))
    const codes = columns.findIndex(areCodes)
    const naming = codes === -1 ? Math.max(0, columns.findIndex(areNames)) : codes
    for (const { cells, start } of rows) {
      const { content, head } = cells[naming]!.content.content === "" ? cells[0]! : cells[naming]!
      for (const token of head) token.tag = "th"
      head[0].attrSet("scope", "row")
      set(start, plain(content))
    }
  }
}

const plain = (inline: Token) => (inline.children ?? []).map((child) => child.content).join("")

/** A column of codes names the rows: of statuses, codes and conditions the codes. */
const areCodes = (cells: ReadonlyArray<Token>) => {
  const filled = cells.filter(({ content }) => content !== "")
  return (
    filled.length > 0 && filled.every(({ children }) => children?.length === 1 && children[0]!.type === "code_inline")
  )
}

/** Otherwise the first column in which no text is twice. */
const areNames = (cells: ReadonlyArray<Token>) => new Set(cells.map(plain)).size === cells.length

/** The rows of each table, without its head. */
const tables = (tokens: ReadonlyArray<Token>) => {
  const found: Array<Array<Row>> = []
  let body: Array<Row> | undefined
  for (const [index, token] of tokens.entries()) {
    if (token.type === "tbody_open") found.push((body = []))
    else if (token.type === "tbody_close") body = undefined
    else if (token.type === "tr_open") body?.push({ start: token, cells: [] })
    else if (token.type === "td_open") {
      body?.at(-1)?.cells.push({ head: [token, tokens[index + 2]!], content: tokens[index + 1]! })
    }
  }
  return found
}

interface Row {
  readonly start: Token
  readonly cells: Array<{ readonly head: readonly [open: Token, close: Token]; readonly content: Token }>
}

const unlink = (tokens: ReadonlyArray<Token>, file: string) => {
  for (const { children } of tokens) {
    let isPlain = false
    for (const token of children ?? []) {
      if (token.type === "link_open") {
        const to = destination(file, String(token.attrGet("href")))
        isPlain = to === undefined
        if (to !== undefined) token.attrSet("href", to)
      }
      if (isPlain && token.type.startsWith("link_")) token.tag = "span"
      if (isPlain && token.type === "link_open") token.attrs = [["class", "file"]]
    }
  }
}

const destination = (file: string, href: string): string | undefined => {
  if (href.startsWith("#") || URL.canParse(href)) return href
  const [path = "", hash] = href.split("#")
  const page = pageOf(posix.join(posix.dirname(file), path))
  return page === undefined ? undefined : page + (hash === undefined ? "" : `#${hash}`)
}

/** A table without names of columns has a head only because Markdown demands one. */
const dropEmptyHeads = (tokens: ReadonlyArray<Token>) => {
  for (const [start, { type }] of tokens.entries()) {
    if (type !== "thead_open") continue
    const end = tokens.findIndex((token, index) => index > start && token.type === "thead_close")
    const head = tokens.slice(start, end + 1)
    const cells = head.filter((token) => token.type === "inline")
    const isEmpty = cells.every(({ content }) => content === "")
    for (const [index, token] of head.entries()) {
      if (isEmpty) token.hidden = true
      else if (token.type === "th_open" && head[index + 1]!.content === "") {
        token.tag = "td"
        head[index + 2]!.tag = "td"
      }
    }
  }
}

const rules = parser.renderer.rules
rules["heading_open"] = (tokens, index) => {
  const { tag } = tokens[index]!
  const id = String(tokens[index]!.attrGet("id"))
  return html`${trusted(`<${tag}`)} id="${id}"><a href="#${id}">`.text
}
rules["heading_close"] = (tokens, index) => `</a></${tokens[index]!.tag}>\n`
rules["table_open"] = (tokens, index) =>
  html`<div class="wide" role="region" tabindex="0" aria-label="${String(tokens[index]!.attrGet("aria-label"))}">
    ${trusted("<table>")}
   `.text
rules["table_close"] = () => "</table></div>"
rules["code_inline"] = (tokens, index) => {
  const { content } = tokens[index]!
  return html`<code${content.length <= unbroken && trusted(' class="short"')}>${content}</code>`.text
}
rules["code_block"] = (tokens, index) => block(tokens[index]!.content).text
rules["fence"] = (tokens, index) => {
  const { content, info } = tokens[index]!
  return ((info === "mermaid" ? diagram(content) : undefined) ?? block(highlighted(content, info))).text
}
