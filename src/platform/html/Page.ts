/**
 * Pages for people: one look and one content security policy. No fonts, nothing from other origins, no script but one of
 * our own where a page names it, and no images but our icons.
 *
 * `form-action` is deliberately not in the policy: browsers apply it to the redirects after a form, and an agent's
 * callback may redirect to an app. Without scripts, and with everything escaped, it would protect nothing.
 */
import { sha256 } from "../crypto/Sha256.ts"
import { type Html, html, trusted } from "./Html.ts"
import { style } from "./Style.ts"

/**
 * Makes pages with this style sheet, and the headers whose policy allows only it. With a script, which may fetch pages of
 * this service, forms may be sent to this service only, unless they lead to apps. `app`: the links that make the pages an
 * app, to files of ours.
 */
export const pagesWith = (style: string, script?: string, app?: Html, leadsToApps = false) => {
  const styled = trusted(`<style>${style}</style>`)
  const scripted = script !== undefined && trusted(`<script type="module">${script}</script>`)
  const policy = [
    "default-src 'none'",
    `style-src ${hashOf(style)}`,
    ...(script === undefined ? [] : [`script-src ${hashOf(script)}`, "connect-src 'self'"]),
    ...(script === undefined || leadsToApps ? [] : ["form-action 'self'"]),
    "img-src 'self'",
    ...(app === undefined ? [] : ["manifest-src 'self'", "worker-src 'self'"]),
    "base-uri 'none'",
    "frame-ancestors 'none'"
  ].join("; ")
  return {
    page: (title: string, body: Html): string =>
      html`<!doctype html>
        <html lang="en">
          <head>
            <meta charset="utf-8" />
            <meta name="viewport" content="width=device-width, initial-scale=1" />
            <meta name="color-scheme" content="light dark" />
            <title>${title}</title>
            <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
            ${app}${styled}${scripted}
          </head>
          <body>
            ${body}
          </body>
        </html>`.text,

    headers: {
      "content-security-policy": policy,
      "x-frame-options": "DENY",
      "x-content-type-options": "nosniff",
      // With `no-referrer` browsers post forms with `Origin: null`, and the check of the origin would fail.
      "referrer-policy": "same-origin",
      "cache-control": "no-store",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
      "x-robots-tag": "noindex"
    } satisfies Readonly<Record<string, string>>
  }
}

const hashOf = (text: string) => `'sha256-${Buffer.from(sha256(text)).toString("base64")}'`

const card = pagesWith(style)

/** One centred card: the consent pages, and the page at `/`. */
export const page = (title: string, body: Html): string => card.page(title, html`<main>${body}</main>`)
export const pageHeaders = card.headers

/** For a person who followed a link that leads nowhere. */
export const notFoundPage = page(
  "Nothing is here",
  html`<h1>Nothing is here</h1>
    <p class="soft">No page has this address. The link may be old, or a part of it is missing.</p>
    <div class="buttons">
      <a class="button primary" href="/docs">Documentation</a>
      <a class="button" href="/console">Console</a>
      <a class="button" href="/">Home</a>
    </div>`
)
