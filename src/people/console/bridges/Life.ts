/** The life of a Bridge's token, drawn against now: start, 60 and 80 %, between which the Bridge rotates, and the end. */
import { html, type Html } from "../../../platform/html/Html.ts"
import { exact, span } from "../Parts.ts"

const width = 320
const [rotatesFrom, rotatesUntil] = [0.6, 0.8]

export const life = (started_at: Date, expires_at: Date, now: Date): Html => {
  const whole = expires_at.getTime() - started_at.getTime()
  const lived = Math.min(1, Math.max(0, (now.getTime() - started_at.getTime()) / whole))
  const at = (share: number) => (share * width).toFixed(1)
  const marks = [
    [0, "start"],
    [rotatesFrom, "60 %"],
    [rotatesUntil, "80 %"],
    [1, "end"]
  ] as const
  const left = span((expires_at.getTime() - now.getTime()) / 1000)
  const label = `${Math.floor(lived * 100)} % of the token's life has passed; from ${exact(started_at)} to ${exact(expires_at)}${left === undefined ? "" : `, ${left} left`}`
  return html`<svg class="life" viewBox="-2 0 ${width + 4} 44" role="img" aria-label="${label}">
    <rect class="track" x="0" y="8" width="${width}" height="12" rx="6" />
    <rect class="window" x="${at(rotatesFrom)}" y="8" width="${at(rotatesUntil - rotatesFrom)}" height="12" />
    <path
      class="late"
      d="M${at(rotatesUntil)} 8h${at(1 - rotatesUntil - 6 / width)}a6 6 0 0 1 0 12H${at(rotatesUntil)}z"
    />
    <rect class="lived" x="0" y="12" width="${at(lived)}" height="4" rx="2" />
    <rect class="now" x="${at(lived)}" y="3" width="3" height="22" rx="1.5" transform="translate(-1.5 0)" />
    ${marks.map(
      ([share, word]) =>
        html`<text x="${at(share)}" y="40" text-anchor="${share === 0 ? "start" : share === 1 ? "end" : "middle"}"
          >${word}</text
        >`
    )}
  </svg>`
}
