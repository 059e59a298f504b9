/**
 * The script of the console. Every page works without it.
 *
 * Freshness: while the page is visible, it is fetched again every five seconds, and `main` is replaced if it changed. What
 * was typed, the focus and open details stay. It waits while text is selected, and while the page shows a form that was
 * not accepted, or has no place any more for what was typed. The header tells the service that nobody
 * asked for this page, so that an open tab does not keep a session alive.
 * Copy buttons: one beside each `code.command`. `showRing` is in app/RingScript.ts and `showPasskeys` in
 * signin/passkeys/Script.ts, which follow this part.
 */
export const consoleScript = `
const main = document.querySelector("main")
const stale = document.querySelector(".stale")
let shown = main.innerHTML

const addCopyButtons = () => {
  for (const code of main.querySelectorAll("code.command")) {
    const button = document.createElement("button")
    button.type = "button"
    button.className = "copy"
    button.textContent = "Copy"
    button.setAttribute("aria-label", "Copy " + code.textContent)
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent)
      button.textContent = "Copied"
      setTimeout(() => (button.textContent = "Copy"), 2000)
    })
    code.after(button)
  }
}

/** Elements that look alike before and after a replacement, each with its number among its likes. */
const byLikeness = (root, selector) => {
  const seen = new Map()
  const named = new Map()
  for (const element of root.querySelectorAll(selector)) {
    const likeness = [element.tagName, element.name, element.getAttribute("href"), element.matches("a, button, summary") && element.textContent].join(" ")
    const number = (seen.get(likeness) ?? 0) + 1
    seen.set(likeness, number)
    named.set(likeness + " " + number, element)
  }
  return named
}
const keyOf = (named, element) => [...named].find((entry) => entry[1] === element)?.[0]
const focusable = "a, button, input, select, textarea, summary"
const isTicked = ({ type }) => type === "radio" || type === "checkbox"
const wasChanged = (field) =>
  field.tagName === "SELECT"
    ? [...field.options].some((option) => option.selected !== option.defaultSelected)
    : isTicked(field)
      ? field.checked !== field.defaultChecked
      : field.value !== field.defaultValue
/** A form that somebody fills in keeps the version that they have seen. */
const fields = "input, select, textarea"
const isKept = (field) =>
  wasChanged(field) || (field.name === "version" && [...field.form.querySelectorAll(fields)].some(wasChanged))
const typedIn = (named) => [...named].filter(([, field]) => field.matches(fields) && isKept(field))

const replace = (html) => {
  const before = byLikeness(main, focusable)
  const focused = keyOf(before, document.activeElement)
  const values = typedIn(before).map(([key, field]) => [key, field.value, field.checked, field.selectionStart, field.selectionEnd])
  const open = [...before].filter(([, summary]) => summary.matches("details[open] > summary")).map(([key]) => key)
  main.innerHTML = html
  addCopyButtons()
  showPasskeys()
  void showRing()
  const after = byLikeness(main, focusable)
  for (const key of open) after.get(key)?.parentElement.setAttribute("open", "")
  for (const [key, value, checked, start, end] of values) {
    const field = after.get(key)
    if (field === undefined) continue
    field.value = value
    if (isTicked(field)) field.checked = checked
    if (typeof start === "number") field.setSelectionRange(start, end)
  }
  if (focused !== undefined) after.get(focused)?.focus({ preventScroll: true })
}

const isSelecting = () => {
  const selection = getSelection()
  return !selection.isCollapsed && main.contains(selection.anchorNode)
}

const refresh = async () => {
  if (document.hidden || isSelecting() || main.querySelector("[data-unsaved]") !== null) return
  const response = await fetch(location.href, { redirect: "manual", headers: { "console-refresh": "1" } })
  if (response.type === "opaqueredirect") return location.reload()
  if (!response.ok) throw new Error()
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html")
  const fresh = parsed.querySelector("main")
  const html = fresh.innerHTML
  stale.textContent = ""
  if (html === shown || isSelecting()) return
  const places = byLikeness(fresh, focusable)
  if (typedIn(byLikeness(main, focusable)).some(([key]) => !places.has(key))) {
    stale.textContent = "This page has changed while you were typing. Send what you typed, or load the page again."
    return
  }
  shown = html
  replace(html)
}

const since = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" })
let last = new Date()
const keepFresh = async () => {
  try {
    await refresh()
    if (!document.hidden) last = new Date()
  } catch {
    stale.textContent = "This page could not be brought up to date. It shows the state of " + since.format(last) + "."
  }
  setTimeout(keepFresh, 5000)
}

addCopyButtons()
setTimeout(keepFresh, 5000)
document.addEventListener("visibilitychange", () => void refresh().catch(() => {}))
`
