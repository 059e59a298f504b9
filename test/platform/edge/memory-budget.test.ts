/** What large requests hold in memory at once is bounded (decisions.md, Memory). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { execFileSync } from "node:child_process"
import { EventEmitter } from "node:events"
import { budget, largestBody, MemoryBudget, share } from "../../../src/platform/edge/limits/MemoryBudget.ts"
import { oldGeneration, partOfHeap } from "../../../src/platform/settings/Heap.ts"

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

describe("the answers of one request, in a budget of 100 KiB, 50 for one owner", () => {
  const kib = 1024
  const make = Effect.sync(() => budget(100 * kib, 50 * kib))
  /** The outcome of an effect that may wait for a second. */
  const settled = Effect.fnUntraced(function* <A>(effect: Effect.Effect<A>) {
    const fiber = yield* Effect.forkChild(effect)
    yield* Effect.yieldNow
    yield* TestClock.adjust("1 second")
    return yield* Fiber.join(fiber)
  })

  it.effect("use what the request claimed, then what is left of the share", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const request = open("a")
      assert.isTrue(yield* settled(request.admit(20 * kib)))
      assert.isTrue(yield* settled(request.count(20 * kib, false)))
      assert.isTrue(yield* settled(request.count(30 * kib, false)))
      assert.isFalse(yield* settled(request.count(1, false)))
    })
  )

  it.effect("of requests that overlap leave nothing behind", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const [first, second] = [open("a"), open("a")]
      assert.isTrue(yield* settled(first.admit(0)))
      assert.isTrue(yield* settled(second.admit(0)))
      first.close()
      second.close()
      assert.isTrue(yield* settled(open("a").admit(50 * kib)))
    })
  )

  it.effect("fit if there is only one, however large, and if a write cannot be undone", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const [first, second] = [open("a"), open("a")]
      assert.isTrue(yield* settled(first.count(1000 * kib, false)))
      assert.isFalse(yield* settled(second.count(20 * kib, false)))
      assert.isTrue(yield* settled(second.count(20 * kib, true)))
    })
  )

  it.effect("count until they are sent: then the owner's next request is admitted, no other owner's waited", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const unread = open("a")
      yield* settled(unread.admit(0))
      unread.settle(60 * kib)
      assert.isFalse(yield* settled(open("a").admit(0)))
      assert.isTrue(yield* settled(open("b").admit(0)))
      const waiting = yield* Effect.forkChild(open("a").admit(0))
      yield* Effect.yieldNow
      unread.close()
      assert.isTrue(yield* Fiber.join(waiting))
    })
  )

  it.effect("do not count if they are small", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      for (let n = 0; n < 50; n++) {
        const request = open("a")
        assert.isTrue(yield* settled(request.count(16 * kib, false)))
        request.settle(16 * kib)
      }
      const large = open("a")
      assert.isTrue(yield* settled(large.admit(50 * kib)))
      assert.isTrue(yield* settled(open("a").count(16 * kib, false)), "beside answers that take the whole share")
    })
  )
})

describe("what the answers to a batch may take", () => {
  it.effect("is given back when its work fails, dies or is interrupted", () =>
    Effect.gen(function* () {
      const { answers } = yield* MemoryBudget
      /** Runs work that claims the whole share of its owner; nothing was sent, so the request is not looked at. */
      const batch = (work: Effect.Effect<never, "broken">) => {
        const request = {} as HttpServerRequest.HttpServerRequest
        return Effect.forkChild(answers("a", 1000, request, () => work))
      }
      const outcome = Effect.fnUntraced(function* (work: Effect.Effect<never, "broken">) {
        const running = yield* batch(work)
        yield* Effect.yieldNow
        yield* TestClock.adjust("1 second")
        return yield* Fiber.await(running)
      })
      assert.deepStrictEqual(yield* outcome(Effect.fail("broken")), Exit.fail("broken"))
      assert.isTrue(Exit.hasDies(yield* outcome(Effect.die("a defect"))))
      const interrupted = yield* batch(Effect.never)
      yield* Effect.yieldNow
      yield* Fiber.interrupt(interrupted)
      assert.deepStrictEqual(yield* outcome(Effect.fail("broken")), Exit.fail("broken"))
    }).pipe(Effect.provide(MemoryBudget.layer))
  )

  it.effect("is what they take once they are made, until they are sent", () =>
    Effect.gen(function* () {
      const { answers } = yield* MemoryBudget
      const answered = (owner: string, response: object, bytes: number) => {
        const request = { response } as unknown as HttpServerRequest.HttpServerRequest
        const answer = HttpServerResponse.uint8Array(new Uint8Array(bytes))
        return codeOf(answers(owner, 1000, request, () => Effect.succeed(answer)))
      }
      const sending = new EventEmitter()
      for (const bytes of [1024, share]) assert.strictEqual(yield* answered("a", sending, bytes), "done")
      const waiting = yield* Effect.forkChild(answered("a", sending, 1024))
      yield* Effect.yieldNow
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* Fiber.join(waiting), "rate_limited")
      // Whose client has gone meanwhile.
      for (const bytes of [share, 1024]) assert.strictEqual(yield* answered("b", { destroyed: true }, bytes), "done")
    }).pipe(Effect.provide(MemoryBudget.layer))
  )
})

describe("a body", () => {
  it.effect("counts by the length that it announces, a chunked one by the maximum, and not if it is small", () =>
    Effect.gen(function* () {
      const { body } = yield* MemoryBudget
      const read = (headers: Readonly<Record<string, string>>, work: Effect.Effect<void> = Effect.void) =>
        codeOf(body("a", { headers } as HttpServerRequest.HttpServerRequest, work))
      const chunked = { "transfer-encoding": "chunked" }
      for (let bytes = 0; bytes + largestBody <= share; bytes += largestBody) {
        yield* Effect.forkChild(read(chunked, Effect.never))
      }
      yield* Effect.yieldNow
      for (const small of [{}, { "content-length": "16384" }]) assert.strictEqual(yield* read(small), "done")
      for (const large of [chunked, { "content-length": String(largestBody) }]) {
        const waiting = yield* Effect.forkChild(read(large))
        yield* Effect.yieldNow
        yield* TestClock.adjust("1 second")
        assert.strictEqual(yield* Fiber.join(waiting), "rate_limited")
      }
    }).pipe(Effect.provide(MemoryBudget.layer))
  )
})

describe("the old generation", () => {
  it.each([[[]], [["--max-semi-space-size=16"]]])("is what V8 was given, with %j", (options) => {
    const limit = execFileSync(process.execPath, [
      "--max-old-space-size=256",
      ...options,
      "--print",
      "v8.getHeapStatistics().heap_size_limit"
    ])
    assert.strictEqual(oldGeneration(Number(limit), options.join(" ")) / 1024 / 1024, 256)
  })

  it.each([
    [1, 1000],
    [2, 500],
    [3, 333],
    [16, 256]
  ])("is divided between %i processes: each has %i MiB", (processes, mebibytes) => {
    assert.strictEqual(partOfHeap(processes, 1000 * 2 ** 20), mebibytes)
  })
})
