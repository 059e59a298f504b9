/** A real browser, where the machine has one. */
import { Context, Effect, Layer } from "effect"
import { existsSync } from "node:fs"
import { type Browser, chromium } from "playwright-core"

const executable = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync)

/** Undefined where there is none: then the tests are skipped with this reason. */
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
