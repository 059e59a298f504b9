/**
 * Diagrams from the part of Mermaid that the pages use. A state chart becomes a table of its transitions, which also fits a
 * phone. A sequence diagram (participants, messages, and notes) becomes an inline SVG; picture and text alternative come
 * from one list of steps, so they cannot differ.
 *
 *     accTitle: How a Bridge enrolls
 *     participant Bridge
 *     Bridge->>Service: a request
 *     Service-->>Bridge: an answer
 *     Service--xBridge: a refusal
 *     Note over Bridge: an action without a message
 *     Note over Bridge,Service: the head of an alternative course: its consequence
 */
import { html, type Html } from "../../../platform/html/Html.ts"
import { slug } from "./Outline.ts"

type Kind = "request" | "answer" | "refusal"
/** `to` equal to `from` is an action without a message. */
type Step =
  | { readonly from: number; readonly to: number; readonly says: string; readonly kind: Kind }
  | { readonly part: string; readonly so: string }

interface Flow {
  readonly title: string
  readonly actors: ReadonlyArray<string>
  readonly steps: ReadonlyArray<Step>
}

/** A phone shows it whole, with text that can be read. */
const width = 400
const top = 48
const heightOf = (step: Step) => ("part" in step ? 60 : 40)

/** Undefined if a line is not understood. */
export const diagram = (mermaid: string): Html | undefined => {
  if (mermaid.startsWith("stateDiagram")) return states(mermaid)
  const flow = parse(mermaid)
  return flow === undefined ? undefined : draw(flow)
}

const states = (mermaid: string): Html | undefined => {
  const transitions = new Map<string, Array<readonly [event: string, next: string]>>()
  let title = ""
  for (const line of mermaid.split("\n").map((one) => one.trim())) {
    const [, from, to, event] = /^(\w+) --> (\w+): (.+)$/.exec(line) ?? []
    if (from !== undefined) transitions.set(from, [...(transitions.get(from) ?? []), [event!, to!]])
    else if (line.startsWith("accTitle: ")) title = line.slice("accTitle: ".length)
    else if (!/^(stateDiagram-v2|accDescr: .*|\[\*\] --> \w+|)$/.test(line)) return undefined
  }
  const called = (state: string) => state.replaceAll("_", " ")
  return html`<div class="wide" role="region" tabindex="0" aria-label="${title}">
    <table>
      <thead>
        <tr>
          <th>State</th>
          <th>Event</th>
          <th>Next</th>
        </tr>
      </thead>
      ${[...transitions].map(
        ([from, all]) =>
          html`<tbody>
            ${all.map(
              ([event, next], index) =>
                html`<tr>
                  ${index === 0 && html`<th scope="rowgroup" rowspan="${all.length}">${called(from)}</th>`}
                  <td data-column="Event">${event}</td>
                  <td data-column="Next">${called(next)}</td>
                </tr>`
            )}
          </tbody>`
      )}
    </table>
  </div>`
}

const parse = (mermaid: string): Flow | undefined => {
  const actors: Array<string> = []
  const steps: Array<Step> = []
  let title = ""
  const number = (actor: string) => actors.indexOf(actor)
  for (const line of mermaid.split("\n").map((one) => one.trim())) {
    const colon = line.indexOf(": ")
    const [head, says] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 2)]
    const [, from, arrow, to] = /^(\w{1,20})(->>|-->>|--x)(\w{1,20})$/.exec(head) ?? []
    if (from !== undefined) steps.push({ from: number(from), to: number(to!), says, kind: kinds[arrow!]! })
    else if (head.startsWith("participant ")) actors.push(head.slice("participant ".length))
    else if (head === "accTitle") title = says
    else if (head.startsWith("Note over ")) {
      const over = head.slice("Note over ".length).split(",").map(number)
      const [part = "", so = ""] = says.split(": ")
      steps.push(over.length > 1 ? { part, so } : { from: over[0]!, to: over[0]!, says, kind: "request" })
    } else if (head !== "" && head !== "sequenceDiagram") return undefined
  }
  return { title, actors, steps }
}

const kinds: Readonly<Record<string, Kind>> = { "->>": "request", "-->>": "answer", "--x": "refusal" }

const draw = ({ actors, steps, title }: Flow): Html => {
  const id = slug(title)
  const lane = (index: number) => Math.round((width / actors.length) * (index + 0.5))
  const tops = steps.map((_, index) => top + total(steps.slice(0, index)))
  const height = top + total(steps) + 8
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
      ${steps.map((step, index) => drawStep(step, tops[index]!, lane))}
    </svg>
  </div>`
}

const total = (steps: ReadonlyArray<Step>) => steps.reduce((sum, step) => sum + heightOf(step), 0)

const drawStep = (step: Step, y: number, lane: (index: number) => number): Html => {
  if ("part" in step) {
    return html`<line class="part" x1="0" x2="${width}" y1="${y + 12}" y2="${y + 12}" />
      <text class="label" x="0" y="${y + 34}">${step.part}</text>
      <text class="so" x="0" y="${y + 51}">${step.so}</text>`
  }
  const { from, kind, says, to } = step
  const middle = (lane(from) + lane(to)) / 2
  // Wide enough for its text; near an edge it is moved inwards.
  const half = says.length * 3.5 + 8
  const centre = Math.min(Math.max(middle, half + 2), width - half - 2)
  if (from === to) {
    return html`<rect class="alone" x="${centre - half}" y="${y + 6}" width="${2 * half}" height="26" rx="6" />
      <text x="${centre}" y="${y + 23}">${says}</text>`
  }
  const [start, end, back] = from < to ? [lane(from), lane(to) - 1, -8] : [lane(from), lane(to) + 1, 8]
  return html`<line class="${kind}" x1="${start}" x2="${end + back / 2}" y1="${y + 28}" y2="${y + 28}" />
    <path class="${kind} tip" d="M${end} ${y + 28}l${back} -4.5v9z" />
    <text class="${kind}" x="${centre}" y="${y + 20}">${says}</text>`
}

const inWords = (step: Step, actors: ReadonlyArray<string>) => {
  if ("part" in step) return `${step.part}: ${step.so}`
  const { from, says, to } = step
  return from === to ? `${actors[from]}: ${says}` : `${actors[from]} to ${actors[to]}: ${says}`
}
