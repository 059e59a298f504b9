/** How owners share the connections (decisions.md, Shares of the connections). */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import * as fc from "fast-check"
import { type Share, Shares, turns } from "../../../src/platform/database/Shares.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { forAll } from "../../support/run/Property.ts"

const steps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("start" as const), owner: fc.constantFrom("a", "b", "c") }),
    fc.record({ do: fc.constantFrom("finish" as const, "interrupt" as const), which: fc.nat(30) })
  ),
  { maxLength: 60 }
)

describe("of the connections, the lookups and the changes", () => {
  const table: ReadonlyArray<readonly [number, "known" | "unknown", keyof Share, one: number, all: number]> = [
    [1, "unknown", "connection", 1, 1],
    [1, "known", "connection", 1, 1],
    [8, "unknown", "connection", 1, 2],
    [8, "known", "connection", 3, 6],
    [8, "unknown", "lookup", 16, 32],
    [8, "known", "lookup", 48, 96],
    [8, "known", "change", 48, 96]
  ]
  it.effect.each(table)(
    "with a pool of %i, %s callers have of each %s: one %i, all %i",
    ([poolSize, kind, of, one, all]) =>
      Effect.gen(function* () {
        const settings = Layer.succeed(Settings, { database: { poolSize } } as Settings["Service"])
        const shares = yield* Effect.provide(Shares, Shares.layer.pipe(Layer.provide(settings)))
        const running = { one: 0, all: 0 }
        const start = (owner: string) =>
          Effect.replicateEffect(
            Effect.forkChild(
              shares[kind](owner)[of](
                Effect.suspend(() => {
                  if (owner === "one") running.one++
                  running.all++
                  return Effect.never
                })
              ),
              { startImmediately: true }
            ),
            100
          )
        yield* start("one")
        yield* start("other")
        // The other places are their own.
        const others = (["connection", "lookup", "change"] as const).filter((other) => other !== of)
        for (const other of others) yield* shares[kind]("one")[other](Effect.void)
        assert.deepStrictEqual(running, { one, all })
      })
  )
})

describe("turns", () => {
  it.effect("are never more than all, or than most of one owner, and none is left unused or lost", () =>
    forAll(steps, (all) =>
      Effect.gen(function* () {
        const running: Record<string, number> = { a: 0, b: 0, c: 0 }
        const share = turns(4, 2)
        const operations: Array<{
          readonly owner: string
          readonly end: Deferred.Deferred<void>
          readonly fiber: Fiber.Fiber<void>
          ended: boolean
        }> = []
        for (const step of all) {
          if (step.do === "start") {
            const { owner } = step
            const end = yield* Deferred.make<void>()
            const operation = Effect.acquireUseRelease(
              Effect.sync(() => running[owner]!++),
              () => Deferred.await(end),
              () => Effect.sync(() => running[owner]!--)
            )
            operations.push({ owner, end, fiber: yield* Effect.forkChild(share(owner)(operation)), ended: false })
          } else {
            const operation = operations[step.which % Math.max(1, operations.length)]
            if (operation === undefined) continue
            operation.ended = true
            if (step.do === "finish") yield* Deferred.succeed(operation.end, undefined)
            else yield* Fiber.interrupt(operation.fiber)
          }
          yield* Effect.yieldNow
          yield* Effect.promise(() => new Promise<void>((resume) => setImmediate(resume)))
          const counts = Object.values(running)
          const wanted = ["a", "b", "c"].map(
            (owner) => operations.filter((operation) => operation.owner === owner && !operation.ended).length
          )
          const possible = wanted.reduce((sum, count) => sum + Math.min(2, count), 0)
          assert.isAtMost(Math.max(...counts), 2)
          assert.strictEqual(
            counts.reduce((sum, count) => sum + count, 0),
            Math.min(4, possible)
          )
        }
        for (const { end, fiber } of operations) {
          yield* Deferred.succeed(end, undefined)
          yield* Fiber.await(fiber)
        }
        assert.deepStrictEqual(running, { a: 0, b: 0, c: 0 })
      })
    )
  )

  it.effect("go around between the owners that wait, however many operations one of them has", () =>
    Effect.gen(function* () {
      const share = turns(1, 1)
      const order: Array<string> = []
      const gate = yield* Deferred.make<void>()
      const first = yield* Effect.forkChild(share("hostile")(Deferred.await(gate)))
      yield* Effect.yieldNow
      const one = (owner: string) => Effect.forkChild(share(owner)(Effect.sync(() => order.push(owner))))
      const waiting = yield* Effect.forEach(["hostile", "hostile", "hostile", "honest", "other"], one)
      yield* Effect.yieldNow
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.forEach([first, ...waiting], (fiber) => Fiber.join<unknown, never>(fiber))
      assert.deepStrictEqual(order, ["honest", "other", "hostile", "hostile", "hostile"])
    })
  )
})
