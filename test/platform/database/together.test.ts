/** Which lookups share a statement, and what they learn from it (decisions.md, Lookups that share a statement). */
import { afterEach, assert, beforeEach, describe, it, vi } from "@effect/vitest"
import { ConfigProvider, Context, Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { CurrentShare, Shares } from "../../../src/platform/database/Shares.ts"
import { together } from "../../../src/platform/database/Together.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { forAll } from "../../support/run/Property.ts"
import { environment } from "../../support/service/Service.ts"

interface Sent {
  readonly inputs: ReadonlyArray<number>
  readonly isShared: boolean
  readonly answer: (exit?: Exit.Exit<ReadonlyArray<string>, string>) => Effect.Effect<void>
}

/** Lookups whose statements answer when the test lets them. */
const database = Effect.fnUntraced(function* (lookups: "on" | "off" = "on", writes = false, repeatable = !writes) {
  const sent: Array<Sent> = []
  const send = (inputs: ReadonlyArray<number>, isShared: boolean) =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<ReadonlyArray<string>, string>()
      const answers = inputs.map((input) => `of ${input}`)
      sent.push({ inputs, isShared, answer: (exit = Exit.succeed(answers)) => settled(Deferred.done(gate, exit)) })
      return yield* Deferred.await(gate)
    })
  const find = yield* together<number, string, string>(
    {
      one: (input) => Effect.map(send([input], false), ([only]) => only!),
      // On a connection that went silent a statement does not end when it is interrupted.
      each: (inputs) => Effect.uninterruptible(send(inputs, true))
    },
    { writes, repeatable }
  ).pipe(Effect.provide(settings(lookups)))
  const begin = (input: number) => settled(Effect.forkChild(find(input)))
  const inputs = () => sent.map((statement) => statement.inputs)
  return { begin, find, inputs, sent }
})

const settings = (lookups: "on" | "off") =>
  Settings.layer.pipe(
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SERVICE_SHARED_LOOKUPS: lookups })))
  )

/** Lets every fiber run as far as it can. */
const settled = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.tap(effect, () => Effect.promise(() => new Promise<void>((resume) => setImmediate(resume))))

const passes = (millis: number) =>
  settled(
    Effect.andThen(
      TestClock.adjust(millis),
      Effect.sync(() => vi.advanceTimersByTime(millis))
    )
  )

beforeEach(() => void vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] }))
afterEach(() => void vi.useRealTimers())

const through = (count: number, first = 1) => Array.from({ length: count }, (_, index) => first + index)

describe("lookups", () => {
  it.effect("one after the other have statements of their own", () =>
    Effect.gen(function* () {
      const { begin, sent } = yield* database()
      for (const input of [1, 2, 3]) {
        const lookup = yield* begin(input)
        yield* sent.at(-1)!.answer()
        assert.strictEqual(yield* Fiber.join(lookup), `of ${input}`)
      }
      assert.deepStrictEqual(
        sent.map(({ isShared }) => isShared),
        [false, false, false]
      )
    })
  )

  it.effect("that arrive while a statement is under way share the next, in their order, 64 at most", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database()
      const lookups = yield* Effect.forEach(through(80), begin)
      assert.deepStrictEqual(inputs(), [[1]])
      yield* sent[0]!.answer()
      assert.deepStrictEqual(inputs(), [[1], through(64, 2)])
      yield* sent[1]!.answer()
      yield* sent[2]!.answer()
      assert.deepStrictEqual(inputs()[2], through(15, 66))
      assert.deepStrictEqual(
        yield* Effect.forEach(lookups, Fiber.join),
        through(80).map((input) => `of ${input}`)
      )
    })
  )

  it.effect("have statements of their own after the shared one failed, and only one of them fails", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database()
      const lookups = yield* Effect.forEach([1, 2, 3], begin)
      yield* sent[0]!.answer()
      yield* sent[1]!.answer(Exit.die(new Error("a row that cannot be decoded")))
      assert.deepStrictEqual(inputs(), [[1], [2, 3], [2], [3]])
      yield* sent[2]!.answer(Exit.fail("refused"))
      yield* sent[3]!.answer()
      assert.deepStrictEqual(yield* Effect.forEach(lookups, Fiber.await), [
        Exit.succeed("of 1"),
        Exit.fail("refused"),
        Exit.succeed("of 3")
      ])
    })
  )

  it.effect("that write are not repeated after the shared statement failed", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database("on", true)
      const lookups = yield* Effect.forEach([1, 2, 3], begin)
      yield* sent[0]!.answer()
      yield* sent[1]!.answer(Exit.fail("no connection"))
      assert.deepStrictEqual(inputs(), [[1], [2, 3]])
      assert.deepStrictEqual(yield* Effect.forEach(lookups, Fiber.await), [
        Exit.succeed("of 1"),
        Exit.fail("no connection"),
        Exit.fail("no connection")
      ])
    })
  )

  it.effect("that write and may be repeated run alone after the shared statement failed", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database("on", true, true)
      const [, ...sharing] = yield* Effect.forEach([1, 2, 3], begin)
      yield* sent[0]!.answer()
      yield* sent[1]!.answer(Exit.fail("one row is wrong"))
      assert.deepStrictEqual(inputs(), [[1], [2, 3], [2], [3]])
      yield* sent[2]!.answer(Exit.fail("it is mine"))
      yield* sent[3]!.answer()
      assert.deepStrictEqual(yield* Effect.forEach(sharing, Fiber.await), [
        Exit.fail("it is mine"),
        Exit.succeed("of 3")
      ])
    })
  )

  it.effect("that write wait for a shared statement that takes long, and others go on without them", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database("on", true)
      const lookups = yield* Effect.forEach([1, 2, 3], begin)
      yield* sent[0]!.answer()
      yield* passes(2000)
      const late = yield* begin(4)
      assert.deepStrictEqual(inputs(), [[1], [2, 3], [4]])
      yield* sent[2]!.answer()
      assert.strictEqual(yield* Fiber.join(late), "of 4")
      yield* sent[1]!.answer()
      assert.deepStrictEqual(yield* Effect.forEach(lookups, Fiber.join), ["of 1", "of 2", "of 3"])
    })
  )

  it.effect("that write do not keep a connection that went silent", () =>
    Effect.gen(function* () {
      let isHeld = false
      const hold = Effect.acquireUseRelease(
        Effect.sync(() => void (isHeld = true)),
        () => Effect.never,
        () => Effect.sync(() => void (isHeld = false))
      )
      const gate = yield* Deferred.make<string>()
      const find = yield* together<number, string, never>(
        { one: () => Deferred.await(gate), each: () => hold },
        { writes: true, repeatable: false }
      ).pipe(Effect.provide(settings("on")))
      yield* Effect.forEach([1, 2, 3], (input) => settled(Effect.forkChild(find(input))))
      yield* settled(Deferred.succeed(gate, "of 1"))
      yield* passes(9999)
      assert.isTrue(isHeld)
      yield* passes(1)
      assert.isFalse(isHeld)
    })
  )

  it.effect("that are interrupted do not disturb the others", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database()
      const [alone, sharing, shares, ...waiting] = yield* Effect.forEach([1, 2, 3], begin)
      yield* settled(Fiber.interrupt(alone!))
      assert.deepStrictEqual(inputs(), [[1], [2, 3]])
      const late = yield* Effect.forEach([4, 5], begin)
      yield* Fiber.interrupt(sharing!)
      yield* Fiber.interrupt(late[0]!)
      yield* sent[1]!.answer()
      yield* sent[2]!.answer()
      assert.deepStrictEqual(inputs(), [[1], [2, 3], [5]])
      assert.strictEqual(yield* Fiber.join(shares!), "of 3")
      assert.strictEqual(yield* Fiber.join(late[1]!), "of 5")
      assert.deepStrictEqual(waiting, [])
    })
  )

  it.effect("do not wait for a slow statement: a second one runs beside it, but no third", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database()
      const lookups = yield* Effect.forEach([1, 2, 3], begin)
      yield* passes(49)
      assert.deepStrictEqual(inputs(), [[1]])
      yield* passes(1)
      lookups.push(yield* begin(4))
      yield* passes(500)
      assert.deepStrictEqual(inputs(), [[1], [2, 3]])
      yield* sent[1]!.answer()
      yield* sent[2]!.answer()
      lookups.push(yield* begin(5))
      yield* sent[3]!.answer()
      yield* sent[0]!.answer()
      assert.deepStrictEqual(inputs(), [[1], [2, 3], [4], [5]])
      assert.deepStrictEqual(yield* Effect.forEach(lookups, Fiber.join), ["of 1", "of 2", "of 3", "of 4", "of 5"])
    })
  )

  it.effect("give up a shared statement after a second, and none waits for statements that are lost", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database()
      const lookups = yield* Effect.forEach([1, 2, 3], begin)
      yield* passes(100)
      assert.deepStrictEqual(inputs(), [[1], [2, 3]])
      yield* passes(1000)
      assert.deepStrictEqual(inputs(), [[1], [2, 3], [2], [3]])
      // The first statement is still under way, and counts no longer.
      lookups.push(yield* begin(4))
      yield* Effect.forEach([0, 1, 2, 3, 4], (at) => sent[at]!.answer())
      assert.deepStrictEqual(yield* Effect.forEach(lookups, Fiber.join), ["of 1", "of 2", "of 3", "of 4"])
    })
  )

  it.effect("never share a statement with SERVICE_SHARED_LOOKUPS=off", () =>
    Effect.gen(function* () {
      const { begin, inputs, sent } = yield* database("off")
      const lookups = yield* Effect.forEach([1, 2, 3], begin)
      assert.deepStrictEqual(inputs(), [[1], [2], [3]])
      yield* Effect.forEach(sent, ({ answer }) => answer())
      assert.deepStrictEqual(yield* Effect.forEach(lookups, Fiber.join), ["of 1", "of 2", "of 3"])
    })
  )

  it.effect("of callers that are not known hold up no known caller, however many they are", () =>
    Effect.gen(function* () {
      const shares = Context.get(yield* Layer.build(Shares.layer.pipe(Layer.provide(settings("on")))), Shares)
      const { find, inputs, sent } = yield* database()
      const begin = (input: number, share: (typeof CurrentShare)["Service"]) =>
        settled(Effect.forkChild(Effect.provideService(find(input), CurrentShare, share)))
      const unknown = yield* Effect.forEach(through(500), (input) => begin(input, shares.unknown(`network ${input}`)))
      const known = yield* begin(501, shares.known("a Bridge"))
      yield* sent[0]!.answer()
      assert.deepStrictEqual(inputs(), [[1], [...through(31, 2), 501]])
      yield* sent[1]!.answer()
      assert.strictEqual(yield* Fiber.join(known), "of 501")
      yield* Fiber.interruptAll(unknown)
    })
  )
})

const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.constant({ do: "begin" as const }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant("answer" as const), which: fc.nat(3) }) },
    { weight: 3, arbitrary: fc.constant({ do: "change" as const }) },
    fc.record({ do: fc.constantFrom("fail" as const, "interrupt" as const), which: fc.nat(3) }),
    fc.record({ do: fc.constant("wait" as const), millis: fc.constantFrom(1, 50, 1000) })
  ),
  { maxLength: 60, size: "max" }
)

describe("a lookup", () => {
  it.effect("learns nothing that is older than itself, and ends, whatever happens to the statements", () =>
    forAll(steps, (all) =>
      Effect.gen(function* () {
        const { begin, sent } = yield* database()
        // An input is the version of the data when its lookup began; a statement reads the version when it is sent.
        let version = 0
        const read: Array<number> = []
        const lookups: Array<{ readonly since: number; readonly fiber: Fiber.Fiber<string, string> }> = []
        const note = () => {
          while (read.length < sent.length) read.push(version)
        }
        const answer = (at: number, exit?: Exit.Exit<never, string>) => {
          const { answer, inputs } = sent[at]!
          return answer(exit ?? Exit.succeed(inputs.map(() => String(read[at]))))
        }
        for (const step of all) {
          if (step.do === "begin") lookups.push({ since: version, fiber: yield* begin(version) })
          else if (step.do === "change") version++
          else if (step.do === "wait") yield* passes(step.millis)
          else if (step.do === "interrupt") {
            const lookup = lookups[step.which % Math.max(1, lookups.length)]
            if (lookup !== undefined) yield* settled(Fiber.interrupt(lookup.fiber))
          } else if (sent.length > 0) {
            yield* answer(
              Math.max(0, sent.length - 1 - step.which),
              step.do === "fail" ? Exit.fail("refused") : undefined
            )
          }
          note()
        }
        for (let at = 0; at < sent.length; at++) {
          note()
          yield* answer(at)
        }
        for (const { fiber, since } of lookups) {
          const exit = yield* Fiber.await(fiber)
          if (Exit.isSuccess(exit)) assert.isAtLeast(Number(exit.value), since)
        }
        // Nothing is left under way: the next lookup is alone again.
        yield* begin(-1)
        assert.deepStrictEqual(sent.at(-1)!.inputs, [-1])
      })
    )
  )
})
