/** What the service says when it is ready. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestConsole } from "effect/testing"
import { logReady } from "../../src/platform/process/Banner.ts"
import type { Settings } from "../../src/platform/settings/Settings.ts"

const settings = {
  baseUrl: new URL("https://bridge.example"),
  http: { host: "127.0.0.1", port: 8787 }
} as Settings["Service"]

const said = Effect.fnUntraced(function* (isTTY: boolean, embedded?: string) {
  const was = process.stdout.isTTY
  process.stdout.isTTY = isTTY
  yield* Effect.ensuring(
    logReady(settings, embedded),
    Effect.sync(() => (process.stdout.isTTY = was))
  )
  return (yield* TestConsole.logLines).join("\n")
})

it.effect("a log has no banner", () =>
  Effect.gen(function* () {
    assert.notInclude(yield* said(false, "/data"), "Ctrl-C")
  })
)

it.effect.each([
  ["/data", "embedded PostgreSQL, in /data"],
  [undefined, "PostgreSQL at DATABASE_URL"]
] as const)("a terminal shows where the service and its database are, and what to type next", ([embedded, database]) =>
  Effect.gen(function* () {
    const text = yield* said(true, embedded)
    for (const part of ["https://bridge.example/bridge/v1", database, "Stop with Ctrl-C"]) assert.include(text, part)
    assert.match(text, /service-admin(?:\.mjs)? init$/m)
  })
)
