/**
 * The script of pages that offer a passkey: the console's, with the rest of its script, and the sign-in and consent pages,
 * alone. Without it these pages take a project token.
 *
 * A form marked `data-passkey` is hidden in the page, and shown where the browser can do what it offers. When it is sent, the
 * script asks the service for a challenge and the authenticator for an answer, and sends the form with the answer as JSON in
 * the field `credential`. The form's `data-passkey` is `get` or `create`, `data-options` the address of the challenge,
 * `data-origin` the address at which passkeys of this service work.
 */
export const passkeyScript = `
const base64url = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")
const fromBase64url = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0))

const withBytes = (options) => ({
  ...options,
  challenge: fromBase64url(options.challenge),
  ...(options.user && { user: { ...options.user, id: fromBase64url(options.user.id) } }),
  ...(options.excludeCredentials && {
    excludeCredentials: options.excludeCredentials.map((key) => ({ ...key, id: fromBase64url(key.id) }))
  })
})

// Written out, because the objects of some password managers have no toJSON.
const asJson = ({ rawId, response, type }) => {
  const names = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]
  const given = names.filter((name) => response[name] instanceof ArrayBuffer)
  const bytes = Object.fromEntries(given.map((name) => [name, base64url(response[name])]))
  return JSON.stringify({ id: base64url(rawId), type, response: bytes })
}

const challengeFor = async (form) => {
  const answer = await fetch(form.dataset.options, { method: "POST", body: new URLSearchParams(new FormData(form)) })
  const body = await answer.json()
  if (!answer.ok) throw new Error(body.error.message)
  return { publicKey: withBytes(body) }
}

const words = {
  NotAllowedError: "No passkey was used. Try again, or use the project token.",
  InvalidStateError: "This device already has a passkey for this project token."
}

const usePasskey = async (form) => {
  const says = form.querySelector("[data-says]")
  const button = form.querySelector("button")
  says.textContent = ""
  button.disabled = true
  // The page is not replaced while the browser asks the person.
  form.setAttribute("data-unsaved", "")
  try {
    const credential = await navigator.credentials[form.dataset.passkey](await challengeFor(form))
    form.elements.credential.value = asJson(credential)
    form.submit()
  } catch (error) {
    form.removeAttribute("data-unsaved")
    button.disabled = false
    says.textContent = words[error.name] ?? error.message
  }
}

function showPasskeys() {
  for (const form of document.querySelectorAll("[data-passkey]")) {
    const isHere = location.origin === form.dataset.origin
    for (const other of document.querySelectorAll("[data-passkey-elsewhere]")) other.hidden = isHere
    form.hidden = !isHere || !("PublicKeyCredential" in window)
  }
  const accepted = document.querySelector("[data-accepted]")?.dataset
  if (accepted === undefined || !("signalAllAcceptedCredentials" in (window.PublicKeyCredential ?? {}))) return
  const { accepted: ids, rp: rpId, user: userId } = accepted
  const allAcceptedCredentialIds = ids.split(" ").filter((id) => id !== "")
  void PublicKeyCredential.signalAllAcceptedCredentials({ rpId, userId, allAcceptedCredentialIds }).catch(() => {})
}

document.addEventListener("submit", (event) => {
  if (event.target.dataset.passkey === undefined) return
  event.preventDefault()
  void usePasskey(event.target)
})
showPasskeys()
`
