/**
 * Part of the console's script: "Ring this device" on the page of phones. It asks the browser for permission, registers
 * the service worker, subscribes with the service's key, and sends the subscription with the form of the page.
 *
 * `base64url` and `fromBase64url` are in passkeys/Script.ts, which precedes this part.
 *
 * The browser remembers the id of its device and the page on which it was registered (spec 2.9), nothing else.
 */
export const ringScript = `
const remembered = () => JSON.parse(localStorage.getItem("ring") ?? "{}")

const whyNot = () => {
  if (!isSecureContext) return "This page needs an https address to make a browser ring."
  if (!("PushManager" in window && "Notification" in window && "serviceWorker" in navigator)) {
    const isApple = /iPhone|iPad/.test(navigator.userAgent) || (/Mac/.test(navigator.userAgent) && navigator.maxTouchPoints > 1)
    return isApple && navigator.standalone !== true
      ? "On an iPhone or iPad, add this page to the home screen first: Share, then Add to Home Screen. Open it from there and come back here."
      : "This browser cannot receive notifications."
  }
  if (Notification.permission === "denied") {
    return "This browser blocks notifications of this address. Allow them in its settings, then load this page again."
  }
}

const subscriptionOf = async () => {
  const registration = await navigator.serviceWorker.getRegistration("/console")
  return (await registration?.pushManager.getSubscription()) ?? undefined
}

async function showRing() {
  for (const field of main.querySelectorAll("[data-zone]")) {
    if (field.defaultValue === "") field.defaultValue = new Intl.DateTimeFormat().resolvedOptions().timeZone
  }
  const card = main.querySelector("[data-ring]")
  if (card === null) return
  const say = (text, offers) => {
    card.querySelector("[data-says]").textContent = text
    card.querySelector("form").hidden = !offers
  }
  const reason = whyNot()
  if (reason !== undefined) return say(reason, false)
  const own = card.dataset.devices.split(" ")
  const arrived = new URLSearchParams(location.search)
  if (arrived.get("done") === "ring-this-device" && own.includes(arrived.get("device"))) {
    localStorage.setItem("ring", JSON.stringify({ page: location.pathname, device: arrived.get("device") }))
  }
  const subscription = await subscriptionOf()
  const { device, page } = remembered()
  const isMine = page === location.pathname && own.includes(device)
  if (subscription === undefined) return say(card.dataset.offer, true)
  if (!isMine) {
    const elsewhere = page !== undefined && page !== location.pathname
    return say(elsewhere ? "This browser rings for another project. It can ring for one at a time." : card.dataset.offer, true)
  }
  main.querySelector('[data-device="' + device + '"] [data-here]')?.removeAttribute("hidden")
  if (base64url(subscription.options.applicationServerKey) === card.dataset.key) return say("This device rings.", false)
  say("The service has a new key. Ring this device again, so that it keeps ringing.", true)
}

const subscribe = async (key) => {
  const registration = await navigator.serviceWorker.register("/console/worker.js", { scope: "/console" })
  await navigator.serviceWorker.ready
  const before = await registration.pushManager.getSubscription()
  if (before !== null && base64url(before.options.applicationServerKey) === key) return before
  await before?.unsubscribe()
  return registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: fromBase64url(key) })
}

const ring = async (card, form) => {
  const says = card.querySelector("[data-says]")
  // The page is not replaced while the browser asks the person.
  card.setAttribute("data-unsaved", "")
  try {
    if ((await Notification.requestPermission()) !== "granted") {
      says.textContent = "This browser was not allowed to show notifications."
      return
    }
    const { endpoint, keys } = (await subscribe(card.dataset.key)).toJSON()
    const values = { endpoint, ...keys, public_key: card.dataset.key, locale: navigator.language }
    for (const [name, value] of Object.entries(values)) form.elements[name].value = value
    form.submit()
  } catch (error) {
    says.textContent = "The browser could not subscribe to its push service: " + error.message
  } finally {
    card.removeAttribute("data-unsaved")
  }
}

main.addEventListener("submit", (event) => {
  const form = event.target
  const card = form.closest("[data-ring]")
  if (card !== null) {
    event.preventDefault()
    void ring(card, form)
  } else if (event.submitter?.value === "end-own-device" && form.elements.device.value === remembered().device) {
    localStorage.removeItem("ring")
    void subscriptionOf().then((subscription) => subscription?.unsubscribe())
  }
})
void showRing()
`
