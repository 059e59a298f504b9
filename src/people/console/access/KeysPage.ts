/**
 * The passkeys of a person, who is whoever holds the project token: add one, name it, remove it. Adding needs the script
 * (signin/passkeys/Script.ts); the others do not.
 */
import { Effect, Option, Schema } from "effect"
import { findSecret } from "../../../platform/secrets/Secrets.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import { isLoopback, Settings } from "../../../platform/settings/Settings.ts"
import { refuse } from "../../../signin/passkeys/Errors.ts"
import { elsewhere } from "../../../signin/passkeys/Card.ts"
import { type OwnKey, PersonKeys, userHandleOf } from "../../../signin/passkeys/PersonKeys.ts"
import type { RelyingParty } from "../../../signin/passkeys/RelyingParty.ts"
import { base64urlOf } from "../../../signin/passkeys/WebAuthn.ts"
import type { Session, SessionToken } from "../../../signin/sessions/Sessions.ts"
import { Caller } from "../../../wire/Headers.ts"
import { text } from "../../../wire/Text.ts"
import { browserOf, idIn } from "../phones/OwnDevices.ts"
import { empty, mark, meta, time } from "../Parts.ts"

export const keysPath = "/console/keys"

export const keysPage = Effect.gen(function* () {
  const keys = yield* PersonKeys
  const { baseUrl } = yield* Settings
  return Effect.fnUntraced(function* (session: Session, token: SessionToken) {
    const { userAgent } = yield* Caller
    const own = yield* keys.own(session)
    const accepted = own.map(({ credential_id }) => base64urlOf(credential_id)).join(" ")
    const { relyingParty } = keys
    return {
      title: "Passkeys",
      body: html`<h1>Passkeys</h1>
        <p class="soft">
          With a passkey you sign in here, and let agents in, without the project token: your device asks for your
          fingerprint, face or PIN. It may do what the token may, and ends with it.
        </p>
        ${
          relyingParty === undefined
            ? empty("Passkeys do not work at this address.", insteadOf(baseUrl))
            : adding(relyingParty, session, own.length, browserOf(userAgent))
        }
        <div
          data-accepted="${accepted}"
          data-rp="${relyingParty?.id ?? ""}"
          data-user="${userHandleOf(token.token_id)}"
        >
          ${
            own.length > 0 &&
            html`<h2>Yours</h2>
              <ul class="rows">
                ${own.map((key) => keyRow(session, key))}
              </ul>`
          }
        </div>`
    }
  })
})

/** Where passkeys would work. */
export const insteadOf = (baseUrl: URL): Part => {
  if (!isLoopback(baseUrl))
    return "They need a host name, and this address is an IP address. Ask your operator for a name."
  const named = `http://localhost:${baseUrl.port || "80"}`
  return html`They need a host name, and this address is an IP address. Start the service with
    <code>SERVICE_BASE_URL=${named}</code>, and open ${named}/console instead.`
}

const adding = ({ origin }: RelyingParty, { csrf, person_key_id }: Session, count: number, name: string): Part => {
  if (person_key_id !== null) {
    return html`<p class="soft small">To add another, sign out, and sign in with the project token.</p>`
  }
  if (count >= 10) return html`<p class="soft small">You have 10 passkeys. Remove one to add another.</p>`
  return html`<noscript><p class="soft small">To add one, a browser needs JavaScript.</p></noscript>
    ${elsewhere(origin)}
    <form
      class="card passkey"
      method="post"
      data-passkey="create"
      data-options="/console/keys/options"
      data-origin="${origin}"
      hidden
    >
      <h2>Add a passkey</h2>
      <input type="hidden" name="csrf" value="${csrf}" />
      <input type="hidden" name="credential" />
      <label for="label">Name</label>
      <div class="named">
        <input id="label" name="label" value="${name}" maxlength="80" required autocomplete="off" />
        <button class="primary">Add a passkey</button>
      </div>
      <p class="small" data-says role="alert"></p>
    </form>`
}

const keyRow = ({ csrf, now, person_key_id }: Session, key: OwnKey): Html => {
  const { created_at, disabled_at, label, last_used_at } = key
  const field = (id: string) =>
    html`<input type="hidden" name="csrf" value="${csrf}" /><input type="hidden" name="key" value="${id}" />`
  return html`<li>
    <div class="line">
      <b class="name">${label}</b>
      <span>
        ${person_key_id === key.person_key_id && mark("signed in with it", "info")}
        ${disabled_at !== null && mark("switched off", "bad")}
      </span>
    </div>
    ${meta(
      last_used_at === null ? "never used" : html`last used ${time(last_used_at, now)}`,
      html`added ${time(created_at, now)}`
    )}
    ${
      disabled_at !== null &&
      html`<p class="small">
        It signed with an old count ${time(disabled_at, now)}, so somebody may have a copy. Remove it, and add another.
      </p>`
    }
    <div class="acts">
      <details class="act plain">
        <summary>Rename …<span class="hidden"> ${label}</span></summary>
        <form method="post">
          ${field(key.person_key_id)}
          <label for="label-${key.person_key_id}">Name</label>
          <div class="named">
            <input
              id="label-${key.person_key_id}"
              name="label"
              value="${label}"
              maxlength="80"
              required
              autocomplete="off"
            />
            <button name="action" value="rename">Rename</button>
          </div>
        </form>
      </details>
      <details class="act">
        <summary>Remove …<span class="hidden"> ${label}</span></summary>
        <form method="post">
          ${field(key.person_key_id)}
          <p>
            It signs in no more, and every browser in which it signed in is signed out at once. You can sign in with the
            project token and add it again.
          </p>
          <button class="danger" name="action" value="remove">Remove<span class="hidden"> ${label}</span></button>
        </form>
      </details>
    </div>
  </li>`
}

const done: Readonly<Record<string, string>> = {
  add: "The passkey is added. Next time, sign in with it.",
  rename: "The passkey has its new name.",
  remove: "The passkey is removed."
}
/** What the page says after one of its forms. */
export const keysDone = (query: URLSearchParams): string | undefined => {
  const action = query.get("done") ?? ""
  return Object.hasOwn(done, action) ? done[action] : undefined
}

/** Runs a form of the page, and returns the action. */
export const keyActions = Effect.gen(function* () {
  const keys = yield* PersonKeys

  return Effect.fnUntraced(function* (session: Session, fields: URLSearchParams) {
    const id = idIn(fields, "key")
    switch (fields.get("action")) {
      case "rename":
        yield* keys.rename(session, id, yield* labelIn(fields, session.now))
        return "rename"
      case "remove":
        yield* keys.removeOwn(session, id)
        return "remove"
      default:
        // The script sends the form without its button.
        yield* keys.add(session, yield* labelIn(fields, session.now), fields.get("credential") ?? "")
        return "add"
    }
  })
})

const decodeLabel = Schema.decodeUnknownOption(text(80))

const labelIn = (fields: URLSearchParams, now: Date) => {
  const label = Option.getOrUndefined(decodeLabel((fields.get("label") ?? "").trim()))
  return label === undefined || findSecret(label, now) !== undefined
    ? refuse("person_key_label_invalid")
    : Effect.succeed(label)
}
