/** What large requests hold in memory at once is bounded (decisions.md, Memory). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Latch } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { execFileSync } from "node:child_process"
import { EventEmitter } from "node:events"
import { budget, largestBody, MemoryBudget, tokenShare } from "../../../src/platform/edge/limits/MemoryBudget.ts"
import { oldGeneration, partOfHeap } from "../../../src/platform/settings/Heap.ts"

const codeOf = Effect.match({ onFailure: ({ _tag }: { readonly _tag: string }) => _tag, onSuccess: () => "done" })

/** `a/1` is a token of the project `a`. */
const ownerOf = (name: string) => {
  const [project_id = "", subject = ""] = name.split("/")
  return { project_id, subject }
}

describe("a budget of 10 bytes, 8 for one project and 4 for one of its tokens", () => {
  const make = Effect.sync(() => {
    const { hold } = budget(10, 8, 4)
    const end = Latch.makeUnsafe()
    /** Holds bytes until `end`; `started` says whether its work began. */
    const held = Effect.fnUntraced(function* (owner: string, bytes: number) {
      let started = false
      const work = Effect.andThen(
        Effect.sync(() => (started = true)),
        end.await
      )
      const fiber = yield* Effect.forkChild(codeOf(hold(ownerOf(owner), bytes, work)))
      yield* Effect.yieldNow
      return { started: () => started, outcome: Fiber.join(fiber), interrupt: Fiber.interrupt(fiber) }
    })
    return { held, end: end.open }
  })

  it.effect("admits at once what fits into the share of the token, that of the project and the whole", () =>
    Effect.gen(function* () {
      const { end, held } = yield* make
      const owners = ["a/1", "a/1", "a/2", "a/3", "b/1", "c/1"]
      const claims = yield* Effect.forEach(owners, (owner, n) => held(owner, [4, 1, 4, 1, 2, 1][n]!))
      assert.deepStrictEqual(
        claims.map(({ started }) => started()),
        [true, false, true, false, true, false]
      )
      yield* end
      for (const { outcome } of claims) assert.strictEqual(yield* outcome, "done")
    })
  )

  it.effect("refuses after a second", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      yield* held("a/1", 4)
      const waiting = yield* held("a/1", 1)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual([waiting.started(), yield* waiting.outcome], [false, "rate_limited"])
    })
  )

  it.effect("admits the next of another owner when the first in the queue still does not fit", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      yield* held("a/1", 4)
      const b = yield* held("b/1", 4)
      const [second, other] = [yield* held("a/1", 2), yield* held("c/1", 4)]
      yield* b.interrupt
      yield* Effect.yieldNow
      assert.deepStrictEqual([second.started(), other.started()], [false, true])
    })
  )

  it.effect("admits what is larger than the share of a token alone, and leaves its colleagues their half", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      const large = yield* held("a/1", 6)
      const [own, colleague, third] = [yield* held("a/1", 1), yield* held("a/2", 4), yield* held("a/3", 1)]
      assert.deepStrictEqual(
        [large, own, colleague, third].map(({ started }) => started()),
        [true, false, true, false]
      )
    })
  )

  it.effect("gives back what interrupted and refused requests claimed, no more and no less", () =>
    Effect.gen(function* () {
      const { held } = yield* make
      const first = yield* held("a/1", 6)
      const interrupted = yield* held("a/1", 6)
      const refused = yield* held("a/1", 6)
      yield* interrupted.interrupt
      yield* TestClock.adjust("1 second")
      yield* refused.outcome
      yield* first.interrupt
      const again = yield* Effect.forEach(["a/1", "a/2", "a/3", "b/1", "b/1"], (owner, n) =>
        held(owner, [4, 4, 1, 2, 1][n]!)
      )
      assert.deepStrictEqual(
        again.map(({ started }) => started()),
        [true, true, false, true, false]
      )
    })
  )
})

describe("the answers of one request, in a budget of 200 KiB, 100 for one project and 50 for one token", () => {
  const kib = 1024
  const make = Effect.sync(() => {
    const { open } = budget(200 * kib, 100 * kib, 50 * kib)
    return { open: (owner: string, messages = 1) => open(ownerOf(owner), messages) }
  })
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
      const request = open("a/1")
      assert.isTrue(yield* settled(request.admit(20 * kib)))
      assert.isTrue(yield* settled(request.count(20 * kib, false)))
      assert.isTrue(yield* settled(request.count(30 * kib, false)))
      assert.isFalse(yield* settled(request.count(1, false)))
    })
  )

  it.effect("of requests that overlap leave nothing behind", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const [first, second] = [open("a/1"), open("a/1")]
      assert.isTrue(yield* settled(first.admit(0)))
      assert.isTrue(yield* settled(second.admit(0)))
      first.close()
      second.close()
      assert.isTrue(yield* settled(open("a/1").admit(50 * kib)))
    })
  )

  it.effect("fit if there is only one, however large, and if a write cannot be undone", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const [first, second] = [open("a/1"), open("a/1")]
      assert.isTrue(yield* settled(first.count(1000 * kib, false)))
      assert.isFalse(yield* settled(second.count(20 * kib, false)))
      assert.isTrue(yield* settled(second.count(20 * kib, true)))
    })
  )

  it.effect("count until they are sent: then the token's next request is admitted, no other token's waited", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const unread = open("a/1")
      yield* settled(unread.admit(0))
      unread.settle(110 * kib)
      assert.isFalse(yield* settled(open("a/1").admit(0)))
      for (const other of ["a/2", "b/1"]) {
        assert.isTrue(yield* settled(open(other).admit(0)))
        assert.isTrue(yield* settled(open(other).count(40 * kib, false)), "a large one")
      }
      const waiting = yield* Effect.forkChild(open("a/1").admit(0))
      yield* Effect.yieldNow
      unread.close()
      assert.isTrue(yield* Fiber.join(waiting))
    })
  )

  it.effect("are refused together if the finished answer has more than they and does not fit", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      /** Whether an answer of so many bytes fits, to three messages of which one result has 20 KiB. */
      const finished = Effect.fnUntraced(function* (bytes: number, isKept = false) {
        const request = open("a/1", 3)
        yield* settled(request.admit(30 * kib))
        yield* settled(request.count(20 * kib, isKept))
        const fits = yield* settled(request.countRest(bytes))
        if (fits) request.settle(bytes)
        const next = open("a/1")
        const left = yield* settled(next.count(30 * kib, false))
        for (const { close } of [request, next]) close()
        return [fits, left]
      })
      assert.deepStrictEqual(yield* finished(19 * kib), [true, true])
      assert.deepStrictEqual(yield* finished(50 * kib), [true, false])
      assert.deepStrictEqual(yield* finished(50 * kib + 1), [false, false])
      assert.deepStrictEqual(yield* finished(50 * kib + 1, true), [true, false], "a write cannot be undone")
    })
  )

  it.effect("are refused if they cannot be counted one by one and are too large, unless there is only one", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      assert.isFalse(yield* settled(open("a/1", 2).countRest(51 * kib)))
      assert.isTrue(yield* settled(open("a/1", 1).countRest(51 * kib)))
    })
  )

  it.effect("may fill the share together, whatever is around each of them", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      const request = open("a/1", 2)
      yield* settled(request.admit(50 * kib))
      for (const bytes of [20 * kib, 30 * kib]) assert.isTrue(yield* settled(request.count(bytes, false)))
      assert.isTrue(yield* settled(request.countRest(52 * kib)))
      assert.isFalse(yield* settled(request.countRest(52 * kib + 1)))
    })
  )

  it.effect("do not count if they are small", () =>
    Effect.gen(function* () {
      const { open } = yield* make
      for (let n = 0; n < 50; n++) {
        const request = open("a/1")
        assert.isTrue(yield* settled(request.count(16 * kib, false)))
        request.settle(16 * kib)
      }
      const large = open("a/1")
      assert.isTrue(yield* settled(large.admit(50 * kib)))
      assert.isTrue(yield* settled(open("a/1").count(16 * kib, false)), "beside answers that take the whole share")
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
        return Effect.forkChild(answers(ownerOf("a/1"), 1000, request, () => work))
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
      const answered = Effect.fnUntraced(function* (owner: string, response: object, bytes: number, messages = 1000) {
        const request = { response } as unknown as HttpServerRequest.HttpServerRequest
        const answer = HttpServerResponse.uint8Array(new Uint8Array(bytes))
        const work = answers(ownerOf(owner), messages, request, () => Effect.succeed(answer))
        const answering = yield* Effect.forkChild(codeOf(work))
        yield* Effect.yieldNow
        yield* TestClock.adjust("1 second")
        return yield* Fiber.join(answering)
      })
      const sending = new EventEmitter()
      for (const bytes of [1024, tokenShare]) assert.strictEqual(yield* answered("a/1", sending, bytes), "done")
      assert.strictEqual(yield* answered("a/1", sending, 1024), "rate_limited")
      assert.strictEqual(yield* answered("a/2", sending, tokenShare), "done", "of a colleague")
      assert.strictEqual(
        yield* answered("a/3", sending, 1024),
        "rate_limited",
        "of one who finds the project's share taken"
      )
      sending.emit("close")
      for (const owner of ["a/1", "a/2"]) assert.strictEqual(yield* answered(owner, sending, tokenShare), "done")
      // Whose client has gone meanwhile.
      for (const bytes of [tokenShare, 1024])
        assert.strictEqual(yield* answered("b/1", { destroyed: true }, bytes), "done")
      // What was not counted makes it too large, and nothing of it is left behind.
      for (const [bytes, code] of [
        [tokenShare + 51 * 1024, "rate_limited"],
        [tokenShare, "done"]
      ] as const)
        assert.strictEqual(yield* answered("c/1", sending, bytes, 50), code)
    }).pipe(Effect.provide(MemoryBudget.layer))
  )
})

describe("a body", () => {
  it.effect("counts by the length that it announces, a chunked one by the maximum, and not if it is small", () =>
    Effect.gen(function* () {
      const { body } = yield* MemoryBudget
      const read = (headers: Readonly<Record<string, string>>, work = Effect.void, owner = "a/1") =>
        codeOf(body(ownerOf(owner), { headers } as HttpServerRequest.HttpServerRequest, work))
      const chunked = { "transfer-encoding": "chunked" }
      for (let bytes = 0; bytes + largestBody <= tokenShare; bytes += largestBody) {
        yield* Effect.forkChild(read(chunked, Effect.never))
      }
      yield* Effect.yieldNow
      assert.strictEqual(yield* read(chunked, Effect.void, "a/2"), "done", "of a colleague")
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
