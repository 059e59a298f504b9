/** The pages of a person who is not signed in: they have no frame. */
import { html, type Part } from "../../../platform/html/Html.ts"
import { page as card } from "../../../platform/html/Page.ts"
import { passkeyCard, passkeyForm, wrongKey } from "../../../signin/passkeys/Card.ts"
import type { WrongKey } from "../../../signin/passkeys/PersonKeys.ts"
import type { RelyingParty } from "../../../signin/passkeys/RelyingParty.ts"
import { tokenField } from "../../../signin/TokenField.ts"

/** What was just sent and is refused. */
interface WrongSignIn {
  readonly token?: Part
  readonly passkey?: WrongKey["reason"]
}

export const signInPage = (
  to: string,
  passkeys: RelyingParty | undefined,
  { passkey, token: problem }: WrongSignIn = {}
): string =>
  (passkeys === undefined ? card : passkeyCard)(
    "Sign in to the console",
    html`<h1>Sign in to the console</h1>
      <p class="soft">See what the agents and Bridges of a project are doing, and what waits for a person.</p>
      ${passkey !== undefined && html`<div class="alert" role="alert"><p>${wrongKey(passkey)}</p></div>`}
      ${
        passkeys !== undefined &&
        html`${passkeyForm(
            passkeys,
            "/console/sign-in",
            html`<input type="hidden" name="to" value="${to}" />`,
            html`<button class="primary">Sign in with a passkey</button>`
          )}
          <p class="or">or</p>`
      }
      <form method="post" action="/console/sign-in">
        <input type="hidden" name="to" value="${to}" />
        <label for="project_token">Project token</label>
        <span class="soft small" id="token-help">
          It begins with <code>spt_</code>. The operator makes it with <code>service-admin create-project-token</code>.
          ${passkeys !== undefined && "You need it once: signed in, add a passkey."}
        </span>
        ${problem !== undefined && html`<div class="alert" role="alert" id="token-error"><p>${problem}</p></div>`}
        ${tokenField(problem !== undefined, true)}
        <div class="buttons"><button class="primary">Sign in</button></div>
      </form>
      <p class="soft small foot">
        Operators sign in with the link that <code>service-admin open-console</code> prints.
      </p>`
  )

/** A link is used by the button, so that a preview or a scanner that opens it does not use it up. */
export const enterPage = (code: string): string =>
  card(
    "Open the console as operator",
    html`<h1>Open the console as operator</h1>
      <p class="soft">
        You will see every project of this service in this browser, for eight hours or until you sign out.
      </p>
      <form method="post" action="/console/enter">
        <input type="hidden" name="code" value="${code}" />
        <div class="buttons"><button class="primary" autofocus>Open the console</button></div>
      </form>`
  )
