/** The field for a project token, on the pages of console and consent. Its label and help are the page's own. */
import { html, type Html } from "../platform/html/Html.ts"

/** `isWrong`: the page shows `token-error` above it. */
export const tokenField = (isWrong: boolean, isFocused: boolean): Html =>
  html`<input
    type="password"
    id="project_token"
    name="project_token"
    autocomplete="off"
    spellcheck="false"
    autocapitalize="off"
    required
    ${
      isWrong
        ? html`aria-invalid="true" aria-describedby="token-error token-help"`
        : html`aria-describedby="token-help"`
    }
    ${isFocused && html`autofocus`}
  />`
