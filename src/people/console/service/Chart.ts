/** A small chart of samples over time as inline SVG: oldest at the left, zero at the bottom. */
import { html, type Html } from "../../../platform/html/Html.ts"

const width = 240
const height = 56

/** `show` writes a value with its unit. Gaps are samples without a value. */
export const chart = (
  title: string,
  values: ReadonlyArray<number | undefined>,
  show: (value: number) => string
): Html => {
  const known = values.filter((value) => value !== undefined)
  const highest = Math.max(0, ...known)
  const last = values.at(-1)
  const text =
    known.length === 0
      ? "nothing measured yet"
      : `now ${last === undefined ? "unknown" : show(last)}, highest ${show(highest)}`
  const step = width / Math.max(1, values.length - 1)
  const point = (value: number, at: number) =>
    `${(at * step).toFixed(1)} ${(height - (height - 4) * (value / (highest || 1)) - 1).toFixed(1)}`
  const path = values
    .map((value, at) => (value === undefined ? "" : `${values[at - 1] === undefined ? "M" : "L"}${point(value, at)}`))
    .join("")
  return html`<figure class="card chart">
    <figcaption><span>${title}</span> <b>${last === undefined ? "–" : show(last)}</b></figcaption>
    <svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}: ${text}">
      <line x1="0" x2="${width}" y1="${height - 0.5}" y2="${height - 0.5}" />
      <path d="${path}" />
    </svg>
    <p class="small soft">${known.length === 0 ? "nothing measured yet" : `highest ${show(highest)}`}</p>
  </figure>`
}
