/**
 * "Ring this device" in a real Chromium, as far as that goes without its vendor's push service: `PushManager.subscribe` is
 * replaced by one that names the push service of the test, and the message that this one receives is delivered to the real
 * service worker over the debugging protocol. The system's notification cannot be clicked there: its event is dispatched in
 * the worker, and the window that the worker opens is recorded.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import type { BrowserContext, BrowserContextOptions, Page } from "playwright-core"
import { PostNetwork } from "../../../../src/platform/network/GuardedPost.ts"
import { PushProvider } from "../../../../src/push/channels/Provider.ts"
import { makeToken, reachable } from "../../../support/agents/Agent.ts"
import { openPage, pageFaults, viewports } from "../../../support/people/Chromium.ts"
import { inChromium } from "../../../support/people/InChromium.ts"
import { makeBusyProject } from "../../../support/people/Console.ts"
import { decrypt, makeSubscription } from "../../../support/phones/Browser.ts"
import { host, makePushService } from "../../../support/phones/PushService.ts"
import { TestDatabase } from "../../../support/database/TestDatabase.ts"
import { drain, notify, workerOf } from "../../../support/service/Delivery.ts"

const noApns = PushProvider.of({ name: "log", send: () => Effect.die("no phone is registered") })

const start = Effect.gen(function* () {
  const pushService = yield* makePushService()
  const service = yield* reachable({ SERVICE_WEBPUSH_HOSTS: host }).pipe(
    Effect.provideService(PostNetwork, pushService.network)
  )
  return { service, pushService, worker: yield* workerOf(service, noApns) }
})

/** The vendor's part: subscribing, and remembering the subscription of the browser. */
const standIn = ({ endpoint, keys }: { readonly endpoint: string; readonly keys: object }) => `
  const json = ${JSON.stringify({ endpoint, keys })}
  const subscription = (key) => ({
    options: { applicationServerKey: Uint8Array.from(key.split(",")).buffer },
    toJSON: () => json,
    unsubscribe: async () => localStorage.removeItem("stand-in")
  })
  PushManager.prototype.subscribe = async ({ applicationServerKey, userVisibleOnly }) => {
    if (userVisibleOnly !== true || applicationServerKey.length !== 65) throw new Error("no such subscription")
    localStorage.setItem("stand-in", String(applicationServerKey))
    return subscription(String(applicationServerKey))
  }
  PushManager.prototype.getSubscription = async () =>
    localStorage.getItem("stand-in") === null ? null : subscription(localStorage.getItem("stand-in"))
`

const makeDevice = Effect.fnUntraced(function* (
  { pushService, service }: Effect.Success<typeof start>,
  token: string,
  project_id: string,
  options: BrowserContextOptions = {}
) {
  const path = `/send/${project_id}`
  const { browser, push } = yield* Effect.promise(() => makeSubscription(`${pushService.origin}${path}`))
  const opened = yield* openPage({ ...options, permissions: ["notifications"] })
  const { context, page } = opened
  const phones = `${service.url}/console/${project_id}/phones`
  yield* Effect.promise(async () => {
    await context.addInitScript(standIn(push))
    await page.goto(`${service.url}/console/sign-in?to=/console/${project_id}/phones`)
    await page.waitForSelector("#project_token:focus")
    await page.keyboard.type(token)
    await page.keyboard.press("Enter")
    await page.waitForURL(phones)
  })
  const received = () => pushService.received.filter((one) => one.path === path)
  return { ...opened, phones, browser, received }
})

/** Delivers messages to the page's service worker, as the vendor's push service would. */
const vendorOf = async (page: Page, origin: string) => {
  const session = await page.context().newCDPSession(page)
  const registered = new Promise<string>((resolve) => {
    session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
      const ours = registrations.find(({ isDeleted, scopeURL }) => scopeURL === `${origin}/console` && !isDeleted)
      if (ours !== undefined) resolve(ours.registrationId)
    })
  })
  await session.send("ServiceWorker.enable")
  const registrationId = await registered
  return (data: string) => session.send("ServiceWorker.deliverPushMessage", { origin, registrationId, data })
}

interface Notice {
  readonly title: string
  readonly body: string
  readonly lang: string
  readonly tag: string
}

/**
 * The notifications that are shown, once there are so many; after twenty seconds, those that there are. Chromium can lose a
 * push while it loads a page; a push service would repeat it.
 */
const shownOn = async (page: Page, count: number, repeat: () => Promise<unknown>): Promise<ReadonlyArray<Notice>> => {
  for (let times = 1; ; times++) {
    const shown = await page.evaluate<ReadonlyArray<Notice>>(`(async () => {
      const registration = await navigator.serviceWorker.getRegistration("/console")
      for (let tries = 0; ; tries++) {
        const shown = await registration.getNotifications()
        if (shown.length >= ${count} || tries === 100) {
          return shown.map(({ title, body, lang, tag }) => ({ title, body, lang, tag }))
        }
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    })()`)
    if (shown.length >= count || times === 4) return shown
    await repeat()
  }
}

/** Clicks the notification with this tag; returns the window that the worker opens, or the tab that it focuses. */
const clicked = (context: BrowserContext, tag: string) =>
  context.serviceWorkers()[0]!.evaluate(`(async () => {
    const done = new Promise((resolve) => {
      self.clients.openWindow = async (address) => resolve(["opened", address])
      WindowClient.prototype.focus = async function () { resolve(["focused", this.url]) }
    })
    for (let tries = 0; tries < 400; tries++) {
      const [notification] = await self.registration.getNotifications({ tag: "${tag}" })
      if (notification !== undefined) {
        self.dispatchEvent(new NotificationEvent("notificationclick", { notification }))
        return Promise.race([done, new Promise((resolve) => setTimeout(resolve, 5000, "nothing"))])
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    return "no notification"
  })()`)

inChromium(TestDatabase.sql, "a browser", (test) => {
  const languages = [
    ["en-GB", "en", "A task needs your decision"],
    ["de-AT", "de", "Eine Aufgabe braucht Ihre Entscheidung"],
    ["fr-FR", "en", "A task needs your decision"]
  ] as const
  for (const [locale, lang, title] of languages) {
    test(`in ${locale} rings with words in ${lang}, its click opens the task, and it is gone once it was ended`, () =>
      Effect.gen(function* () {
        const on = yield* start
        const { project_id, task_id } = yield* makeBusyProject(on.service)
        const reader = yield* makeToken(on.service, { project_id, role: "reader" })
        const { browser, consoleErrors, context, page, phones, received } = yield* makeDevice(
          on,
          reader.token,
          project_id,
          { locale }
        )
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Ring this device" }).focus()
          await page.keyboard.press("Enter")
          await page.waitForSelector("text=This device rings from now on.")
          await page.getByText("This device rings.", { exact: true }).waitFor()
          assert.strictEqual(await page.getByText("this device", { exact: true }).count(), 1)
        })

        yield* notify(on.service, project_id, "task.needs_decision", task_id)
        yield* drain(on.worker)
        assert.lengthOf(received(), 1)
        const message = (yield* Effect.promise(() => decrypt(received()[0]!.body, browser))).toString()
        yield* Effect.promise(async () => {
          const deliver = await vendorOf(page, on.service.url)
          await deliver(message)
          const shown = await shownOn(page, 1, () => deliver(message))
          assert.deepInclude(shown[0], { title, lang, tag: task_id })
          // The same message again, and a newer one about the same task, take the place of the first.
          await deliver(message)
          await deliver(JSON.stringify({ ...JSON.parse(message), n: "newer", k: "task.blocked" }))
          const other = JSON.stringify({ n: "other", k: "of.a.newer.release", r: "other" })
          await deliver(other)
          const both = await shownOn(page, 2, () => deliver(other))
          assert.deepStrictEqual(
            both.map(({ tag }) => tag).toSorted(),
            [task_id, "other"].toSorted(),
            JSON.stringify(both)
          )

          const task = `${on.service.url}/console/${project_id}/tasks/${task_id}`
          const click = () => clicked(context, task_id)
          assert.deepStrictEqual(await click(), ["opened", task])
          await page.goto(task)
          assert.include(await page.innerText("h1"), "Choose the invoice format")
          const again = async () => {
            await deliver(message)
            return click()
          }
          let outcome = await again()
          if (outcome === "no notification") outcome = await again()
          assert.deepStrictEqual(outcome, ["focused", task])

          assert.deepStrictEqual(await page.evaluate("caches.keys()"), [], "the worker caches nothing")
          await page.goto(phones)
          await page.getByRole("button", { name: /^Stop ringing/ }).click()
          await page.waitForSelector("text=The device gets no more notifications.")
          await page.getByRole("button", { name: "Ring this device" }).waitFor()
          assert.isNull(await page.evaluate("localStorage.getItem('stand-in')"), "unsubscribed")
        })
        yield* notify(on.service, project_id, "task.needs_decision")
        yield* drain(on.worker)
        assert.lengthOf(received(), 1)
        assert.deepEqual(consoleErrors, [])
      }))
  }

  test("says what became of a test, at the width of a phone and of a desktop", () =>
    Effect.gen(function* () {
      const on = yield* start
      for (const [look, options] of viewports) {
        const { project_id, token } = yield* makeToken(on.service)
        const { consoleErrors, page, received } = yield* makeDevice(on, token, project_id, options)
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Ring this device" }).waitFor()
          assert.deepEqual(await pageFaults(page), [], look)
          await page.getByRole("button", { name: "Ring this device" }).click()
          await page.getByText("This device rings.", { exact: true }).waitFor()
          await page.getByText("What it rings for").click()
          assert.isNotEmpty(await page.getByLabel("Time zone").inputValue())
          assert.deepEqual(await pageFaults(page), [], look)
        })
        const answered = (status: number, says: string) =>
          Effect.gen(function* () {
            on.pushService.answers.set(`/send/${project_id}`, status)
            const clicked = Effect.promise(async () => {
              await page.getByRole("button", { name: /^Send a test/ }).click()
              await page.getByText(says).waitFor()
            })
            yield* Effect.raceFirst(
              clicked,
              Effect.forever(Effect.andThen(drain(on.worker), TestClock.adjust("200 millis")))
            )
          })
        yield* answered(201, "The push service took the test: the device shows it within seconds.")
        yield* answered(503, "The push service did not take the test yet. It is tried again. (503")
        yield* TestClock.adjust("2 hours")
        yield* answered(410, "so the device has ended. Ring it again. (410, subscription gone)")
        assert.isAtLeast(received().length, 3)
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Ring this device" }).waitFor()
        })
        assert.deepEqual(consoleErrors, [], look)
      }
    }))

  test("may add the console to its home screen", () =>
    Effect.gen(function* () {
      const on = yield* start
      const { project_id, token } = yield* makeToken(on.service)
      const { consoleErrors, page } = yield* makeDevice(on, token, project_id)
      yield* Effect.promise(async () => {
        const session = await page.context().newCDPSession(page)
        const { data, errors } = await session.send("Page.getAppManifest")
        assert.deepStrictEqual(errors, [])
        const { icons } = JSON.parse(data!)
        for (const { src } of icons) {
          const [status, type] = await page.evaluate<[number, string]>(
            `fetch("${src}").then((answer) => [answer.status, answer.headers.get("content-type")])`
          )
          assert.deepStrictEqual([status, type.startsWith("image/")], [200, true], src)
        }
        const size = await page.evaluate(`new Promise((resolve, reject) => {
          const icon = new Image()
          icon.onload = () => resolve([icon.naturalWidth, icon.naturalHeight])
          icon.onerror = reject
          icon.src = "/console/icon.png"
        })`)
        assert.deepStrictEqual(size, [192, 192])
        const { installabilityErrors } = await session.send("Page.getInstallabilityErrors")
        // A profile of a test is one that keeps nothing.
        assert.deepStrictEqual(
          installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== "in-incognito"),
          []
        )
      })
      assert.deepEqual(consoleErrors, [])
    }))
})
