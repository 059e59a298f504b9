/** What the sign-in and consent pages need to offer a passkey: a card with the script, and the form that the script sends. */
import { html, type Html } from "../../platform/html/Html.ts"
import { pagesWith } from "../../platform/html/Page.ts"
import { style } from "../../platform/html/Style.ts"
import type { WrongKey } from "./PersonKeys.ts"
import type { RelyingParty } from "./RelyingParty.ts"
import { passkeyScript } from "./Script.ts"

const card = pagesWith(style, passkeyScript, undefined, true)
export const passkeyCard = (title: string, body: Html): string => card.page(title, html`<main>${body}</main>`)
export const passkeyHeaders = card.headers

/** `fields`: hidden ones of the page. */
export const passkeyForm = (
  { origin }: RelyingParty,
  action: "/console/sign-in" | "/oauth/consent",
  fields: Html,
  button: Html
): Html =>
  html`<form
      class="passkey"
      method="post"
      action="${action}"
      data-passkey="get"
      data-options="/console/sign-in/options"
      data-origin="${origin}"
      hidden
    >
      ${fields}<input type="hidden" name="credential" />
      <div class="buttons">${button}</div>
      <p class="soft small" data-says role="status"></p>
    </form>
    ${elsewhere(origin)}`

/** For a page that was opened at another name of the service. */
export const elsewhere = (origin: string): Html =>
  html`<p class="soft small" data-passkey-elsewhere hidden>
    Passkeys work at <a href="${origin}/console">${origin}</a>.
  </p>`

/** What a person can do about a passkey that was refused. */
export const wrongKey = (reason: WrongKey["reason"]): string =>
  sentences[reason] ?? "The passkey could not be checked. Try again."

const again = "This took longer than five minutes, or was sent twice. Try again."
const removed = "This passkey is not known here, or was removed. Use the project token."
const sentences: Readonly<Partial<Record<WrongKey["reason"], string>>> = {
  unknown: removed,
  removed,
  disabled:
    "This passkey is switched off, because somebody may have a copy of it. Sign in with the project token, then remove it and add another.",
  count_fell:
    "Somebody may have a copy of this passkey, so it is switched off now. Sign in with the project token, then remove it and add another.",
  token_ended: "The project token of this passkey has ended. Ask your operator for another.",
  challenge_unknown: again,
  challenge_expired: again,
  challenge_used: again,
  not_verified: "Your device did not check that it was you. Set a screen lock or PIN, then try again."
}
