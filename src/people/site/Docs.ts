/**
 * /docs (spec 4.9): the Markdown of this repository, and a reference generated from the tables in the code, with search
 * over all of it. A page is rendered when it is first asked for, and kept.
 */
import { Effect } from "effect"
import { endpointsOf, type OpenApiDocument } from "./Endpoints.ts"
import type { Deployment } from "./Deployment.ts"
import { chapters, entries, type Entry } from "./docs/Contents.ts"
import { markdown } from "./docs/Markdown.ts"
import { outline, type Section } from "./docs/Outline.ts"
import { docsScript } from "./docs/Script.ts"
import { searchIndex } from "./docs/Search.ts"
import { docsStyle } from "./docs/Style.ts"
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import { pagesWith } from "../../platform/html/Page.ts"
import { pageText } from "../../platform/settings/Texts.ts"
import { heading } from "./Parts.ts"
import { reference } from "./Reference.ts"

const { headers, page } = pagesWith(docsStyle, docsScript)
export const docsHeaders = headers

/** The address of the service in the examples of the pages. */
const exampleAddress = "http://127.0.0.1:8787"
/** A table of contents that is longer shows only the headings of the second level. */
const mostHeadings = 60

export interface Docs {
  readonly start: string
  readonly pages: ReadonlyArray<readonly [path: Entry["path"], page: Effect.Effect<string>]>
  readonly search: Effect.Effect<string>
}

export const docs = (deployment: Deployment, contract: OpenApiDocument): Docs => {
  const generated = reference(deployment, endpointsOf(contract))
  const body = ({ from, title }: Entry): Html => {
    if ("made" in from) return html`${heading(1, from.made, title)} ${generated[from.made]()}`
    const text = pageText(from.file)
    return markdown(from.file, from.own ? text.replaceAll(exampleAddress, deployment.base_url) : text)
  }
  return {
    start: page("Bridge Service documentation", framed(undefined, [], start(deployment))),
    pages: entries.map((entry, index) => [
      entry.path,
      Effect.sync(() => {
        const shown = body(entry)
        const sections = outline(shown.text).filter(({ level }) => level > 1)
        return page(
          `${entry.title} · Bridge Service`,
          framed(entry.path, sections, html`${shown} ${neighbours(entries[index - 1], entries[index + 1])}`)
        )
      })
    ]),
    search: searchIndex(entries, (entry) => body(entry).text)
  }
}

/** A popover where there is no room for it beside the text. */
const framed = (path: string | undefined, sections: ReadonlyArray<Section>, body: Html): Html =>
  html`<a class="skip" href="#content">Skip to the content</a>
    <header>
      <a class="brand" href="/">Bridge Service</a>
      <a class="all" href="/docs">Documentation</a>
      <search hidden>
        <form>
          <input
            type="search"
            aria-label="Search the documentation"
            placeholder="Search"
            autocomplete="off"
            spellcheck="false"
          />
        </form>
        <div class="found">
          <p role="status"></p>
          <ol></ol>
        </div>
      </search>
      <button class="opens" type="button" popovertarget="menu">Pages</button>
      ${sections.length > 0 && html`<button class="opens" type="button" popovertarget="toc">Sections</button>`}
    </header>
    <div class="page">
      <nav id="menu" popover aria-label="Pages">
        ${chapters.map(
          ({ entries, title }) =>
            html`<p class="label">${title}</p>
              <ul>
                ${entries.map((entry) => html`<li>${link(entry.path, entry.title, path)}</li>`)}
              </ul>`
        )}
      </nav>
      <main id="content" tabindex="-1">${body}</main>
      ${contents(sections)}
    </div>`

const link = (to: string, title: string, path: string | undefined) =>
  html`<a href="${to}" ${to === path && html`aria-current="page"`}>${title}</a>`

const contents = (sections: ReadonlyArray<Section>): Part => {
  const shown = sections.length > mostHeadings ? sections.filter(({ level }) => level === 2) : sections
  return (
    shown.length > 0 &&
    html`<nav id="toc" popover aria-label="On this page">
      <p class="label">On this page</p>
      <ul>
        ${shown.map(
          ({ id, level, title }) => html`<li ${level > 2 && html`class="inner"`}><a href="#${id}">${title}</a></li>`
        )}
      </ul>
    </nav>`
  )
}

const neighbours = (before: Entry | undefined, after: Entry | undefined): Html =>
  html`<nav class="neighbours" aria-label="Previous and next page">
    ${before !== undefined && html`<a class="before" rel="prev" href="${before.path}">${before.title}</a>`}
    ${after !== undefined && html`<a class="after" rel="next" href="${after.path}">${after.title}</a>`}
  </nav>`

const start = ({ base_url, resource }: Deployment): Html =>
  html`<h1>Documentation</h1>
    <p class="lead">
      This service enrolls Bridges and gives agents access to the memory, tasks and documents of one project.
    </p>
    <p class="soft">
      Its address is <code>${base_url}</code>, that of its MCP server <code>${resource}</code>. All ids, names and keys
      on these pages are examples.
    </p>
    <div class="chapters">
      ${chapters.map(
        ({ about, entries, title }) =>
          html`<section>
            <h2>${title}</h2>
            <p class="soft">${about}.</p>
            <ul>
              ${entries.map((entry) => html`<li><a href="${entry.path}">${entry.title}</a>: ${entry.about}</li>`)}
            </ul>
          </section>`
      )}
    </div>`
