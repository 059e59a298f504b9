/** How long late answers wait (decisions.md, Rate limits). */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { onTestFinished, vi } from "vitest"
import { makeFloodPauses } from "../../../src/platform/edge/limits/Floods.ts"

describe("a flood", () => {
  /** So many callers, each of whom sends the next request after the answer to the last one. */
  const flooding = (callers: number, networkOf: (caller: number) => string, isReconnecting = false) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    const { wait } = makeFloodPauses()
    const answers = (network: string, connection: object) => Effect.runPromise(wait(network, connection))
    let answered = 0
    const flood = async (network: string) => {
      let connection = {}
      for (;;) {
        await answers(network, connection)
        answered += 1
        if (isReconnecting) connection = {}
      }
    }
    for (let n = 0; n < callers; n++) void flood(networkOf(n))
    /** Lets so many milliseconds pass, in steps of 50. Returns how many answers there were. */
    const pass = async (millis: number) => {
      const before = answered
      for (let passed = 0; passed < millis; passed += 50) {
        vi.advanceTimersByTime(50)
        await new Promise((resume) => setImmediate(resume))
      }
      return answered - before
    }
    return { answers, pass }
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
      const { pass } = flooding(most, networkOf, isReconnecting)
      await pass(5000)
      const answered = await pass(950)
      assert.isAtMost(answered, most)
      assert.isAtLeast(answered, 0.7 * most)
    })

  it("from one address delays nobody else, nor the first answer of another connection, by more than usual", async () => {
    const { answers, pass } = flooding(640, () => "203.0.113.7")
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
})
