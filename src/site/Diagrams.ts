/** Sequence diagrams as inline SVG, drawn from lists of steps, so that picture and description cannot differ. */
import { html, type Html } from "./Html.ts"

/** `to` equal to `from`: something done alone. A step without `from` opens a part of the diagram. */
type Step =
  | { readonly from: number; readonly to: number; readonly says: string; readonly then?: "answer" | "refusal" }
  | { readonly part: string }

interface Flow {
  readonly id: string
  readonly title: string
  readonly actors: ReadonlyArray<string>
  readonly steps: ReadonlyArray<Step>
}

const width = 640
const row = 40
const top = 52

export const diagram = ({ actors, id, steps, title }: Flow): Html => {
  const lane = (index: number) => Math.round((width / actors.length) * (index + 0.5))
  const height = top + steps.length * row + 8
  return html`<div class="wide" role="region" tabindex="0" aria-label="${title}">
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${id}-title ${id}-text">
      <title id="${id}-title">${title}</title>
      <desc id="${id}-text">${steps.map((step) => `${inWords(step, actors)}. `)}</desc>
      ${actors.map(
        (actor, index) =>
          html`<line class="lane" x1="${lane(index)}" x2="${lane(index)}" y1="34" y2="${height}" />
            <rect class="actor" x="${lane(index) - 56}" y="4" width="112" height="30" rx="8" />
            <text class="name" x="${lane(index)}" y="24">${actor}</text>`
      )}
      ${steps.map((step, index) => drawn(step, top + index * row, lane))}
    </svg>
  </div>`
}

const drawn = (step: Step, y: number, lane: (index: number) => number): Html => {
  if ("part" in step) {
    return html`<line class="part" x1="0" x2="${width}" y1="${y + 8}" y2="${y + 8}" />
      <text class="label" x="4" y="${y + 26}">${step.part}</text>`
  }
  const { from, says, then = "request", to } = step
  const middle = (lane(from) + lane(to)) / 2
  // Wide enough for what it says; at the edge it moves inwards.
  const half = says.length * 3.5 + 10
  const centre = Math.min(Math.max(middle, half + 2), width - half - 2)
  if (from === to) {
    return html`<rect class="alone" x="${centre - half}" y="${y + 6}" width="${2 * half}" height="26" rx="6" />
      <text x="${centre}" y="${y + 23}">${says}</text>`
  }
  const [start, end, back] = from < to ? [lane(from), lane(to) - 1, -8] : [lane(from), lane(to) + 1, 8]
  return html`<line class="${then}" x1="${start}" x2="${end + back / 2}" y1="${y + 28}" y2="${y + 28}" />
    <path class="${then} tip" d="M${end} ${y + 28}l${back} -4.5v9z" />
    <text class="${then}" x="${centre}" y="${y + 20}">${says}</text>`
}

const inWords = (step: Step, actors: ReadonlyArray<string>) => {
  if ("part" in step) return step.part
  const { from, says, to } = step
  return from === to ? `${actors[from]}: ${says}` : `${actors[from]} to ${actors[to]}: ${says}`
}
