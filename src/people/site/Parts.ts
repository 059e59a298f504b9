/** HTML building blocks of the documentation. */
import { html, type Html, type Part, trusted } from "../../platform/html/Html.ts"
import { slug } from "./docs/Outline.ts"
import type { Field } from "./JsonSchema.ts"

/** A heading that links to itself. */
export const heading = (level: 1 | 2 | 3, id: string, title: Part): Html =>
  html`${trusted(`<h${level} id="`)}${id}"><a href="#${id}">${title}</a>${trusted(`</h${level}>`)}`

export const topic = (title: string, ...body: ReadonlyArray<Part>): Html =>
  html`${heading(2, slug(title), title)} ${body}`

/** Preformatted text: commands, requests, configuration. It may be wider than the screen. */
export const block = (text: Part): Html => html`<pre tabindex="0"><code>${text}</code></pre>`

/** A definition list. Terms that others link to, or that the search finds by themselves, have ids. */
export const terms = (
  rows: ReadonlyArray<readonly [term: Part, ...definition: ReadonlyArray<Part>]>,
  ids: ReadonlyArray<string> = []
): Html =>
  html`<dl>
    ${rows.map(
      ([term, ...definition], index) =>
        html`<div${ids[index] !== undefined && html` id="${ids[index]}"`}>
          <dt>${term}</dt>
          <dd>${definition}</dd>
        </div>`
    )}
  </dl>`

/** The fields of a body or headers under a heading; nothing if there are none. */
export const fields = (title: string, all: ReadonlyArray<Field>): Part =>
  all.length > 0 &&
  html`<p class="label">${title}</p>
    ${terms(
      all.map(({ description, name, optional }) => [
        html`<code>${name}</code>`,
        optional && html`<span class="mark">optional</span> `,
        description
      ])
    )}`
