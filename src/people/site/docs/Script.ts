/**
 * The script of the documentation. Every page works without it; it adds search, copy buttons, a mark at the section in
 * view, and leads addresses of the time when /docs was one page to where their section is now.
 *
 * Search shows the sections that have the most of the words, in text, heading or the page's title. A heading counts more
 * than text, the beginning of a word more than its middle, a page that says what to do more than one that says why.
 */
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

const box = document.querySelector("search")
const field = box.querySelector("input")
const list = box.querySelector("ol")
const told = box.querySelector("[role=status]")
box.hidden = false

const saysWhy = /\\/(security|decisions|proof|changelog|style|architecture)$/

let loading
const load = () => (loading ??= fetch("/docs/search.json").then(async (response) => {
  if (!response.ok) throw new Error()
  const pages = await response.json()
  return pages.flatMap(({ about, path, sections, title }) =>
    [["", title, about], ...sections].map(([id, heading, text]) => ({
      href: path + (id === "" ? "" : "#" + id), weight: saysWhy.test(path) ? 0.5 : 1, page: title, heading: heading || title, text,
      inHeading: heading.toLowerCase(), inPage: title.toLowerCase(), inText: text.toLowerCase()
    }))
  )
}).catch((error) => {
  loading = undefined
  throw error
}))

const isStart = (text, at) => at === 0 || !/[\\p{L}\\p{N}]/u.test(text[at - 1])
const scoreOf = (text, word) => {
  const at = text.indexOf(word)
  return at < 0 ? 0 : isStart(text, at) ? 2 : 1
}
const score = (section, words) => {
  const each = words.map(
    (word) => 8 * scoreOf(section.inHeading, word) + 3 * scoreOf(section.inPage, word) + scoreOf(section.inText, word)
  )
  const whole = words.join(" ")
  const more = (section.inHeading === whole ? 30 : 0) + (words.length > 1 && section.inText.includes(whole) ? 6 : 0)
  return {
    section,
    found: each.filter((one) => one > 0).length,
    sum: section.weight * (each.reduce((sum, one) => sum + one, more))
  }
}

// Without the small words of a question, if others remain.
const small = new Set("a an and can do does how i in is it my of on the to what when where which why".split(" "))
const wordsOf = (asked) => {
  const all = asked.toLowerCase().split(/[\\s?]+/).filter((word) => word !== "")
  const large = all.filter((word) => !small.has(word))
  return large.length > 0 ? large : all
}

const marked = (text, words) => {
  const lower = text.toLowerCase()
  const first = Math.min(...words.map((word) => lower.indexOf(word)).filter((at) => at >= 0))
  const from = Number.isFinite(first) ? Math.max(0, lower.lastIndexOf(" ", Math.max(0, first - 40)) + 1) : 0
  const shown = text.slice(from, from + 160)
  const parts = []
  let rest = shown
  while (rest !== "") {
    const found = words.map((word) => [rest.toLowerCase().indexOf(word), word]).filter(([at]) => at >= 0).sort(([a], [b]) => a - b)[0]
    if (found === undefined) break
    const [at, { length }] = found
    const mark = document.createElement("mark")
    mark.textContent = rest.slice(at, at + length)
    parts.push(rest.slice(0, at), mark)
    rest = rest.slice(at + length)
  }
  return [from > 0 ? "… " : "", ...parts, rest, from + 160 < text.length ? " …" : ""]
}

const item = ({ heading, href, page, text }, words) => {
  const link = document.createElement("a")
  link.href = href
  const title = document.createElement("strong")
  title.textContent = heading
  const where = document.createElement("span")
  where.className = "soft"
  where.textContent = heading === page ? "" : page
  const excerpt = document.createElement("span")
  excerpt.append(...marked(text, words))
  link.append(title, " ", where, document.createElement("br"), excerpt)
  const row = document.createElement("li")
  row.append(link)
  return row
}

const find = async () => {
  const words = wordsOf(field.value)
  if (words.length === 0) {
    list.replaceChildren()
    told.textContent = ""
    return
  }
  const asked = field.value
  try {
    const sections = await load()
    if (asked !== field.value) return
    const scored = sections.map((section) => score(section, words))
    const most = Math.max(...scored.map(({ found }) => found))
    const best = most === 0 ? [] : scored.filter(({ found }) => found === most).sort((a, b) => b.sum - a.sum)
    list.replaceChildren(...best.slice(0, 20).map(({ section }) => item(section, words)))
    const count = best.length + (best.length === 1 ? " section" : " sections")
    told.textContent =
      best.length === 0 ? "Nothing has these words." : most < words.length ? "Nothing has all of these words; " + count + " with most of them." : count
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
field.addEventListener("input", find)
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
