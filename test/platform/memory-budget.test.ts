/** What large requests hold in memory at once is bounded (decisions.md, Memory). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch } from "effect"
import { TestClock } from "effect/testing"
import { budget } from "../../src/platform/edge/MemoryBudget.ts"

const codeOf = Effect.match({ onFailure: ({ _tag }: { readonly _tag: string }) => _tag, onSuccess: () => "done" })

describe("a budget of 10 bytes, 6 for one owner", () => {
  const make = Effect.sync(() => {
    const { hold } = budget(10, 6)
    const end = Latch.makeUnsafe()
    /** Holds bytes until `end`; `started` says whether its work began. */
    const held = Effect.fnUntraced(function* (owner: string, bytes: number) {
      let started = false
      const work = Effect.andThen(
        Effect.sync(() => (started = true)),
        end.await
      )
      const fiber = yield* Effect.forkChild(codeOf(hold(owner, bytes, work)))
      yield* Effect.yieldNow
      return { started: () => started, outcome: Fiber.join(fiber), interrupt: Fiber.interrupt(fiber) }
    })
    return { held, end: end.open }
  })

  it.effect("admits at once what fits into the share and the whole", () =>
    Effect.gen(function* () {
      const { end, held } = yield* make
      const claims = [yield* held("a", 6), yield* held("a", 1), yield* held("b", 4), yield* held("c", 1)]
      assert.deepStrictEqual(
        claims.map(({ started }) => started()),
        [true, false, true, false]
      )
      yield* end
      for (const { outcome } of claims) assert.strictEqual(yield* outcome, "done")
    })
  )

  it.effect("refuses after a second", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      yield* held("a", 6)
      const waiting = yield* held("a", 1)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([waiting.started(), yield* waiting.outcome], [false, "rate_limited"])
    })
  )

  it.effect("admits the next of another owner when the first in the queue still does not fit", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      yield* held("a", 6)
      const b = yield* held("b", 4)
      const [second, other] = [yield* held("a", 2), yield* held("c", 4)]
      yield* b.interrupt
      yield* Effect.yieldNow
      assert.deepStrictEqual([second.started(), other.started()], [false, true])
    })
  )

  it.effect("gives back what interrupted and refused requests claimed", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      const first = yield* held("a", 6)
      const interrupted = yield* held("a", 6)
      const refused = yield* held("a", 6)
      yield* interrupted.interrupt
      yield* TestClock.adjust("1 second")
      yield* refused.outcome
      yield* first.interrupt
      assert.isTrue((yield* held("a", 6)).started())
    })
  )
})
