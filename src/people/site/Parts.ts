/** HTML building blocks of the documentation page. */
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import type { Field } from "./JsonSchema.ts"

export const section = (id: string, title: string, ...body: ReadonlyArray<Part>): Html =>
  html`<section id="${id}">
    <h2>${title}</h2>
    ${body}
  </section>`

export const topic = (title: string, ...body: ReadonlyArray<Part>): Html =>
  html`<h3>${title}</h3>
    ${body}`

/** Preformatted text: commands, requests, configuration. */
export const block = (text: string): Html => html`<pre><code>${text}</code></pre>`

export const steps = (...items: ReadonlyArray<Part>): Html =>
  html`<ol>
    ${items.map((item) => html`<li>${item}</li>`)}
  </ol>`

export const list = (...items: ReadonlyArray<Part>): Part =>
  items.length > 0 &&
  html`<ul>
    ${items.map((item) => html`<li>${item}</li>`)}
  </ul>`

/** A definition list. */
export const terms = (rows: ReadonlyArray<readonly [term: Part, ...definition: ReadonlyArray<Part>]>): Html =>
  html`<dl>
    ${rows.map(
      ([term, ...definition]) =>
        html`<div>
          <dt>${term}</dt>
          <dd>${definition}</dd>
        </div>`
    )}
  </dl>`

/** The fields of a body or headers under a heading; nothing if there are none. */
export const fields = (title: string, all: ReadonlyArray<Field>): Part =>
  all.length > 0 &&
  html`<h4>${title}</h4>
    ${terms(
      all.map(({ description, name, optional }) => [
        html`<code>${name}</code>`,
        optional && html`<span class="mark">optional</span> `,
        description
      ])
    )}`
