/** Token buckets, the map beneath them, and what counts as one client (decisions.md, Rate limits). */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { networkOf } from "../../../src/platform/edge/Addresses.ts"
import {
  bucketsOf,
  bucketsOfPart,
  networksWith,
  projectsWith,
  takeAll
} from "../../../src/platform/edge/limits/RateLimit.ts"
import { recent } from "../../../src/platform/edge/limits/Recent.ts"
import { forAll } from "../../support/run/Property.ts"

const rate = { perSecond: 2, burst: 5 }

describe("the buckets of a limit", () => {
  const steps = fc.array(
    fc.record({
      key: fc.constantFrom("a", "b", "c"),
      cost: fc.integer({ min: 1, max: 6 }),
      how: fc.constantFrom("take", "take", "take", "give back"),
      pause: fc.integer({ min: 0, max: 1500 })
    }),
    { maxLength: 80 }
  )

  it.effect("admit no more than the burst and the rate since then, whatever is asked and given back", () =>
    forAll(steps, (all) =>
      Effect.gen(function* () {
        const buckets = bucketsOf(rate, 50)
        const admitted: Array<{ readonly key: string; readonly at: number; readonly cost: number }> = []
        for (const { cost, how, key, pause } of all) {
          yield* TestClock.adjust(pause)
          const at = yield* Clock.currentTimeMillis
          if (how === "take" && (yield* buckets.take(key, cost)) === 0) admitted.push({ key, at, cost })
          const last = admitted.findLastIndex((one) => one.key === key)
          if (how === "give back" && last >= 0) {
            const [taken] = admitted.splice(last, 1)
            yield* buckets.giveBack(key, taken!.cost)
          }
        }
        for (const [from, first] of admitted.entries()) {
          const same = admitted.slice(from).filter(({ key }) => key === first.key)
          const sum = same.reduce((total, { cost }) => total + cost, 0)
          const seconds = (same.at(-1)!.at - first.at) / 1000
          assert.isAtMost(sum, rate.burst + rate.perSecond * seconds + 1e-6)
        }
      })
    )
  )

  it.effect("say after how many seconds a refused caller is admitted", () =>
    forAll(fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 3, maxLength: 20 }), (costs) =>
      Effect.gen(function* () {
        const buckets = bucketsOf(rate)
        for (const cost of costs) {
          const seconds = yield* buckets.take("a", cost)
          if (seconds === 0) continue
          yield* TestClock.adjust((seconds - 1) * 1000 - 1)
          if (seconds > 1) assert.isAbove(yield* buckets.take("a", cost), 0)
          yield* TestClock.adjust(1001)
          assert.strictEqual(yield* buckets.take("a", cost), 0)
        }
      })
    )
  )

  it.effect("of one of several processes admit their part, and at least one at once", () =>
    Effect.gen(function* () {
      const half = bucketsOfPart({ perSecond: 2, burst: 4 }, 2)
      assert.deepStrictEqual(yield* Effect.replicateEffect(half.take("a"), 3), [0, 0, 1])
      // What costs more than a full bucket takes a full one.
      assert.deepStrictEqual([yield* half.take("b", 4), yield* half.take("b")], [0, 1])
      const small = bucketsOfPart({ perSecond: 1, burst: 2 }, 4)
      assert.deepStrictEqual(yield* Effect.replicateEffect(small.take("a"), 2), [0, 4])
      // A limit of which one is full is divided, too.
      const whole = bucketsOfPart({ perSecond: 1 / 60, burst: 1 }, 2)
      assert.deepStrictEqual(yield* Effect.replicateEffect(whole.take("a", 0.5), 2), [0, 60])
    })
  )

  it.effect("never exceed their number, and keep limiting a caller who continues during a flood of others", () =>
    Effect.gen(function* () {
      const buckets = bucketsOf(rate, 1000)
      let admitted = 0
      for (let n = 0; n < 20_000; n++) {
        assert.strictEqual(yield* buckets.take(`other ${n}`), 0)
        if (n % 100 === 0 && (yield* buckets.take("a")) === 0) admitted += 1
        assert.isAtMost(buckets.size(), 1000)
      }
      assert.strictEqual(admitted, rate.burst)
    })
  )

  it.effect("are given nothing back that nobody has taken", () =>
    Effect.gen(function* () {
      const buckets = bucketsOf(rate)
      yield* buckets.giveBack("a")
      assert.strictEqual(yield* buckets.take("a", 5), 0)
      assert.strictEqual(yield* buckets.take("a"), 1)
    })
  )

  it.effect("that were charged more than they hold refuse until that is there", () =>
    Effect.gen(function* () {
      const buckets = bucketsOf({ perSecond: 1, burst: 5 })
      yield* buckets.charge("a", 7)
      assert.strictEqual(yield* buckets.take("a"), 3)
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(yield* buckets.take("a"), 0)
      assert.strictEqual(yield* buckets.take("a"), 1)
    })
  )

  it.effect("are forgotten once they have been full", () =>
    Effect.gen(function* () {
      const buckets = bucketsOf(rate, 1000)
      for (let n = 0; n < 400; n++) yield* buckets.take(`key ${n}`)
      yield* TestClock.adjust("3 seconds")
      yield* buckets.take("a")
      yield* TestClock.adjust("3 seconds")
      yield* buckets.take("a")
      assert.isAtMost(buckets.size(), 2)
    })
  )
})

describe("the buckets of one of several processes", () => {
  it.effect("grant its part of rate and burst, and to what costs more than the burst a full bucket", () =>
    Effect.gen(function* () {
      const buckets = bucketsOfPart({ perSecond: 2, burst: 6 }, 2)
      assert.strictEqual(yield* buckets.take("a", 6), 0)
      assert.strictEqual(yield* buckets.take("a"), 1)
      assert.strictEqual(yield* buckets.take("b", 2), 0)
      assert.strictEqual(yield* buckets.take("b", 6), 2)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* buckets.take("b", 6), 0)
    })
  )

  it.effect("hold one token at least, and a part of one if the whole limit is one", () =>
    Effect.gen(function* () {
      const few = bucketsOfPart({ perSecond: 2, burst: 2 }, 4)
      assert.deepStrictEqual([yield* few.take("a"), yield* few.take("a")], [0, 2])
      const one = bucketsOfPart({ perSecond: 1, burst: 1 }, 4)
      assert.deepStrictEqual([yield* one.take("a", 0.25), yield* one.take("a", 0.25)], [0, 1])
    })
  )

  it.effect(
    "are those of the whole limit if it is the only one: what costs more than the burst is never admitted",
    () =>
      Effect.gen(function* () {
        const whole = bucketsOfPart(rate, 1)
        assert.isAbove(yield* whole.take("a", 6), 0)
        assert.strictEqual(yield* whole.take("a", 5), 0)
      })
  )
})

describe("several buckets", () => {
  it.effect("are taken from together: what one refuses takes nothing from the others", () =>
    Effect.gen(function* () {
      const own = bucketsOf({ perSecond: 1, burst: 10 })
      const shared = bucketsOf({ perSecond: 1, burst: 5 })
      const take = (cost: number) =>
        takeAll([
          [own, "a", cost],
          [shared, "all", cost]
        ])
      assert.strictEqual(yield* take(4), 0)
      // Six are left of one bucket, and one of the other.
      assert.deepStrictEqual(
        yield* Effect.replicateEffect(take(9), 100),
        Array.from({ length: 100 }, () => 3)
      )
      assert.deepStrictEqual(
        yield* Effect.replicateEffect(take(4), 100),
        Array.from({ length: 100 }, () => 3)
      )
      assert.deepStrictEqual([yield* own.take("a", 6), yield* own.take("a")], [0, 1])
      assert.deepStrictEqual([yield* shared.take("all"), yield* shared.take("all")], [0, 1])
    })
  )
})

describe("the limit of projects", () => {
  it.effect("lets one project token take half of it, and two of them all", () =>
    Effect.gen(function* () {
      const drawsOf = projectsWith(bucketsOf)({ perSecond: 4, burst: 10 })
      const admitted = (subject: string, project_id = "p") =>
        Effect.map(
          Effect.replicateEffect(takeAll(drawsOf({ project_id, subject })), 20),
          (waits) => waits.filter((seconds) => seconds === 0).length
        )
      const ofEach = Effect.forEach(["a", "b", "c"], (subject) => admitted(subject))
      assert.deepStrictEqual(yield* ofEach, [5, 5, 0])
      assert.strictEqual(yield* admitted("d", "q"), 5)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* ofEach, [2, 2, 0])
    })
  )
})

describe("the limit of networks", () => {
  const network = (n: number, site = 7) => `2001:db8:${site}:${n.toString(16)}::/64`
  const admitted = (keys: ReadonlyArray<string>, limit: { readonly take: (key: string) => Effect.Effect<number> }) =>
    Effect.map(Effect.forEach(keys, limit.take), (waits) => waits.filter((seconds) => seconds === 0).length)
  const many = (length: number, of: (n: number) => string) => Array.from({ length }, (_, n) => of(n))

  it.effect("lets the networks of one IPv6 site take eight times as much together as one of them", () =>
    Effect.gen(function* () {
      const limit = networksWith(bucketsOf)(rate)
      // What one network is refused takes nothing from its neighbours.
      assert.strictEqual(
        yield* admitted(
          many(100, () => network(0)),
          limit
        ),
        5
      )
      assert.strictEqual(yield* admitted(many(100, network), limit), 35)
      yield* limit.giveBack(network(0))
      assert.strictEqual(
        yield* admitted(
          many(5, () => network(99)),
          limit
        ),
        1
      )
      // What the site is refused takes nothing from a network.
      yield* TestClock.adjust("1 second")
      assert.strictEqual(
        yield* admitted(
          many(9, () => network(99)),
          limit
        ),
        5
      )
      assert.strictEqual(
        yield* admitted(
          many(9, () => network(1, 8)),
          limit
        ),
        5
      )
      assert.strictEqual(
        yield* admitted(
          many(9, () => "192.0.2.1"),
          limit
        ),
        5
      )
    })
  )
})

describe("a map of recent entries", () => {
  it("keeps an entry for its period, and forgets it within two", () => {
    const map = recent<number>(1000, 100)
    map.set("a", 1, 0)
    map.set("b", 2, 100)
    assert.deepStrictEqual([map.get("a"), map.get("b")], [1, 2])
    map.set("b", 3, 199)
    map.set("b", 4, 200)
    assert.deepStrictEqual([map.get("a"), map.get("b")], [undefined, 4])
    map.delete("b")
    assert.deepStrictEqual([map.get("b"), map.size()], [undefined, 0])
  })

  it("keeps at least half of its capacity, the newest entries", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), (count) => {
        const map = recent<number>(20, 1000)
        for (let n = 0; n < count; n++) map.set(String(n), n, n)
        assert.isAtMost(map.size(), 20)
        for (let n = Math.max(0, count - 10); n < count; n++) assert.strictEqual(map.get(String(n)), n)
      })
    )
  })
})

describe("a client counts", () => {
  const cases = [
    ["203.0.113.7", "203.0.113.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["2001:0db8:0000:0000:ffff::", "2001:db8:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["64:ff9b::192.0.2.1", "64:ff9b:0:0::/64"],
    ["64::ffff:192.0.2.1", "64:0:0:0::/64"],
    ["::192.0.2.1", "0:0:0:0::/64"],
    ["::ffff:192.0.2.1", "192.0.2.1"],
    ["::FFFF:c000:201", "192.0.2.1"],
    ["0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"]
  ] as const
  it.each(cases)("at %s as %s", (address, network) => {
    assert.strictEqual(networkOf(address), network)
  })
})
