/**
 * The script of the documentation. Every page works without it; it adds search, copy buttons, a mark at the section in
 * view, and leads addresses of the time when /docs was one page to where their section is now.
 */
import { ranking } from "./Ranking.ts"

export const docsScript = `
const moved = {
  bridges: "bridges", agents: "agents", phones: "protocol#mobile", operators: "run", tools: "tools", endpoints: "endpoints",
  codes: "codes", tokens: "service#tokens", scope: "specification#16-what-is-out-of-scope"
}
const hash = location.hash.slice(1)
if (location.pathname === "/docs" && hash !== "") {
  const [, kind] = /^(tool|endpoint|code)-/.exec(hash) ?? []
  const to = kind === undefined ? moved[hash] : kind + "s#" + hash
  if (to !== undefined) location.replace("/docs/" + to)
}

// The style sheet shows it where there is no room for columns.
for (const table of document.querySelectorAll("main table")) {
  const names = [...table.tHead?.rows[0]?.cells ?? []].map(({ textContent }) => textContent)
  for (const cell of table.querySelectorAll("td")) if (names[cell.cellIndex]) cell.dataset.column ??= names[cell.cellIndex]
}

if (navigator.clipboard !== undefined) {
  for (const block of document.querySelectorAll("main pre")) {
    const button = document.createElement("button")
    button.type = "button"
    button.className = "copy"
    button.textContent = "Copy"
    const box = document.createElement("div")
    box.className = "block"
    block.before(box)
    box.append(block, button)
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent)
      button.textContent = "Copied"
      setTimeout(() => (button.textContent = "Copy"), 2000)
    })
  }
}

const toc = document.querySelector("#toc")
if (toc !== null) {
  const links = [...toc.querySelectorAll("a")]
  const headings = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))))
  const mark = () => {
    const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 2
    const below = headings.findIndex((heading) => heading.getBoundingClientRect().top > 120)
    const at = end || below < 0 ? links.length - 1 : below - 1
    for (const [index, link] of links.entries()) {
      if (index !== at) link.removeAttribute("aria-current")
      else if (!link.hasAttribute("aria-current")) {
        link.setAttribute("aria-current", "location")
        const { bottom, top } = link.getBoundingClientRect()
        if (top < 80 || bottom > innerHeight) toc.scrollTop += top - innerHeight / 2
      }
    }
  }
  addEventListener("scroll", () => requestAnimationFrame(mark), { passive: true })
  mark()
}
for (const panel of document.querySelectorAll("[popover]")) {
  panel.addEventListener("click", ({ target }) => {
    if (target.closest("a") !== null && panel.matches(":popover-open")) panel.hidePopover()
  })
}

${ranking}
const box = document.querySelector("search")
const field = box.querySelector("input")
const list = box.querySelector("ol")
const told = box.querySelector("[role=status]")
box.hidden = false

let loading
const load = () => (loading ??= fetch("/docs/search.json").then(async (response) => {
  if (!response.ok) throw new Error()
  return indexOf(await response.json())
}).catch((error) => {
  loading = undefined
  throw error
}))

/** The text from shortly before the first word that was found, with these words marked. */
const marked = (text, isHit) => {
  const hits = [...text.matchAll(words)].filter(([word]) => isHit(word))
  const first = hits[0]?.index ?? 0
  const from = first < 60 ? 0 : text.lastIndexOf(" ", first - 40) + 1
  const to = from + 160
  const parts = [from > 0 ? "… " : ""]
  let at = from
  for (const { 0: word, index } of hits) {
    if (index < at || index + word.length > to) continue
    const mark = document.createElement("mark")
    mark.textContent = word
    parts.push(text.slice(at, index), mark)
    at = index + word.length
  }
  return [...parts, text.slice(at, to), to < text.length ? " …" : ""]
}

const item = ({ heading, href, page, text }, isHit) => {
  const link = document.createElement("a")
  link.href = href
  const title = document.createElement("strong")
  title.textContent = heading
  const where = document.createElement("span")
  where.className = "soft"
  where.textContent = heading === page ? "" : page
  const excerpt = document.createElement("span")
  excerpt.append(...marked(text, isHit))
  link.append(title, " ", where, document.createElement("br"), excerpt)
  const row = document.createElement("li")
  row.append(link)
  return row
}

const show = async () => {
  const asked = field.value
  if (asked.trim() === "") return close()
  try {
    const index = await load()
    if (asked !== field.value) return
    const { found, isHit, isWhole } = find(index, asked)
    list.replaceChildren(...found.map((passage) => item(passage, isHit)))
    told.textContent = found.length === 0 ? "Nothing has these words." : isWhole ? "" : "Nothing has all of these words."
  } catch {
    list.replaceChildren()
    told.textContent = "The index could not be loaded. Try again."
  }
}
const close = () => {
  list.replaceChildren()
  told.textContent = ""
}
field.addEventListener("focus", () => void load().catch(() => {}))
field.addEventListener("input", show)
box.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault()
  list.querySelector("a")?.click()
})
list.addEventListener("click", close)
box.addEventListener("keydown", (event) => {
  const links = [field, ...list.querySelectorAll("a")]
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (step !== undefined) {
    event.preventDefault()
    links[links.indexOf(document.activeElement) + step]?.focus()
  } else if (event.key === "Escape") {
    field.focus()
    close()
  }
})
document.addEventListener("click", ({ target }) => {
  if (!box.contains(target)) close()
})
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return
  event.preventDefault()
  field.focus()
  field.select()
})
`
