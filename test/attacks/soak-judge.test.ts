/** The judge of `npm run chaos soak` is seen to fire: each fact that it looks at, once as it should be and once not. */
import { assert, describe, it } from "@effect/vitest"
import type { Exchange } from "./chaos/parts/Load.ts"
import {
  amiss,
  grown,
  growths,
  type Look,
  mostGrowth,
  type Ring,
  slowed,
  timesOf,
  undocumented,
  unexplained,
  type Window
} from "./chaos/parts/soak/Judge.ts"

const documented = new Set(["stale_version", "rate_limited"])
const window = (given: Partial<Window> = {}): Window => ({
  why: "failover",
  from: 1000,
  to: 2000,
  calm: 3000,
  explains: ["503 bridge_persistence_error", "no answer"],
  ...given
})
const exchange = (at: number, outcome = "200", millis = 10): Exchange => ({ kind: "read", at, millis, outcome })

describe("answers", () => {
  const isUnexplained = (one: Exchange) => unexplained([one], [window()], documented).length > 0

  it("in a fault are explained by it", () => {
    assert.isFalse(isUnexplained(exchange(1500, "503 bridge_persistence_error")))
    assert.isFalse(isUnexplained(exchange(1500, "no answer")))
    assert.isFalse(isUnexplained(exchange(1500, "409 stale_version")))
    assert.isFalse(isUnexplained(exchange(995, "no answer", 10)), "begun before it")
  })
  it("outside of a fault are not", () => {
    assert.isTrue(isUnexplained(exchange(2000, "503 bridge_persistence_error")))
    assert.isTrue(isUnexplained(exchange(900, "no answer", 100)))
    assert.isTrue(isUnexplained(exchange(2000, "409 stale_version")))
    assert.isFalse(isUnexplained(exchange(2000, "201")))
  })
  it("in a fault are not, if nothing documents them or they lack Retry-After", () => {
    for (const outcome of [
      "500 internal_error",
      "503 bridge_persistence_error without Retry-After",
      "409 unheard_of",
      "404"
    ])
      assert.isTrue(isUnexplained(exchange(1500, outcome)), outcome)
  })
  it("of a kind are one violation", () => {
    const found = unexplained([exchange(5000, "404"), exchange(6000, "404"), exchange(1, "500")], [], documented)
    assert.deepStrictEqual(found, [
      "2 answers that no fault explains: read: 404, the first after 5 s",
      "1 answers that no fault explains: read: 500, the first after 0 s"
    ])
  })
  it("to another process are documented codes, numbers of JSON-RPC, or pages", () => {
    const outcomes = ["ok", "no answer", "429", "400 -32700", "429 rate_limited", "429 rate_limited", "418 teapot"]
    assert.deepStrictEqual(undocumented(outcomes, documented), ["418 teapot"])
  })
})

describe("times", () => {
  const span = { from: 0, to: 600_000 }
  /** 400 requests in each sixth, every tenth of them slow. */
  const exchanges = (millisOf: (sixth: number, n: number) => number) =>
    Array.from({ length: 2400 }, (_, n) => exchange(n * 250, "200", millisOf(Math.floor(n / 400), n)))

  it("that are level pass, also if the first sixth was slower", () => {
    const table = timesOf(
      exchanges((sixth, n) => (sixth === 0 ? 100 : 20 + (n % 10))),
      span,
      []
    )
    assert.deepStrictEqual(slowed(table), [])
    assert.deepStrictEqual(table.get("read")!.sixths[1], { requests: 400, p50: 24, p99: 29 })
  })
  it("that rise in the last third do not", () => {
    const rises = exchanges((sixth) => (sixth > 3 ? 40 : 20))
    assert.lengthOf(slowed(timesOf(rises, span, [])), 2)
    const slowest = exchanges((sixth, n) => (sixth > 3 && n % 50 === 0 ? 500 : 20))
    assert.deepStrictEqual(slowed(timesOf(slowest, span, [])), [
      "read: p99 rose from 20 ms in the 2nd and 3rd sixth to 500 ms in the last two"
    ])
  })
  it("are compared with those of sixths that had the same faults", () => {
    const lostNodes = exchanges((sixth, n) => (sixth % 3 === 2 && n % 50 === 0 ? 500 : 20))
    assert.deepStrictEqual(slowed(timesOf(lostNodes, span, [])), [])
  })
  it("during a fault, and until it has healed, are not counted", () => {
    const rises = exchanges((sixth) => (sixth === 5 ? 40 : 20))
    const last = window({ from: 490_000, to: 500_000, calm: 600_000 })
    assert.deepStrictEqual(slowed(timesOf(rises, span, [last])), [])
  })
})

describe("memory and files", () => {
  const looks = (given: Partial<Look> & { readonly gain?: number }, minutes = [...Array(60).keys()]): Array<Look> =>
    minutes.map((n) => ({
      process: "worker",
      pid: 1,
      minute: n + 1,
      mib: 200 + (n % 3) + (given.gain ?? 0) * n,
      files: 40,
      ...given
    }))

  it("that are level pass, also if they rose in the first third", () => {
    const early = looks({}).map((look) => ({ ...look, mib: look.mib - Math.max(0, 20 - look.minute) * 5 }))
    assert.deepStrictEqual(grown(growths(early, 60)), [])
  })
  it("that grow do not", () => {
    assert.lengthOf(grown(growths(looks({ gain: mostGrowth.mib + 0.1 }), 60)), 1)
    const opened = looks({}).map((look) => ({ ...look, files: look.minute }))
    assert.deepStrictEqual(grown(growths(opened, 60)), ["worker (1) gains 1 open files a minute"])
  })
  it("are those of processes that lived through the last two thirds", () => {
    const replaced = looks({ gain: 5 }, [...Array(40).keys()])
    assert.deepStrictEqual(
      growths([...looks({ pid: 2 }), ...replaced], 60).map(({ process }) => process),
      ["worker (2)"]
    )
  })
})

describe("rings", () => {
  const ring = (given: Partial<Ring> = {}): Ring => ({
    delivery_id: "d",
    device_id: "phone",
    subject: "task",
    state: "delivered",
    attempts: 1,
    last_status: null,
    replaced: false,
    ...given
  })
  const judge = (rings: ReadonlyArray<Ring>, times: ReadonlyArray<number> = [1500], windows = [window()]) =>
    amiss(new Set(["task"]), ["phone"], rings, new Map(times.length > 0 ? [["d", times]] : []), windows)

  it("that came once pass, and twice if a fault came between", () => {
    assert.deepStrictEqual(judge([ring()]), [])
    assert.deepStrictEqual(judge([ring()], [900, 1100]), [])
    assert.deepStrictEqual(judge([ring()], [2100, 2200]), ["1 rings came twice although nothing was interrupted"])
  })
  it("that are missing, doubled or delivered to nobody do not", () => {
    assert.deepStrictEqual(judge([]), ["1 of 1 rings have no row"])
    assert.deepStrictEqual(judge([ring(), ring()]), ["1 rings have two rows"])
    assert.deepStrictEqual(judge([ring()], []), ["1 delivered rings reached nobody"])
  })
  it("are dead after eight attempts or by an answer that ends them", () => {
    const dead = (given: Partial<Ring>) => judge([ring({ state: "dead", ...given })], [])
    assert.deepStrictEqual(dead({ attempts: 8, last_status: 500 }), [])
    assert.deepStrictEqual(dead({ last_status: 400 }), [])
    for (const last_status of [500, 429, 410, null])
      assert.deepStrictEqual(dead({ last_status, attempts: 7 }), ["1 rings are dead without a reason"])
  })
  it("give way to newer ones, and end in no other state", () => {
    assert.deepStrictEqual(judge([ring({ state: "superseded", replaced: true })], []), [])
    assert.deepStrictEqual(judge([ring({ state: "superseded" })], []), ["1 rings gave way to nothing"])
    assert.deepStrictEqual(judge([ring({ state: "expired" })], []), ["1 rings ended as expired"])
  })
})
