/** How a command opens a page in the browser of whoever sits at the terminal. */
import { assert, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { vi } from "vitest"
import { openInBrowser } from "../../../cli/support/terminal/browser.ts"
import { temporaryFolder } from "../../support/database/PostgresUser.ts"

it.live("the address, which can hold a secret, is in no argument of a program", () =>
  Effect.gen(function* () {
    const home = yield* temporaryFolder
    const bin = join(home, "bin")
    mkdirSync(bin)
    const command = "printf '%s\\n' \"$@\" > \"$HOME/arguments\"; tr '\\0' ' ' < /proc/$PPID/cmdline > \"$HOME/parent\""
    writeFileSync(join(bin, "xdg-open"), `#!/bin/sh\n${command}\n`)
    chmodSync(join(bin, "xdg-open"), 0o755)
    vi.stubEnv("HOME", home)
    vi.stubEnv("PATH", `${bin}:${process.env["PATH"]}`)
    const { isTTY } = process.stdout
    process.stdout.isTTY = true
    const link = "http://127.0.0.1/console/enter?link=sco_secret"
    yield* openInBrowser(link).pipe(
      Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ DISPLAY: ":0" }))),
      Effect.ensuring(Effect.sync(() => (process.stdout.isTTY = isTTY)))
    )
    yield* Effect.promise(() => vi.waitUntil(() => existsSync(join(home, "parent")), { timeout: 10_000 }))
    vi.unstubAllEnvs()
    const [folder] = readdirSync(home).filter((name) => name.startsWith("bridge-service-"))
    const page = join(home, folder!, "open.html")
    assert.strictEqual(readFileSync(join(home, "arguments"), "utf8").trim(), page)
    assert.notInclude(readFileSync(join(home, "parent"), "utf8"), "sco_secret")
    assert.include(readFileSync(page, "utf8"), `content="0; url=${link}"`)
    assert.deepStrictEqual([statSync(join(home, folder!)).mode & 0o777, statSync(page).mode & 0o777], [0o700, 0o600])
  })
)
