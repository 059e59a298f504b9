/** How long late answers wait (decisions.md, Rate limits). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { onTestFinished, vi } from "vitest"
import { makeFloodPauses } from "../../../src/platform/edge/limits/Floods.ts"

describe("a flood", () => {
  const stopTime = () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
  }
  /** Lets so many milliseconds pass, in steps of 50. */
  const pass = async (millis: number) => {
    for (let passed = 0; passed < millis; passed += 50) {
      vi.advanceTimersByTime(50)
      await new Promise((resume) => setImmediate(resume))
    }
  }
  const on = (socket: object, rawHeaders: ReadonlyArray<string> = []) => ({ socket, rawHeaders })

  /** So many callers, each of whom sends the next request after the answer to the last one, unless that was the last. */
  const flooding = (callers: number, networkOf: (caller: number) => string, isReconnecting = false) => {
    stopTime()
    const { wait } = makeFloodPauses(2 ** 30)
    const answers = (network: string, connection: object) => Effect.runPromise(wait(network, on(connection)))
    let answered = 0
    const flood = async (network: string) => {
      let connection = {}
      while (await answers(network, connection)) {
        answered += 1
        if (isReconnecting) connection = {}
      }
    }
    for (let n = 0; n < callers; n++) void flood(networkOf(n))
    /** How many answers there are within so many milliseconds. */
    const answeredWithin = async (millis: number) => {
      const before = answered
      await pass(millis)
      return answered - before
    }
    return { answers, answeredWithin }
  }

  const sources: Readonly<
    Record<string, readonly [most: number, networkOf: (caller: number) => string, isReconnecting?: boolean]>
  > = {
    "one address": [256, () => "203.0.113.7"],
    "one address that connects anew each time": [256, () => "203.0.113.7", true],
    "one IPv6 site": [2048, (n) => `2001:db8:7:${n.toString(16)}::/64`],
    "many addresses": [8000, (n) => `10.0.${n >> 8}.${n & 255}`]
  }
  for (const [name, [most, networkOf, isReconnecting]] of Object.entries(sources))
    it(`from ${name} gets ${most} late answers a second, however many connections it has`, async () => {
      // With so many callers each answer waits a second.
      const { answeredWithin } = flooding(most, networkOf, isReconnecting)
      await pass(5000)
      const answered = await answeredWithin(950)
      assert.isAtMost(answered, most)
      assert.isAtLeast(answered, 0.7 * most)
    })

  it("from one address delays nobody else, nor the first answer of another connection, by more than usual", async () => {
    const { answers } = flooding(640, () => "203.0.113.7")
    await pass(5000)
    const done: Array<string> = []
    const connection = {}
    void answers("203.0.113.7", connection).then(() => done.push("first"))
    void answers("203.0.113.8", {}).then(() => done.push("other"))
    await pass(250)
    assert.sameMembers(done, ["first", "other"])
    void answers("203.0.113.7", connection).then(() => done.push("further"))
    await pass(250)
    assert.notInclude(done, "further")
  })

  it("from one address gets no more late answers with more requests than may wait", async () => {
    const { answeredWithin } = flooding(8000, () => "203.0.113.7")
    // Until no answer is the first one of its connection.
    await pass(15_000)
    const answered = await answeredWithin(950)
    assert.isAtMost(answered, 256)
    assert.isAtLeast(answered, 0.7 * 256)
  })

  it("leaves 2,560 requests of an address waiting; further ones are answered at once and lose their connection", async () => {
    const { answers } = flooding(0, () => "")
    const connection = {}
    void answers("203.0.113.7", connection)
    const outcomes: Array<boolean> = []
    for (let n = 0; n < 3000; n++) {
      void answers("203.0.113.7", connection).then((mayStay) => outcomes.push(mayStay))
    }
    await pass(50)
    assert.deepStrictEqual(
      outcomes,
      Array.from({ length: 440 }, () => false)
    )
    await pass(10_000)
    assert.strictEqual(outcomes.filter(Boolean).length, 2560)
  })

  for (const [name, rawHeaders, most] of [
    ["without headers", [], 85],
    ["with 700 headers", Array.from({ length: 1400 }, () => "abc"), 6]
  ] as const)
    it(`leaves ${most} requests ${name} waiting in a MiB of memory, again and again`, async () => {
      stopTime()
      const { wait } = makeFloodPauses(2 ** 20)
      for (const round of [1, 2]) {
        let waited = 0
        for (let n = 0; n < 100; n++) {
          const outcome = Effect.runPromise(wait(`10.0.${round}.${n}`, on({}, rawHeaders)))
          void outcome.then((mayStay) => (waited += Number(mayStay)))
        }
        await pass(250)
        assert.strictEqual(waited, most)
      }
    })

  it("leaves no request waiting whose client is gone", async () => {
    stopTime()
    const { wait } = makeFloodPauses(20_000)
    // The library runs requests uninterruptibly, and interrupts those whose client is gone.
    const only = Effect.runFork(Effect.uninterruptible(wait("203.0.113.7", on({}))))
    assert.isFalse(await Effect.runPromise(wait("203.0.113.8", on({}))))
    await Effect.runPromise(Fiber.interrupt(only))
    const next = Effect.runPromise(wait("203.0.113.8", on({})))
    await pass(250)
    assert.isTrue(await next)
  })
})
