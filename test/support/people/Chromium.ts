/** A real browser, if the machine has one. */
import { Context, Effect, Layer } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core"

const executable = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync)

/** The reason to skip browser tests; undefined if Chromium is installed. */
export const noChromium = executable === undefined ? "needs Chromium" : undefined

export class Chromium extends Context.Service<Chromium, Browser>()("test/Chromium") {
  static readonly layer = Layer.effect(
    Chromium,
    Effect.acquireRelease(
      Effect.promise(() =>
        chromium.launch({
          executablePath: executable!,
          args: [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync"
          ]
        })
      ),
      (browser) => Effect.promise(() => browser.close())
    )
  )
}

/** Opens a page in a fresh profile, and collects the errors of its console. */
export const openPage = Effect.fnUntraced(function* (options: BrowserContextOptions = {}) {
  const browser = yield* Chromium
  const context = yield* Effect.acquireRelease(
    Effect.promise(() => browser.newContext(options)),
    (acquired) => Effect.promise(() => acquired.close())
  )
  const page = yield* Effect.promise(() => context.newPage())
  const consoleErrors: Array<string> = []
  // Ignore the browser's reports of an error status: some pages have one on purpose.
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("status of")) consoleErrors.push(message.text())
  })
  return { page, context, consoleErrors }
})

export const viewports: ReadonlyArray<readonly [string, BrowserContextOptions]> = [
  ["desktop-light", { viewport: { width: 1280, height: 900 }, colorScheme: "light" }],
  ["phone-dark", { viewport: { width: 320, height: 640 }, deviceScaleFactor: 2, isMobile: true, colorScheme: "dark" }]
]

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

/** Boxes that touch the box above them. */
const touching = `[...document.querySelectorAll(":is(.card, .rows, .table, .empty) + :is(.card, .rows, .table, .empty)")]
  .filter((box) => {
    const [above, below] = [box.previousElementSibling, box].map((one) => one.getBoundingClientRect())
    return below.height > 0 && above.height > 0 && above.left < below.right && below.left < above.right && below.top - above.bottom < 8
  })
  .map((box) => "touches the box above it: " + box.outerHTML.slice(0, 100))`

/** The accessibility violations that axe finds, and the faults of the layout. axe takes most of the time of a walk. */
export const pageFaults = async (page: Page): Promise<ReadonlyArray<string>> => {
  // Evaluated, not added as a script element: the page's policy would block that.
  await page.evaluate(axe)
  const { violations } = await page.evaluate<any>(`axe.run({ resultTypes: ["violations"] })`)
  return [
    ...violations.map((violation: any) => `${violation.id}: ${violation.nodes.map((node: any) => node.html).join()}`),
    ...(await layoutFaults(page))
  ]
}

/** Whether the page is wider than the screen, and boxes that touch. */
export const layoutFaults = async (page: Page): Promise<ReadonlyArray<string>> => {
  const [width, visibleWidth] = await page.evaluate<[number, number]>(
    "[document.documentElement.scrollWidth, innerWidth]"
  )
  const tooWide = width > visibleWidth ? [`${width} px on a screen of ${visibleWidth}`] : []
  return [...tooWide, ...(await page.evaluate<ReadonlyArray<string>>(touching))]
}
