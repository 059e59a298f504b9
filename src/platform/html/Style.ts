/** The colours of every page, in light and dark. */
export const colours = `
:root {
  color-scheme: light dark;
  --ground: #f4f4f1; --card: #ffffff; --ink: #1b1d1f; --soft: #565b61; --line: #dcdcd6; --field: #8a8f96;
  --accent: #175ddc; --on-accent: #ffffff; --accent-deep: #0f47ac;
  --warn-ground: #fdf3dc; --warn-ink: #6a4600; --bad-ground: #fdecea; --bad-ink: #8c1d18; --good-ink: #14603a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #131517; --card: #1c1f22; --ink: #eceef0; --soft: #a8afb7; --line: #33383d; --field: #7d858d;
    --accent: #8ab4ff; --on-accent: #0b1a33; --accent-deep: #b3ceff;
    --warn-ground: #33290f; --warn-ink: #f3d48a; --bad-ground: #3a1b19; --bad-ink: #ffb4ab; --good-ink: #86d6a8;
  }
}
`

/** The style sheet of the card: contrast of at least 4.5:1 in both schemes, targets of 44 px, works at 320 px width. */
export const style = `
${colours}* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px 16px;
  background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main {
  width: 100%; max-width: 30rem; padding: 32px; background: var(--card);
  border: 1px solid var(--line); border-radius: 16px; box-shadow: 0 1px 2px rgb(0 0 0 / .05), 0 12px 32px rgb(0 0 0 / .06);
}
@media (max-width: 30rem) {
  body { padding: 0; place-items: start stretch; background: var(--card); }
  main { max-width: none; padding: 28px 20px; border: 0; border-radius: 0; box-shadow: none; }
}
h1 { margin: 0 0 8px; font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -.01em; text-wrap: balance; overflow-wrap: anywhere; }
h2 { margin: 24px 0 8px; font-size: .9375rem; font-weight: 600; }
p { margin: 0 0 12px; }
.soft { color: var(--soft); }
.small { font-size: .875rem; }
dl { margin: 20px 0 0; border-top: 1px solid var(--line); }
dl > div { display: flex; gap: 16px; padding: 10px 0; border-bottom: 1px solid var(--line); }
dt { flex: 0 0 clamp(5rem, 24vw, 6.5rem); color: var(--soft); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
dd .small { display: block; }
ul { margin: 0; padding: 0; list-style: none; }
ul li { position: relative; padding: 6px 0 6px 22px; }
ul li::before { content: ""; position: absolute; left: 4px; top: 1.05em; width: 6px; height: 6px; border-radius: 50%; background: var(--soft); }
.mark { padding: 1px 8px; border-radius: 999px; background: var(--warn-ground); color: var(--warn-ink); font-size: .8125rem; white-space: nowrap; }
.note { margin: 20px 0 0; padding: 12px 14px; border-radius: 10px; background: var(--warn-ground); color: var(--warn-ink); }
.alert { margin: 16px 0 0; padding: 12px 14px; border-radius: 10px; background: var(--bad-ground); color: var(--bad-ink); }
.alert + input { margin-top: 16px; }
.note p:last-child, .alert p:last-child, main > p:last-child { margin-bottom: 0; }
.good { color: var(--good-ink); }
form { margin: 24px 0 0; }
label { display: block; margin: 0 0 4px; font-weight: 600; }
input {
  width: 100%; min-height: 48px; margin: 8px 0 0; padding: 10px 14px; border: 1px solid var(--field); border-radius: 10px;
  background: var(--card); color: var(--ink); font: inherit;
}
fieldset { margin: 0 0 20px; padding: 0; border: 0; }
legend { margin: 0 0 4px; padding: 0; font-weight: 600; }
.choice { display: flex; align-items: center; gap: 12px; min-height: 44px; margin: 0; font-weight: 400; }
input[type="radio"] { flex: none; width: 20px; min-height: 20px; margin: 0; padding: 0; accent-color: var(--accent); }
.buttons { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 0; }
.buttons > * { flex: 1 1 0; min-width: fit-content; overflow-wrap: anywhere; }
button, .button {
  display: block; min-height: 48px; padding: 11px 16px; border: 1px solid var(--field); border-radius: 10px;
  background: var(--card); color: var(--ink); font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer;
}
button:hover, .button:hover { border-color: var(--ink); }
.primary { border-color: var(--accent); background: var(--accent); color: var(--on-accent); }
.primary:hover { border-color: var(--accent-deep); background: var(--accent-deep); }
a { color: var(--accent); text-underline-offset: 2px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.foot { margin: 20px 0 0; }
.or { display: flex; align-items: center; gap: 12px; margin: 20px 0 0; color: var(--soft); }
.or::before, .or::after { content: ""; flex: 1; border-top: 1px solid var(--line); }
.or + form { margin-top: 16px; }
.passkey[hidden] ~ .or { display: none; }
form + .passkey { margin-top: 12px; }
.passkey:not([hidden]) ~ form .primary { border-color: var(--field); background: var(--card); color: var(--ink); }
[data-says] { margin: 12px 0 0; }
[data-says]:empty { display: none; }
`
