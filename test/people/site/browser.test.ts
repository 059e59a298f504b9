/**
 * The pages in a real Chromium: they are accessible, fit the screen, print, and load nothing else.
 *
 * SCREENSHOTS=folder saves a picture of each page, in both colour schemes and two sizes.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"
import { join } from "node:path"
import { Chromium, noChromium, openPage, pageFaults, viewports } from "../../support/agents/Chromium.ts"
import { Service } from "../../support/service/Service.ts"

const screenshots = process.env["SCREENSHOTS"]
const Walk = noChromium === undefined ? Layer.merge(Service.layer, Chromium.layer) : (Layer.empty as never)

layer(Walk, { timeout: 60_000 })("in Chromium", (it) => {
  const walk = (name: string, steps: () => Effect.Effect<void, unknown, Service | Chromium | Scope.Scope>) =>
    it.effect(
      name,
      (context) => (noChromium === undefined ? steps() : Effect.sync(() => context.skip(noChromium!))),
      60_000
    )

  for (const path of ["/", "/docs"]) {
    for (const [look, options] of viewports) {
      walk(`${path} is accessible, fits the screen and loads nothing else (${look})`, () =>
        Effect.gen(function* () {
          const { url } = yield* Service
          const { consoleErrors, page } = yield* openPage(options)
          const requests: Array<string> = []
          page.on("request", (request) => requests.push(request.url()))
          yield* Effect.promise(async () => {
            await page.goto(url + path)
            if (screenshots !== undefined) {
              const name = `${look}-${path === "/" ? "home" : "docs"}.png`
              await page.screenshot({ path: join(screenshots, name), fullPage: true })
            }
            assert.deepEqual(await pageFaults(page), [])
          })
          assert.deepEqual(requests, [url + path])
          assert.deepEqual(consoleErrors, [])
        })
      )
    }
  }

  walk("/docs prints dark on white, without the navigation", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { page } = yield* openPage({ colorScheme: "dark", viewport: { width: 720, height: 1000 } })
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs`)
        await page.emulateMedia({ media: "print", colorScheme: "dark" })
        const colour = (of: string) => page.evaluate<string>(`getComputedStyle(document.body).${of}`)
        assert.deepEqual(
          [await colour("backgroundColor"), await colour("color")],
          ["rgb(255, 255, 255)", "rgb(27, 29, 31)"]
        )
        assert.isFalse(await page.isVisible("nav"))
        assert.isTrue(await page.isVisible("h1"))
        assert.deepEqual(await pageFaults(page), [])
      })
    })
  )

  walk("/docs works with the keyboard: the first stop skips to the content", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs`)
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.waitForURL(/\/docs#content$/)
      })
    })
  )
})
