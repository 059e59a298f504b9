/** The style sheet of the console: one column on a phone, contents beside the page from 60 rem on. */
import { colours } from "../../../platform/html/Style.ts"

export const consoleStyle = `${colours}
:root { --good-ground: #e6f4ea; --info-ground: #e8effc; --info-ink: #0f47ac; --raised: 0 1px 2px rgb(0 0 0 / .05); }
@media (prefers-color-scheme: dark) {
  :root { --good-ground: #12301f; --info-ground: #16263f; --info-ink: #b3ceff; --raised: none; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 16px; }
body {
  margin: 0; min-height: 100vh; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
a { color: var(--accent); text-underline-offset: 2px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 6px; }
main:focus { outline: none; }
.skip { position: absolute; left: 16px; top: -64px; z-index: 2; padding: 8px 14px; border-radius: 8px; background: var(--card); }
.skip:focus { top: 10px; }
.bar { display: flex; align-items: center; gap: 4px 16px; padding: 8px 20px; background: var(--card); border-bottom: 1px solid var(--line); }
.brand { flex: none; padding: 10px 0; color: var(--soft); font-weight: 600; text-decoration: none; }
.brand:hover { color: var(--ink); }
.where { min-width: 0; font-weight: 650; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; unicode-bidi: isolate; }
.where::before { content: "/"; margin-right: 14px; color: var(--line); font-weight: 400; }
.who { position: relative; margin-left: auto; flex: none; }
.who summary { display: flex; align-items: center; max-width: 40vw; min-height: 44px; padding: 0 12px; border: 1px solid var(--line); border-radius: 10px; cursor: pointer; list-style: none; font-size: .9375rem; }
.who summary::-webkit-details-marker { display: none; }
.who summary span { overflow: hidden; white-space: nowrap; text-overflow: ellipsis; unicode-bidi: isolate; }
.who summary::after { content: ""; flex: none; width: 6px; height: 6px; margin: -3px 2px 0 10px; border: solid var(--soft); border-width: 0 2px 2px 0; transform: rotate(45deg); }
.who summary:hover { border-color: var(--field); }
.who > div { position: absolute; right: 0; top: 52px; z-index: 1; width: min(20rem, calc(100vw - 40px)); padding: 18px; border: 1px solid var(--line); border-radius: 14px; background: var(--card); box-shadow: 0 12px 32px rgb(0 0 0 / .16); }
.who p { margin: 0 0 12px; overflow-wrap: anywhere; }
.who form { margin: 0; display: grid; gap: 8px; }
.stale { margin: 0; padding: 8px 20px; background: var(--warn-ground); color: var(--warn-ink); font-size: .9375rem; }
.stale:empty { display: none; }
nav.sections { display: flex; flex-wrap: wrap; padding: 0 10px; border-bottom: 1px solid var(--line); background: var(--card); }
nav.sections a { display: flex; align-items: center; min-height: 44px; padding: 0 10px; color: var(--soft); text-decoration: none; font-size: .9375rem; }
nav.sections a:hover { color: var(--ink); }
nav.sections a[aria-current] { color: var(--ink); font-weight: 600; box-shadow: inset 0 -3px var(--accent); }
main { min-width: 0; max-width: 76rem; margin: 0 auto; padding: 24px 20px 72px; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; letter-spacing: -.01em; text-wrap: balance; overflow-wrap: anywhere; }
h1 { margin: 0 0 8px; font-size: 1.625rem; }
h2 { margin: 36px 0 12px; font-size: 1.125rem; }
h3 { margin: 0; font-size: 1rem; }
p { margin: 0 0 12px; }
.soft { color: var(--soft); }
.small { font-size: .875rem; }
.back { display: inline-flex; align-items: center; min-height: 44px; margin: -12px 0 4px; font-size: .9375rem; }
time, .id { font-variant-numeric: tabular-nums; }
.command span { display: inline-block; max-width: 100%; }
code, .id { font: .875em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.text { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
.md { overflow-wrap: anywhere; }
.md > :first-child { margin-top: 0; }
.md > :last-child { margin-bottom: 0; }
.md p, .md li, .md th, .md td, .md pre { unicode-bidi: plaintext; text-align: start; }
.md p { margin: 0 0 10px; }
.md .heading { margin-top: 18px; font-weight: 650; }
.md ul, .md ol, .timeline .md ul, .timeline .md ol { margin: 0 0 10px; padding-left: 22px; }
.md li > ul, .md li > ol { margin-bottom: 0; }
.md li > p:last-child { margin-bottom: 0; }
.md blockquote { margin: 0 0 10px; padding-left: 14px; border-left: 3px solid var(--line); color: var(--soft); }
.md pre { margin: 0 0 10px; padding: 10px 14px; border: 1px solid var(--line); border-radius: 10px; background: var(--ground); white-space: pre-wrap; }
.md hr { height: 1px; margin: 16px 0; border: 0; background: var(--line); }
.md .host { unicode-bidi: isolate; margin-left: 4px; color: var(--soft); font-size: .8125em; }
.md .host::before { content: "("; }
.md .host::after { content: ")"; }
.wide { overflow-x: auto; margin: 0 0 10px; }
.md table { border-collapse: collapse; font-size: .9375rem; }
.md th, .md td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); text-align: start; vertical-align: top; overflow-wrap: normal; }
.name { unicode-bidi: isolate; overflow-wrap: anywhere; }
.card, .rows, .table { border: 1px solid var(--line); border-radius: 14px; background: var(--card); box-shadow: var(--raised); }
.card { padding: 16px 20px; }
.card + :is(.card, .rows, .empty) { margin-top: 12px; }
.card > h2:first-child { margin-top: 0; }
.ask { margin: 0 0 20px; border-left: 4px solid var(--accent); }
.ask h2, .ask h3 { margin: 0 0 6px; font-size: 1rem; }
.ask .text, .ask .md { margin: 0 0 8px; }
.rows { margin: 0; padding: 0; list-style: none; }
.rows > li { padding: 12px 20px; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.rows > li:first-child { border-top: 0; }
.rows .line { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 2px 16px; }
.rows .line > :first-child { flex: 1 1 16rem; min-width: 0; }
.rows a { font-weight: 600; text-decoration: none; }
.rows a:hover { text-decoration: underline; }
.rows a.by { color: inherit; }
.meta { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 12px; margin: 2px 0 0; color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
.meta + .text { margin-top: 8px; }
.empty { padding: 20px; border: 1px dashed var(--line); border-radius: 14px; color: var(--soft); overflow-wrap: anywhere; }
.empty p:last-child { margin: 0; }
.mark { display: inline-block; padding: 1px 9px; border-radius: 999px; background: var(--ground); border: 1px solid var(--line); color: var(--soft); font-size: .8125rem; font-weight: 500; max-width: 100%; overflow-wrap: anywhere; }
.mark.good { border-color: transparent; background: var(--good-ground); color: var(--good-ink); }
.mark.info { border-color: transparent; background: var(--info-ground); color: var(--info-ink); }
.mark.warn { border-color: transparent; background: var(--warn-ground); color: var(--warn-ink); }
.mark.bad { border-color: transparent; background: var(--bad-ground); color: var(--bad-ink); }
.marks { display: flex; flex-wrap: wrap; gap: 6px; margin: 0 0 16px; }
.note { margin: 0 0 16px; padding: 12px 16px; border-radius: 12px; background: var(--warn-ground); color: var(--warn-ink); overflow-wrap: anywhere; }
.note a { color: inherit; }
.note p:last-child { margin: 0; }
dl { margin: 0; }
dl > div { display: grid; grid-template-columns: minmax(6.5rem, 10rem) minmax(0, 1fr); gap: 16px; padding: 8px 0; border-top: 1px solid var(--line); }
dl > div:first-child { border-top: 0; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
form.filters { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 10rem), 1fr)); align-items: end; gap: 12px; margin: 16px 0 20px; }
form.filters .wide { grid-column: 1 / -1; }
label { display: block; margin: 0 0 4px; font-size: .875rem; font-weight: 600; }
input, select, textarea { width: 100%; min-height: 44px; padding: 8px 12px; border: 1px solid var(--field); border-radius: 10px; background: var(--card); color: var(--ink); font: inherit; }
textarea { min-height: 5rem; resize: vertical; line-height: 1.5; }
form.write { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 10rem), 1fr)); align-items: end; gap: 12px; margin: 12px 0 0; }
form.write .wide, form.write fieldset, form.write .note, .current { grid-column: 1 / -1; }
.current { margin: -8px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; }
fieldset { min-width: 0; margin: 0; padding: 0; border: 0; display: grid; gap: 8px; }
legend { margin: 0 0 8px; padding: 0; font-size: .875rem; font-weight: 600; }
.choice { display: flex; align-items: center; gap: 12px; min-height: 44px; margin: 0; padding: 8px 14px; border: 1px solid var(--line); border-radius: 10px; font-size: 1rem; font-weight: 500; cursor: pointer; }
.choice:hover { border-color: var(--field); }
.choice:has(:checked) { border-color: var(--accent); box-shadow: inset 0 0 0 1px var(--accent); }
.choice input { flex: none; width: 20px; min-height: 20px; height: 20px; margin: 0; accent-color: var(--accent); }
.choice .name { min-width: 0; }
.own { display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0 0; }
.folded { margin: 16px 0 20px; }
.folded > summary { display: inline-flex; align-items: center; min-height: 44px; padding: 6px 16px; border: 1px solid var(--field); border-radius: 10px; background: var(--card); font-weight: 600; cursor: pointer; list-style: none; }
.folded > summary::-webkit-details-marker { display: none; }
.folded > summary:hover { border-color: var(--ink); }
.folded[open] > summary { border-color: var(--line); color: var(--soft); }
button, .button { display: inline-flex; align-items: center; justify-content: center; min-height: 44px; padding: 8px 18px; border: 1px solid var(--field); border-radius: 10px; background: var(--card); color: var(--ink); font: inherit; font-weight: 600; text-decoration: none; cursor: pointer; }
button:hover, .button:hover { border-color: var(--ink); }
button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.primary:hover { background: var(--accent-deep); border-color: var(--accent-deep); }
.copy { min-height: 32px; margin-left: 8px; padding: 2px 12px; font-size: .8125rem; }
.more { margin: 20px 0 0; }
.hidden { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.act { grid-column: 1 / -1; margin: 6px 0 0; font-size: .9375rem; }
.act > summary { display: inline-flex; align-items: center; min-height: 32px; padding: 2px 12px; border: 1px solid var(--line); border-radius: 8px; color: var(--soft); font-size: .8125rem; font-weight: 600; cursor: pointer; list-style: none; }
.act > summary::-webkit-details-marker { display: none; }
.act > summary:hover { border-color: var(--field); color: var(--ink); }
.act > form { margin: 10px 0 4px; padding: 14px 16px; border-left: 4px solid var(--bad-ink); border-radius: 8px; background: var(--ground); }
.act + .rows { margin-top: 12px; }
.act > form p { margin: 0 0 10px; }
.act.plain > form { border-left-color: var(--field); }
.acts { display: flex; flex-wrap: wrap; gap: 0 8px; }
.acts > [open] { flex-basis: 100%; }
.named { display: flex; flex-wrap: wrap; gap: 8px; }
.named > input { flex: 1 1 14rem; }
[data-says] { margin: 10px 0 0; }
[data-says]:empty { display: none; }
.danger { border-color: var(--bad-ink); color: var(--bad-ink); }
.danger:hover { background: var(--bad-ground); }
.note.done { background: var(--good-ground); color: var(--good-ink); }
.limits .filters { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr)); align-items: end; gap: 12px; margin: 0 0 16px; }
.bar-of { display: block; width: 100%; height: 6px; margin: 8px 0 2px; border-radius: 3px; }
.bar-of .track { fill: var(--line); }
.bar-of .used { fill: var(--accent); }
.bar-of.late .used { fill: var(--bad-ink); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 15rem), 1fr)); gap: 12px; }
.charts + .two { margin-top: 32px; }
.charts .card + .card { margin-top: 0; }
.chart { margin: 0; padding: 12px 16px; }
.chart figcaption { display: flex; justify-content: space-between; gap: 12px; font-size: .9375rem; }
.chart b { font-variant-numeric: tabular-nums; white-space: nowrap; }
.chart svg { display: block; width: 100%; height: 56px; margin: 8px 0 4px; }
.chart path { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.chart line { stroke: var(--line); }
.chart p { margin: 0; }
.about dl > div { grid-template-columns: minmax(0, 1fr); gap: 0; }
.about dt { font-size: .875rem; }
.views { display: flex; gap: 4px; margin: 0 0 16px; }
.views a { display: flex; align-items: center; min-height: 44px; padding: 0 14px; border: 1px solid transparent; border-radius: 10px; color: var(--soft); text-decoration: none; }
.views a:hover { color: var(--ink); }
.views a[aria-current] { border-color: var(--line); background: var(--card); color: var(--ink); font-weight: 600; }
.board { display: grid; gap: 0 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13.5rem), 1fr)); align-items: start; }
.board h2 { margin: 20px 0 8px; font-size: 1rem; }
.board h2 .small { margin-left: 4px; font-weight: 500; }
.board .rows > li { padding: 10px 14px; }
.board .none { margin: 0; }
.graph { display: grid; align-items: center; margin: 0 0 24px; }
.graph h2 { margin: 0 0 4px; color: var(--soft); font-size: .875rem; font-weight: 600; }
.graph ul { margin: 0; padding: 0; list-style: none; }
.graph li { position: relative; padding: 4px 0; }
.graph li > span, .this { display: block; padding: 8px 14px; border: 1px solid var(--line); border-radius: 10px; background: var(--card); overflow-wrap: anywhere; font-size: .9375rem; }
.graph .mark { margin-left: 4px; }
.graph .this { border: 2px solid var(--accent); font-weight: 600; margin: 8px 0; }
.graph .this .mark { font-weight: 500; }
.timeline { margin: 0; padding: 0; list-style: none; }
.timeline > li { position: relative; margin: 0 0 0 7px; padding: 0 0 20px 24px; border-left: 2px solid var(--line); }
.timeline > li:last-child { border-left-color: transparent; padding-bottom: 0; }
.timeline > li::before { content: ""; position: absolute; left: -7px; top: 7px; width: 12px; height: 12px; border-radius: 50%; border: 2px solid var(--ground); background: var(--field); }
.timeline .card ul { margin: 4px 0 12px; padding: 0 0 0 20px; }
.timeline .card h3 { margin: 12px 0 0; font-size: .875rem; }
.life { display: block; width: 100%; height: 44px; }
.life .track { fill: var(--line); }
.life .lived { fill: var(--accent); }
.life .window { fill: var(--good-ink); opacity: .28; }
.life .late { fill: var(--bad-ink); opacity: .3; }
.life .now { fill: var(--ink); }
.life text { fill: var(--soft); font-size: 12px; }
.bridge { display: grid; gap: 4px 24px; }
@media (min-width: 60rem) {
  .page { display: grid; grid-template-columns: 13rem minmax(0, 1fr); align-items: start; }
  nav.sections { position: sticky; top: 0; display: grid; gap: 2px; min-height: calc(100vh - 61px); align-content: start; padding: 24px 12px; border: 0; border-right: 1px solid var(--line); background: none; }
  nav.sections a { padding: 0 12px; border-radius: 10px; }
  nav.sections a:hover { background: var(--card); }
  nav.sections a[aria-current] { background: var(--card); box-shadow: inset 3px 0 var(--accent); }
  main { width: 100%; margin: 0; padding: 32px 40px 96px; }
  .bridge { grid-template-columns: minmax(0, 1fr) minmax(0, 22rem); align-items: center; }
  .two > * > h2:first-child { margin-top: 0; }
  .two { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); gap: 0 32px; align-items: start; }
}
@media (min-width: 48rem) {
  .graph { grid-auto-flow: column; grid-auto-columns: minmax(0, auto); justify-content: start; }
  .graph h2 { position: absolute; margin: -1.5em 0 0; }
  .graph .before, .graph .after, .graph .this { position: relative; }
  .graph:has(h2) { margin-top: 40px; }
  .graph .this { margin: 0; }
  .before li { padding-right: 32px; }
  .after li, .after h2 { padding-left: 32px; }
  .graph li::before, .graph li::after { content: ""; position: absolute; border: 0 solid var(--field); }
  .graph li::after { top: 50%; width: 16px; border-top-width: 2px; }
  .graph li::before { top: 0; bottom: 0; border-left-width: 2px; }
  .before li::after, .before li::before { right: 16px; }
  .after li::after, .after li::before { left: 16px; }
  .before li::before { right: 14px; }
  .after li::before { left: 14px; }
  .graph li:first-child::before { top: 50%; }
  .graph li:last-child::before { bottom: calc(50% - 2px); }
  .before::after, .after::before { content: ""; position: absolute; top: 50%; width: 16px; border-top: 2px solid var(--field); }
  .before::after { right: 0; }
  .after::before { left: 0; }
}
@media (max-width: 30rem) { .brand { font-size: .875rem; } .brand:has(+ .where) { display: none; } .brand + .where::before { content: none; } .bar { padding: 8px 16px; gap: 4px 10px; } .where::before { margin-right: 8px; } main { padding: 20px 16px 56px; } .card, .rows > li { padding-left: 16px; padding-right: 16px; } }
@media print {
  :root { --ground: #fff; --card: #fff; --ink: #1b1d1f; --soft: #565b61; --line: #ccc; --accent: #175ddc; color-scheme: light; }
  .bar form, .who, nav.sections, .skip, .filters, .more, .copy, form.write, .folded, .act, .limits { display: none !important; }
  .page { display: block; }
  .ask form.write { display: block !important; }
  .ask form.write > :not(fieldset) { display: none; }
  time[title]::after { content: " (" attr(title) ")"; }
  main { max-width: none; padding: 0; }
  .card, .rows > li { break-inside: avoid; box-shadow: none; }
}
@media (forced-colors: active) { .life .lived, .life .now { fill: CanvasText; } }
`
