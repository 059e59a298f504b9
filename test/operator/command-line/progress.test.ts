/** What a long command shows on a terminal while it runs. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { progressLine, watched } from "../../../cli/support/terminal/progress.ts"
import { done, expect } from "../../../src/platform/metrics/Progress.ts"

describe("a line of progress", () => {
  it("has the amount, the share, the rate and the time that is left", () => {
    assert.strictEqual(
      progressLine("Exported", "rows", { done: 12_000, total: 48_000, seconds: 4 }),
      "Exported 12,000 of 48,000 rows, 25 %, 3,000 rows/s, 12 s left"
    )
    assert.strictEqual(
      progressLine("Read", "MB", { done: 1_500_000, total: 900_000_000, seconds: 1 }),
      "Read 1.5 of 900 MB, 0 %, 1.5 MB/s, 10 min left"
    )
  })
  it("promises nothing if nobody knows how much there is, or if the estimate was too low", () => {
    for (const total of [0, 10])
      assert.strictEqual(progressLine("Saved", "rows", { done: 20, total, seconds: 2 }), "Saved 20 rows, 10 rows/s")
  })
})

describe("progress", () => {
  const shownBy = Effect.fnUntraced(function* (work: Effect.Effect<void>) {
    let written = ""
    yield* watched("Read", "rows", (text) => (written += text), work)
    return written
  })

  it.effect("is one line, written again at intervals and gone at the end", () =>
    Effect.gen(function* () {
      const step = Effect.andThen(TestClock.adjust("600 millis"), done(10))
      const shown = yield* shownBy(
        Effect.andThen(expect(Effect.succeed(40)), Effect.andThen(step, Effect.andThen(step, done(10))))
      )
      assert.strictEqual(shown.match(/Read/g)?.length, 1)
      assert.match(shown, /^\rRead 20 of 40 rows, 50 %, 17 rows\/s, 2 s left\r +\r$/)
    })
  )
  it.effect("is not shown for what takes less than a second", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* shownBy(Effect.andThen(TestClock.adjust("900 millis"), done(10))), "")
    })
  )
  it.effect("asks how much there is only if somebody looks", () => expect(Effect.die("asked")))
})
