/**
 * A page for people: one look, one policy. No script, no image, no font, nothing from elsewhere.
 *
 * `form-action` is left out of the policy on purpose: browsers apply it to the redirects that follow a form, and an
 * agent's callback may hop on to an app. With no script and everything escaped there is nothing left for it to stop.
 */
import { sha256 } from "../crypto/Sha256.ts"
import { type Html, html, trusted } from "./Html.ts"
import { style } from "./Style.ts"

/** Pages with this style sheet, and the headers that allow it and nothing else. */
export const look = (style: string) => {
  const styled = trusted(`<style>${style}</style>`)
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${Buffer.from(sha256(style)).toString("base64")}'`,
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
            ${styled}
          </head>
          <body>
            ${body}
          </body>
        </html>`.text,

    /** `secure`: served over https, and then only so. */
    headers: (secure: boolean): Readonly<Record<string, string>> => ({
      "content-security-policy": policy,
      "x-frame-options": "DENY",
      "x-content-type-options": "nosniff",
      // Without a referrer a form is posted with `Origin: null`, and its own origin is what is checked.
      "referrer-policy": "same-origin",
      "cache-control": "no-store",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
      "x-robots-tag": "noindex",
      ...(secure && { "strict-transport-security": "max-age=31536000" })
    })
  }
}

const card = look(style)

/** The one card in the middle: consent, and the page at `/`. */
export const page = (title: string, body: Html): string => card.page(title, html`<main>${body}</main>`)
export const pageHeaders = card.headers
