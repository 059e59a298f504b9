/** HTML building blocks of the console's pages. Text of agents is escaped, keeps its line breaks and is never markup. */
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { escaped } from "../../wire/Text.ts"

/** How long ago or how soon, with the exact time in `title`. */
export const time = (at: Date, now: Date): Html =>
  html`<time datetime="${at.toISOString()}" title="${exact(at)}">${relative(at, now)}</time>`

export const exact = (at: Date): string => `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`

const units = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60]
] as const

const relative = (at: Date, now: Date) => {
  const seconds = (now.getTime() - at.getTime()) / 1000
  const long = span(Math.abs(seconds))
  if (long === undefined) return seconds >= 0 ? "just now" : "in less than a minute"
  return seconds >= 0 ? `${long} ago` : `in ${long}`
}

/** Seconds in the largest unit that fits; undefined for less than a minute. */
export const span = (seconds: number): string | undefined => {
  const unit = units.find(([, length]) => seconds >= length)
  if (unit === undefined) return undefined
  const count = Math.floor(seconds / unit[1])
  return `${count} ${unit[0]}${count === 1 ? "" : "s"}`
}

/** Text of any number of lines, in which characters that reorder or hide text are shown escaped. */
export const prose = (text: string): Html => html`<p class="text">${escaped(text, "prose")}</p>`

/** A name or a title: one line that may be written in either direction. */
export const name = (text: string): Html => html`<span class="name">${text}</span>`

type Tone = "good" | "info" | "warn" | "bad"
export const mark = (text: string, tone?: Tone): Html => html`<span class="mark ${tone ?? ""}">${text}</span>`

export const tags = (all: ReadonlyArray<string>): Part => all.map((tag) => html`${mark(tag)} `)

/** Names and values side by side; rows whose value is undefined are left out. */
export const facts = (rows: ReadonlyArray<readonly [name: string, value: Part]>): Html =>
  html` <dl>
    ${rows
      .filter(([, value]) => value !== undefined)
      .map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`
      )}
  </dl>`

export const meta = (...parts: ReadonlyArray<Part>): Html =>
  html`<p class="meta">
    ${parts.filter((part) => part !== undefined && part !== false).map((part) => html`<span>${part}</span>`)}
  </p>`

/** What a list says when it has nothing to show. */
export const empty = (...sentences: ReadonlyArray<Part>): Html =>
  html`<div class="empty">${sentences.map(paragraph)}</div>`

const paragraph = (sentence: Part) => html`<p>${sentence}</p>`

/** The link to the next page of a list, with its filters; nothing on the last page. */
export const more = (
  path: string,
  query: URLSearchParams,
  next: Readonly<Record<string, string>> | undefined
): Part => {
  if (next === undefined) return undefined
  const address = new URLSearchParams(query)
  for (const [key, value] of Object.entries(next)) address.set(key, value)
  return html`<p class="more"><a class="button" href="${`${path}?${address}`}">Next page</a></p>`
}

export const options = (all: ReadonlyArray<readonly [value: string, label: string]>, chosen: string): Part =>
  all.map(([value, label]) =>
    value === chosen
      ? html`<option value="${value}" selected>${label}</option>`
      : html`<option value="${value}">${label}</option>`
  )

/** A project's name, which leads to one of its pages. */
export const projectLink = (project_id: string, called: string, section = ""): Html =>
  html`<a class="name" href="/console/${project_id}${section && `/${section}`}">${called || project_id}</a>`

/** Bytes in the largest unit that fits. */
export const size = (bytes: number): string => {
  const unit = sizes.find(([, length]) => bytes >= length)
  return unit === undefined ? `${bytes} B` : `${(bytes / unit[1]).toFixed(bytes / unit[1] < 10 ? 1 : 0)} ${unit[0]}`
}

const sizes = [
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
  ["KiB", 1024]
] as const

/** A command for the operator, with a button that copies it. */
export const command = (text: string): Html =>
  html`<code class="command"
    >${text.split(" ").map((word, index) => html`${index > 0 && " "}<span>${word}</span>`)}</code
  >`

/** What stays a command: it mints a secret, reads or writes a file, or works on the whole database. */
export const commands = (all: ReadonlyArray<readonly [does: string, text: string]>): Html =>
  html`<h2>Commands</h2>
    <ul class="rows">
      ${all.map(
        ([does, text]) =>
          html`<li>
            ${does}
            <p class="meta">${command(text)}</p>
          </li>`
      )}
    </ul>`
