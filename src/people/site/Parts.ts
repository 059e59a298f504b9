/** What the documentation is made of. */
import { html, type Html, type Part } from "../../platform/html/Html.ts"
import type { Field } from "./Shape.ts"

export const section = (id: string, title: string, ...body: ReadonlyArray<Part>): Html =>
  html`<section id="${id}">
    <h2>${title}</h2>
    ${body}
  </section>`

export const topic = (title: string, ...body: ReadonlyArray<Part>): Html =>
  html`<h3>${title}</h3>
    ${body}`

/** Each line as it is typed. */
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

/** Term and what it is. */
export const terms = (rows: ReadonlyArray<readonly [term: Part, ...says: ReadonlyArray<Part>]>): Html =>
  html`<dl>
    ${rows.map(
      ([term, ...says]) =>
        html`<div>
          <dt>${term}</dt>
          <dd>${says}</dd>
        </div>`
    )}
  </dl>`

export const fields = (title: string, given: ReadonlyArray<Field>): Part =>
  given.length > 0 &&
  html`<h4>${title}</h4>
    ${terms(
      given.map(({ name, optional, words }) => [
        html`<code>${name}</code>`,
        optional && html`<span class="mark">optional</span> `,
        words
      ])
    )}`
