/** The style sheet of the documentation: contents beside the text on wide screens, above it on narrow ones. */
import { colours } from "../../platform/html/Style.ts"

export const docsStyle = `${colours}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 24px; }
body {
  margin: 0 auto; max-width: 64rem; display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 0 56px; padding: 0 32px;
  background: var(--ground); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
a { color: var(--accent); text-underline-offset: 2px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
.skip { position: absolute; left: 16px; top: -64px; padding: 8px 14px; border-radius: 8px; background: var(--card); }
.skip:focus { top: 12px; z-index: 1; }
header { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 48px 0 24px; }
.brand { display: block; margin: 0 0 20px; color: var(--ink); font-weight: 650; text-decoration: none; }
nav { display: grid; border-left: 1px solid var(--line); }
nav a { padding: 6px 0 6px 16px; color: var(--soft); text-decoration: none; }
nav a:hover { color: var(--ink); box-shadow: inset 2px 0 var(--accent); }
main { min-width: 0; padding: 44px 0 96px; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; letter-spacing: -.01em; text-wrap: balance; }
h1 { margin: 0 0 12px; font-size: 2.25rem; letter-spacing: -.02em; }
h2 { margin: 0 0 12px; font-size: 1.625rem; }
h3 { margin: 36px 0 8px; font-size: 1.125rem; }
h4 { margin: 20px 0 4px; font-size: .8125rem; font-weight: 600; color: var(--soft); }
h4.route { margin: 0 0 8px; font-size: .9375rem; color: var(--ink); overflow-wrap: anywhere; }
p { margin: 0 0 14px; }
.lead { font-size: 1.1875rem; line-height: 1.5; }
.soft { color: var(--soft); }
section { margin: 64px 0 0; padding: 40px 0 0; border-top: 1px solid var(--line); }
section > h3:first-of-type { margin-top: 28px; }
article { margin: 16px 0; padding: 20px 24px; border: 1px solid var(--line); border-radius: 14px; background: var(--card); }
article h3 { margin: 0 0 4px; font-size: 1rem; }
article p:last-child, article dl:last-child { margin-bottom: 0; }
ol, ul { margin: 0 0 14px; padding: 0 0 0 22px; }
li { padding: 3px 0; }
li::marker { color: var(--soft); }
code, pre { font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre {
  margin: 8px 0 18px; padding: 14px 18px; border: 1px solid var(--line); border-radius: 12px; background: var(--card);
  font-size: .875rem; white-space: pre-wrap; overflow-wrap: anywhere;
}
pre code { font: inherit; }
dl { margin: 4px 0 18px; font-size: .9375rem; }
dl > div { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 2px 24px; padding: 7px 0; border-top: 1px solid var(--line); }
dl > div:first-child { border-top: 0; }
dl > div:has(.status) { grid-template-columns: minmax(0, 11fr) minmax(0, 9fr); }
dt, dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.status { color: var(--soft); font-variant-numeric: tabular-nums; }
.codes { margin: 0; font-size: .9375rem; }
.codes a { display: inline-block; margin: 0 14px 2px 0; text-decoration: none; }
.codes a:hover { text-decoration: underline; }
.mark { padding: 1px 8px; border: 1px solid var(--line); border-radius: 999px; color: var(--soft); font-size: .75rem; white-space: nowrap; }
.note { padding: 12px 16px; border-radius: 12px; background: var(--warn-ground); color: var(--warn-ink); }
:target { scroll-margin-top: 24px; }
code:target, article:target { outline: 2px solid var(--accent); outline-offset: 3px; border-radius: 14px; }
code:target { border-radius: 4px; }
.wide { margin: 12px 0 20px; padding: 16px; overflow-x: auto; border: 1px solid var(--line); border-radius: 14px; background: var(--card); }
svg { display: block; width: 100%; min-width: 25rem; max-width: 35rem; height: auto; margin: 0 auto; }
svg text { fill: var(--ink); font-size: 12px; text-anchor: middle; paint-order: stroke; stroke: var(--card); stroke-width: 5px; stroke-linejoin: round; }
svg .name, svg .alone + text { stroke: none; }
svg .name, svg .label { font-weight: 600; }
svg .label, svg .so { text-anchor: start; }
svg .so { fill: var(--soft); }
svg .actor { fill: var(--ground); stroke: var(--line); }
svg .alone { fill: var(--ground); stroke: none; }
svg .lane { stroke: var(--line); }
svg .part { stroke: var(--line); stroke-dasharray: 2 4; }
svg line.request { stroke: var(--accent); stroke-width: 1.5; }
svg line.answer { stroke: var(--good-ink); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg line.refusal { stroke: var(--bad-ink); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg path.request { fill: var(--accent); }
svg path.answer { fill: var(--good-ink); }
svg path.refusal { fill: var(--bad-ink); }
svg text.refusal { fill: var(--bad-ink); }
@media (max-width: 52rem) {
  body { display: block; padding: 0 20px; }
  header { position: static; max-height: none; padding: 28px 0 0; }
  .brand { margin: 0 0 8px; }
  nav { display: flex; flex-wrap: wrap; border: 0; gap: 0 18px; }
  nav a { padding: 10px 0; }
  nav a:hover { box-shadow: inset 0 -2px var(--accent); }
  main { padding: 32px 0 64px; }
  section { margin: 48px 0 0; padding: 32px 0 0; }
  article { padding: 16px; }
  pre { padding: 12px 14px; font-size: .8125rem; }
  .wide { padding: 12px; }
  dl > div, dl > div:has(.status) { grid-template-columns: minmax(0, 1fr); }
}
@media print {
  :root { color-scheme: light; ${print()} }
  body { display: block; max-width: none; padding: 0; font-size: 10.5pt; }
  header, .skip { display: none; }
  main { padding: 0; }
  section { margin: 24pt 0 0; padding: 12pt 0 0; }
  article, pre, .wide, dl > div { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  .wide { overflow: visible; }
  a { color: inherit; text-decoration: none; }
  svg { min-width: 0; }
}
`

/** Printing uses the light colours, whatever the screen prefers. */
function print() {
  return colours.slice(colours.indexOf("--ground"), colours.indexOf("}")) + " --ground: #ffffff;"
}
