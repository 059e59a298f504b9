/**
 * The Markdown of agents, shown as text with structure (CommonMark, and tables).
 *
 * The parser only makes tokens. The table below renders the kinds that may appear, through `html`, which escapes; HTML
 * stays text, because the parser does not read it, and no token renders an id, a class or a style of the agent.
 * An image becomes a link. A link names its host, leads to another site, and takes nothing of this one along.
 * A heading is a bold line: an agent's text must not look like a part of the page, nor change its outline.
 * Characters that reorder or hide text are shown escaped: an entity such as `&#8238;` makes one out of acceptable text.
 * All texts of a page share one budget, because a page is rendered in one stretch, and a task has hundreds of texts.
 */
import MarkdownIt, { type Token } from "markdown-it"
import { html, type Html } from "../../platform/html/Html.ts"
import { escaped } from "../../wire/Text.ts"
import { prose } from "./Parts.ts"

/** Where the parser stops descending, and drops what is deeper: such a text is shown as it is. */
const maxNesting = 20
/**
 * What the texts of a page may cost: one for each character, each token of a block, and each character of an address. A row
 * of a table fills all columns, so 16 KiB of `|` would make two million tokens. A reference repeats its address at each use.
 */
const pageBudget = 64 * 1024

interface Budget {
  left: number
}

class BudgetExceeded extends Error {}

const spend = (budget: Budget, cost: number) => {
  budget.left -= cost
  if (budget.left < 0) throw new BudgetExceeded()
}

const parser = new MarkdownIt({ html: false, linkify: false, typographer: false, breaks: true })
parser.set({ maxNesting })
// Every address is parsed as a link, and `destination` decides: a link that is not shown as one still shows its text.
parser.validateLink = () => true

parser.block.State = class extends parser.block.State {
  override push(...given: Parameters<InstanceType<typeof parser.block.State>["push"]>) {
    spend(this.env["budget"] as Budget, 1)
    return super.push(...given)
  }
}

/** Renders the texts of one page, the most important first: once a text exceeds the budget, the rest is shown as it is. */
export const markdownOfPage = () => {
  const budget = { left: pageBudget }
  return (text: string): Html => {
    const tokens = parsed(text, budget)
    return tokens === undefined ? prose(text) : html`<div class="md">${render(tokens)}</div>`
  }
}

/** Undefined if the structure of the text would cost too much. */
const parsed = (text: string, budget: Budget) => {
  try {
    spend(budget, text.length)
    const tokens = parser.parse(text, { budget })
    spend(budget, addressesIn(tokens))
    return tokens.every(({ level }) => level < maxNesting - 1) ? tokens : undefined
  } catch (error) {
    if (error instanceof BudgetExceeded) return undefined
    throw error
  }
}

/** The characters of all addresses: a reference repeats its address at each use. */
const addressesIn = (tokens: ReadonlyArray<Token>): number => {
  let characters = 0
  for (const { attrs, children } of tokens) {
    for (const [, value] of attrs ?? []) characters += String(value).length
    if (children !== null) characters += addressesIn(children)
  }
  return characters
}

/** Renders from the inside out: a closing token wraps what came since its opening one. */
const render = (tokens: ReadonlyArray<Token>): ReadonlyArray<Html> => {
  const open: Array<{ readonly token: Token; readonly parts: Array<Html> }> = []
  let parts: Array<Html> = []
  for (const token of tokens) {
    if (token.nesting === 1) {
      open.push({ token, parts })
      parts = []
    } else if (token.nesting === -1) {
      const opened = open.pop()!
      opened.parts.push(wrap(opened.token, parts))
      parts = opened.parts
    } else {
      parts.push(leaf(token))
    }
  }
  return parts
}

const wrap = (token: Token, inner: ReadonlyArray<Html>): Html => {
  switch (token.type) {
    case "heading_open":
      return html`<p class="heading">${inner}</p>`
    case "paragraph_open":
      // In a list without blank lines.
      return token.hidden ? html`${inner}` : html`<p>${inner}</p>`
    case "blockquote_open":
      return html`<blockquote>${inner}</blockquote>`
    case "bullet_list_open":
      return html`<ul>
        ${inner}
      </ul>`
    case "ordered_list_open":
      return html`<ol start="${token.attrGet("start") ?? 1}">
        ${inner}
      </ol>`
    case "list_item_open":
      return html`<li>${inner}</li>`
    case "table_open":
      return html`<div class="wide" role="region" tabindex="0" aria-label="Table">
        <table>
          ${inner}
        </table>
      </div>`
    case "thead_open":
      return html`<thead>
        ${inner}
      </thead>`
    case "tbody_open":
      return html`<tbody>
        ${inner}
      </tbody>`
    case "tr_open":
      return html`<tr>
        ${inner}
      </tr>`
    case "th_open":
      return html`<th scope="col">${inner}</th>`
    case "td_open":
      return html`<td>${inner}</td>`
    case "em_open":
      return html`<em>${inner}</em>`
    case "strong_open":
      return html`<strong>${inner}</strong>`
    case "s_open":
      return html`<s>${inner}</s>`
    case "link_open":
      return link(String(token.attrGet("href") ?? ""), inner)
    default:
      return html`${inner}`
  }
}

const leaf = (token: Token): Html => {
  const content = escaped(token.content, "prose")
  switch (token.type) {
    case "inline":
      return html`${render(token.children ?? [])}`
    case "code_inline":
      return html`<code>${content}</code>`
    case "code_block":
    case "fence":
      return html`<pre><code>${content}</code></pre>`
    case "softbreak":
    case "hardbreak":
      return html`<br />`
    case "hr":
      return html`<hr />`
    case "image":
      return link(String(token.attrGet("src") ?? ""), [html`image: ${content}`])
    default:
      return html`${content}`
  }
}

/** Only addresses of the web and of mail lead somewhere; the rest of a link is its text. */
const link = (address: string, inner: ReadonlyArray<Html>): Html => {
  const to = destination(address)
  if (to === undefined) return html`${inner}`
  return html`<a href="${to.href}" rel="noopener noreferrer nofollow">${inner}<span class="host">${to.place}</span></a>`
}

const destination = (address: string) => {
  if (!URL.canParse(address)) return undefined
  const { host, href, pathname, protocol } = new URL(address)
  if (protocol === "mailto:") return { href, place: pathname }
  return protocol === "https:" || protocol === "http:" ? { href, place: host } : undefined
}
