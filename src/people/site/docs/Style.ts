/** The style sheet of the documentation: pages, text and contents side by side; on narrow screens only the text. */
import { colours } from "../../../platform/html/Style.ts"

export const docsStyle = `${colours}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 80px; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
a { color: var(--accent); text-underline-offset: 2px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 4px; }
main:focus { outline: none; }
.skip { position: absolute; left: 16px; top: -64px; padding: 8px 14px; border-radius: 8px; background: var(--card); }
.skip:focus { top: 12px; z-index: 3; }

header {
  position: sticky; top: 0; z-index: 2; display: flex; align-items: center; gap: 8px 20px; min-height: 60px; padding: 8px 32px;
  border-bottom: 1px solid var(--line); background: var(--ground);
}
.brand { color: var(--ink); font-weight: 650; text-decoration: none; white-space: nowrap; }
.all { color: var(--soft); text-decoration: none; }
.all:hover { color: var(--ink); text-decoration: underline; }
search { position: relative; flex: 0 1 24rem; margin-left: auto; }
input, .opens {
  min-height: 44px; padding: 8px 14px; border: 1px solid var(--field); border-radius: 10px;
  background: var(--card); color: var(--ink); font: inherit;
}
input { width: 100%; }
input::placeholder { color: var(--soft); opacity: 1; }
.opens { display: none; flex: none; cursor: pointer; font-weight: 600; font-size: .9375rem; }
.found { position: absolute; right: 0; top: calc(100% + 6px); width: min(36rem, calc(100vw - 32px)); border-radius: 14px; background: var(--card); }
.found:has(li, p:not(:empty)) { border: 1px solid var(--line); box-shadow: 0 12px 32px rgb(0 0 0 / .18); }
.found p { margin: 0; padding: 0 16px; color: var(--soft); font-size: .875rem; }
.found p:not(:empty) { padding: 8px 16px; }
.found ol { max-height: min(32rem, 70vh); margin: 0; padding: 0; overflow-y: auto; list-style: none; }
.found li { padding: 0; border-top: 1px solid var(--line); }
.found a { display: block; padding: 10px 16px; color: var(--ink); font-size: .9375rem; line-height: 1.45; text-decoration: none; overflow-wrap: anywhere; }
.found a:hover, .found a:focus { background: var(--ground); outline-offset: -3px; }
mark { background: var(--warn-ground); color: var(--warn-ink); border-radius: 3px; }

.page { display: grid; grid-template-columns: 14rem minmax(0, 1fr) 14rem; gap: 0 48px; max-width: 88rem; margin: 0 auto; padding: 0 32px; }
nav ul { margin: 0 0 18px; padding: 0; list-style: none; }
nav li { padding: 0; }
.label { margin: 0 0 4px; color: var(--soft); font-size: .8125rem; font-weight: 600; }
#menu, #toc {
  position: sticky; top: 60px; align-self: start; display: block; width: auto; height: auto; max-height: calc(100vh - 60px);
  margin: 0; padding: 32px 4px 24px; overflow: auto; border: 0; background: none; color: inherit; font-size: .9375rem; line-height: 1.4;
}
#toc { font-size: .875rem; }
#menu a, #toc a { display: block; padding: 5px 12px; border-left: 2px solid var(--line); color: var(--soft); text-decoration: none; overflow-wrap: anywhere; }
#menu a:hover, #toc a:hover { color: var(--ink); }
#menu a[aria-current], #toc a[aria-current] { border-left-color: var(--accent); color: var(--ink); font-weight: 600; }
#toc .inner a { padding-left: 26px; }
#toc code { font-size: 1em; }

main { min-width: 0; max-width: 48rem; padding: 36px 0 96px; }
main:last-child { max-width: none; grid-column: 2 / -1; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; letter-spacing: -.01em; text-wrap: balance; overflow-wrap: anywhere; }
h1 { margin: 0 0 12px; font-size: 2.125rem; letter-spacing: -.02em; }
h2 { margin: 56px 0 12px; font-size: 1.5rem; }
h3 { margin: 36px 0 8px; font-size: 1.125rem; }
:is(h1, h2, h3) a { color: inherit; text-decoration: none; }
:is(h2, h3) a:hover::after { content: " #"; color: var(--soft); }
:is(h2, h3):target { color: var(--accent); }
p { margin: 0 0 14px; }
.lead { font-size: 1.1875rem; line-height: 1.5; }
.soft { color: var(--soft); }
article { margin: 16px 0; padding: 20px 24px; border: 1px solid var(--line); border-radius: 14px; background: var(--card); }
article :is(h2, h3) { margin: 0 0 4px; font-size: 1rem; }
article p:last-child, article dl:last-child { margin-bottom: 0; }
ol, ul { margin: 0 0 14px; padding: 0 0 0 22px; }
li { padding: 3px 0; }
li::marker { color: var(--soft); }
code, pre { font: .875em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
code.short { white-space: nowrap; }
pre {
  margin: 8px 0 18px; padding: 14px 18px; border: 1px solid var(--line); border-radius: 12px; background: var(--card);
  font-size: .875rem; overflow-x: auto;
}
pre code { font: inherit; overflow-wrap: normal; }
.block { position: relative; }
.copy {
  position: absolute; right: 6px; top: 6px; min-height: 32px; padding: 3px 10px; border: 1px solid var(--line); border-radius: 8px;
  background: var(--card); color: var(--soft); font: inherit; font-size: .8125rem; cursor: pointer;
}
.copy:hover { border-color: var(--ink); color: var(--ink); }
.block pre { padding-right: 84px; }
.hljs-comment, .hljs-meta { color: var(--soft); }
.hljs-keyword, .hljs-built_in, .hljs-literal { color: var(--accent); }
.hljs-string, .hljs-regexp { color: var(--good-ink); }
.hljs-attr, .hljs-attribute, .hljs-variable, .hljs-property { color: var(--warn-ink); }
.hljs-number { color: var(--bad-ink); }
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
.file { overflow-wrap: anywhere; }
tr:target, dl > div:target { background: var(--warn-ground); }
.wide { container-type: inline-size; margin: 12px 0 20px; overflow-x: auto; border: 1px solid var(--line); border-radius: 14px; background: var(--card); }
table { width: 100%; border-collapse: collapse; font-size: .9375rem; line-height: 1.5; }
th, td { min-width: 6rem; padding: 8px 14px; border-top: 1px solid var(--line); text-align: left; vertical-align: top; overflow-wrap: break-word; }
tr:first-child > * { border-top: 0; }
* + tbody tr:first-child > * { border-top: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
th[scope=row] { font-weight: inherit; }
thead th { color: var(--soft); font-size: .8125rem; font-weight: 600; white-space: nowrap; }
.chapters { columns: 20rem; column-gap: 20px; margin: 32px 0 0; }
.chapters section { break-inside: avoid; margin: 0 0 20px; padding: 20px 24px; border: 1px solid var(--line); border-radius: 14px; background: var(--card); }
.chapters h2 { margin: 0 0 4px; font-size: 1.125rem; }
.chapters ul { margin: 0; }
.neighbours { display: flex; flex-wrap: wrap; gap: 12px; margin: 64px 0 0; padding: 20px 0 0; border-top: 1px solid var(--line); }
.neighbours a { padding: 10px 0; }
.before::before { content: "← "; }
.after { margin-left: auto; }
.after::after { content: " →"; }

svg { display: block; width: 100%; min-width: 22rem; max-width: 31rem; height: auto; margin: 0 auto; padding: 16px; }
svg text { fill: var(--ink); font-size: 13px; text-anchor: middle; paint-order: stroke; stroke: var(--card); stroke-width: 5px; stroke-linejoin: round; }
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

@media (max-width: 76rem) {
  .page { grid-template-columns: 14rem minmax(0, 1fr); }
  #toc:not(:popover-open) { display: none; }
  .opens[popovertarget="toc"] { display: block; }
}
@media (max-width: 52rem) {
  .page { display: block; padding: 0 20px; }
  #menu:not(:popover-open) { display: none; }
  .opens { display: block; }
  header { position: static; flex-wrap: wrap; gap: 8px; padding: 8px 20px; }
  .all { display: none; }
  .brand { margin-right: auto; }
  search { order: 1; flex: 1 0 100%; }
  .found { left: 0; right: auto; width: calc(100vw - 40px); }
  html { scroll-padding-top: 16px; }
  main { padding: 24px 0 64px; }
  h1 { font-size: 1.75rem; }
  h2 { margin-top: 44px; }
  article { padding: 16px; }
  pre { padding: 12px 14px; font-size: .8125rem; }
  dl > div, dl > div:has(.status) { grid-template-columns: minmax(0, 1fr); }
  /* A shadow at the side where there is more to see: the first two move with the text and cover it at the ends. */
  .wide, pre {
    background:
      linear-gradient(90deg, var(--card) 30%, transparent) local 0 / 48px 100%,
      linear-gradient(-90deg, var(--card) 30%, transparent) local 100% / 48px 100%,
      linear-gradient(90deg, rgb(128 128 128 / .35), transparent) 0 / 16px 100%,
      linear-gradient(-90deg, rgb(128 128 128 / .35), transparent) 100% / 16px 100%, var(--card);
    background-repeat: no-repeat;
  }
}
${stacked("38rem", "table:not(:has(.number))")}
${stacked("60rem", "table:not(:has(.number)):has(tr > :nth-child(4))")}
@media (max-width: 28rem) {
  header { padding: 8px 16px; }
  .page { padding: 0 16px; }
  .opens { padding: 8px 10px; font-size: .875rem; }
}
#menu:popover-open, #toc:popover-open {
  position: fixed; inset: 72px 16px auto; z-index: 3; max-height: calc(100vh - 100px); padding: 20px; border: 1px solid var(--line);
  border-radius: 14px; background: var(--card); box-shadow: 0 12px 32px rgb(0 0 0 / .25);
}
#menu:popover-open a, #toc:popover-open a { padding-top: 9px; padding-bottom: 9px; }
@media print {
  :root { color-scheme: light; ${print()} }
  body { font-size: 10.5pt; }
  .page { display: block; max-width: none; padding: 0; }
  header, .skip, #menu, #toc, .neighbours, .copy { display: none !important; }
  main { max-width: none; padding: 0; }
  article, pre, dl > div, tr, .chapters section { break-inside: avoid; }
  h1, h2, h3 { break-after: avoid; }
  .wide { overflow: visible; }
  pre, .block pre { padding-right: 18px; white-space: pre-wrap; overflow-wrap: anywhere; }
  a { color: inherit; text-decoration: none; }
  svg { min-width: 0; }
}
`

/** Each cell in a line of its own, where there is no room for columns; a table of numbers stays a table. */
function stacked(width: string, table: string) {
  return `@container (max-width: ${width}) {
  ${table} :is(tbody, tr, th, td) { display: block; min-width: 0; }
  ${table} thead { display: none; }
  ${table} tr { padding: 8px 16px; border-top: 1px solid var(--line); }
  ${table} tbody:not(tbody + tbody) > tr:first-child { border-top: 0; }
  ${table} tr > :is(th, td) { padding: 3px 0; border: 0; }
  ${table} tr > :empty { display: none; }
  ${table} th { font-weight: 600; }
  ${table} td[data-column]::before { content: attr(data-column) ": "; color: var(--soft); font-size: .8125rem; }
}`
}

/** Printing uses the light colours, whatever the screen prefers. */
function print() {
  return colours.slice(colours.indexOf("--ground"), colours.indexOf("}")) + " --ground: #ffffff;"
}
