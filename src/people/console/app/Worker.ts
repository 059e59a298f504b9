/**
 * The service worker of the console (spec 1.4, W3C Push API): shows a notification in words of its own, and opens its link
 * on a click, or the tab that shows it already; another tab may hold what somebody types. It caches nothing, stores
 * nothing and answers no request.
 *
 * A message is `{n, k, r, url}`: the id of the delivery, the kind, the id of what it is about, and the link. A newer one
 * about the same thing takes the older one's place; one that comes twice rings once.
 */
import { words } from "./Words.ts"

export const worker = `
const words = ${JSON.stringify(words)}

const language = () => {
  const spoken = [...(navigator.languages ?? []), navigator.language].map((tag) => (tag ?? "").slice(0, 2).toLowerCase())
  return spoken.find((tag) => Object.hasOwn(words, tag)) ?? "en"
}

const messageOf = (data) => {
  try {
    return data.json()
  } catch {
    return {}
  }
}

const show = async ({ n, k, r, url }) => {
  const lang = language()
  const [title, body] = words[lang][Object.hasOwn(words[lang], k) ? k : "other"]
  const tag = r ?? n ?? "other"
  const [before] = await self.registration.getNotifications({ tag })
  const renotify = before === undefined || before.data.n !== n
  const [icon, badge] = ["/console/icon.png", "/console/badge.png"]
  await self.registration.showNotification(title, { body, lang, tag, renotify, icon, badge, data: { n, url } })
}

const open = async (url) => {
  const to = new URL(url ?? "/console", self.location.origin)
  if (to.origin !== self.location.origin) return
  const tabs = await self.clients.matchAll({ type: "window", includeUncontrolled: true })
  const tab = tabs.find((one) => one.url === to.href)
  return tab === undefined ? self.clients.openWindow(to.href) : tab.focus()
}

self.addEventListener("install", () => self.skipWaiting())
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()))
self.addEventListener("push", (event) => event.waitUntil(show(messageOf(event.data))))
self.addEventListener("notificationclick", (event) => {
  event.notification.close()
  event.waitUntil(open(event.notification.data.url))
})
`
