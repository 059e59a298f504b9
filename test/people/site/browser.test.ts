/**
 * The pages in a real Chromium: they are accessible, fit the screen, print, and load nothing else.
 *
 * SCREENSHOTS=folder saves a picture of each page, in both colour schemes and two sizes.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { layoutFaults, openPage, pageFaults, viewports } from "../../support/people/Chromium.ts"
import { inChromium } from "../../support/people/InChromium.ts"
import { entries } from "../../../src/people/site/docs/Contents.ts"
import { Service } from "../../support/service/Service.ts"

const screenshots = process.env["SCREENSHOTS"]

/** Texts of diagrams that are cut off, or smaller than 10 px. */
const unreadable = `[...document.querySelectorAll("svg text")].flatMap((text) => {
  const [box, frame] = [text, text.closest(".wide")].map((one) => one.getBoundingClientRect())
  const scale = text.getScreenCTM().a * parseFloat(getComputedStyle(text).fontSize)
  return scale < 10 || box.left < frame.left || box.right > frame.right ? [scale + " px: " + text.textContent] : []
})`

inChromium(Service.layer, "in Chromium", (walk) => {
  /** One page of each kind of content: axe takes seconds for a long one. */
  const thorough = new Set([
    "/",
    "/docs",
    "/nowhere",
    "/docs/agents",
    "/docs/bridges",
    "/docs/codes",
    "/docs/service",
    "/docs/glossary"
  ])

  /** Every page once, by turns on a desk and on a phone. */
  const looks = ["/", "/docs", "/nowhere", ...entries.map(({ path }) => path)].flatMap((path, index) =>
    (index < 2 ? viewports : [viewports[index % 2]!]).map((viewport) => [path, viewport] as const)
  )
  for (const [path, [look, options]] of looks) {
    walk(`${path} is accessible, fits the screen and loads nothing else (${look})`, () =>
      Effect.gen(function* () {
        const { url } = yield* Service
        const { consoleErrors, page } = yield* openPage(options)
        const requests: Array<string> = []
        page.on("request", (request) => requests.push(request.url()))
        yield* Effect.promise(async () => {
          await page.goto(url + path)
          if (screenshots !== undefined) {
            const name = `${look}-${path === "/" ? "home" : path.slice(1).replace("/", "-")}.png`
            await page.screenshot({ path: join(screenshots, name), fullPage: true })
          }
          assert.deepEqual(await (thorough.has(path) ? pageFaults(page) : layoutFaults(page)), [])
        })
        assert.includeMembers([url + path, `${url}/favicon.svg`], requests)
        assert.deepEqual(consoleErrors, [])
      })
    )
  }

  for (const width of [390, 1280])
    walk(`diagrams can be read whole on a screen of ${width} px`, () =>
      Effect.gen(function* () {
        const { url } = yield* Service
        const { page } = yield* openPage({ viewport: { width, height: 844 }, isMobile: width < 600 })
        yield* Effect.promise(async () => {
          for (const path of ["agents", "bridges", "proof"]) {
            await page.goto(`${url}/docs/${path}`)
            assert.deepEqual(await layoutFaults(page), [], path)
            assert.deepEqual(await page.evaluate(unreadable), [], path)
          }
        })
      })
    )

  walk("a page of /docs prints dark on white, without the navigation", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { page } = yield* openPage({ colorScheme: "dark", viewport: { width: 720, height: 1000 } })
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs/agents`)
        await page.emulateMedia({ media: "print", colorScheme: "dark" })
        const colour = (of: string) => page.evaluate<string>(`getComputedStyle(document.body).${of}`)
        assert.deepEqual(
          [await colour("backgroundColor"), await colour("color")],
          ["rgb(255, 255, 255)", "rgb(27, 29, 31)"]
        )
        assert.strictEqual(await page.locator("nav:visible, header:visible, .copy:visible").count(), 0)
        assert.isTrue(await page.isVisible("h1"))
        assert.deepEqual(await pageFaults(page), [])
      })
    })
  )

  walk("a page of /docs works with the keyboard: the first stop skips to the content", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs/run`)
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.waitForURL(/\/docs\/run#content$/)
      })
    })
  )

  walk("the search finds sections of every page, and the keyboard leads there", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { consoleErrors, page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs`)
        await page.keyboard.press("/")
        await page.keyboard.type("bridge_rotation_expired")
        await page.locator("search li").first().waitFor()
        assert.include(await page.locator("search ol").innerText(), "Troubleshooting")
        assert.deepEqual(await pageFaults(page), [])
        await page.fill("search input", "task_claim")
        await page.locator("search li", { hasText: "Tools" }).first().waitFor()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await page.waitForURL(/\/docs\/tools#tool-task_claim$/)
        await page.fill("search input", "Which threats are not defended?")
        await page.locator("search li", { hasText: "What is not defended" }).first().waitFor()
        await page.fill("search input", "How do I stop everything?")
        await page.locator("search li:first-child", { hasText: "Stop one thing, or everything" }).waitFor()
        await page.fill("search input", "zzyzx")
        await page.getByText("Nothing has these words.").waitFor()
      })
      assert.deepEqual(consoleErrors, [])
    })
  )

  walk("a block is copied as it is shown, and the contents mark the section in view", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { context, page } = yield* openPage({ viewport: { width: 1440, height: 900 } })
      yield* Effect.promise(async () => {
        await context.grantPermissions(["clipboard-read", "clipboard-write"])
        await page.goto(`${url}/docs/agents#cursor`)
        const block = page.locator("main pre").first()
        await page.locator(".copy").first().click()
        await page.getByText("Copied").waitFor()
        assert.strictEqual(await page.evaluate("navigator.clipboard.readText()"), await block.textContent())
        await page.evaluate("document.querySelector('#chatgpt').scrollIntoView()")
        await page.locator("#toc a[aria-current]", { hasText: "ChatGPT" }).waitFor()
      })
    })
  )

  walk("a link from the time of one page leads to the page of its section", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        for (const [old, now] of [
          ["code-idempotency_conflict", "codes#code-idempotency_conflict"],
          ["scope", "specification#16-what-is-out-of-scope"]
        ]) {
          await page.goto("about:blank")
          await page.goto(`${url}/docs#${old}`)
          await page.waitForURL(`${url}/docs/${now}`)
        }
      })
    })
  )

  walk("without JavaScript a page of /docs is whole, but has no search", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { page } = yield* openPage({ javaScriptEnabled: false, viewport: { width: 390, height: 844 } })
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs/run`)
        assert.isFalse(await page.isVisible("search"))
        await page.click("button[popovertarget=menu]")
        await page.click("#menu a[href='/docs/emergencies']")
        await page.waitForURL(`${url}/docs/emergencies`)
      })
    })
  )
})
