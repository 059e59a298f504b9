/** Turns of tool calls (decisions.md, Budgets of a project): who is slowed down, and who is not. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { CallBudget } from "../../../../src/agents/mcp/calls/CallBudget.ts"
import * as Turns from "../../../../src/agents/mcp/calls/Turns.ts"
import { RateLimit } from "../../../../src/platform/edge/limits/RateLimit.ts"
import { Database } from "../../../../src/platform/database/Database.ts"
import { refuse } from "../../../../src/wire/Errors.ts"
import { Settings } from "../../../../src/platform/settings/Settings.ts"

const maxima = { calls: 4, searches: 2 }
const never = Number.POSITIVE_INFINITY
const refused = Effect.fail("refused")

const players = (turns: ReturnType<typeof Turns.make>) => {
  let running = 0
  let most = 0
  /** Runs as many calls as given at once, each of so many milliseconds, and returns how many ran at the same time. */
  const play = (
    project: string,
    calls: number,
    milliseconds: number,
    outcome: Effect.Effect<void, unknown> = Effect.void
  ) =>
    Effect.gen(function* () {
      most = 0
      const call = Effect.acquireUseRelease(
        Effect.sync(() => (most = Math.max(most, (running += 1)))),
        () => Effect.andThen(Effect.sleep(milliseconds), outcome),
        () => Effect.sync(() => (running -= 1))
      )
      const one = turns.visit(project, "me", maxima, (visit) => turns.callsOf(visit, maxima, never)(call, refused))
      const fiber = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: calls }), () => Effect.ignore(one), { concurrency: calls })
      )
      let took = 0
      for (; fiber.pollUnsafe() === undefined; took += 10) yield* TestClock.adjust(10)
      yield* Fiber.join(fiber)
      return { most, took }
    })
  return play
}

it.effect(
  "a project takes its turns at once until its calls have taken three seconds, then one by one with rests",
  () =>
    Effect.gen(function* () {
      const play = players(Turns.make({ measured: true }))
      assert.deepStrictEqual(yield* play("heavy", 8, 300), { most: 4, took: 600 })
      assert.strictEqual((yield* play("heavy", 4, 300)).most, 4)
      const slowed = yield* play("heavy", 4, 100)
      assert.strictEqual(slowed.most, 1)
      // Four calls, and a rest of twice their time between them.
      assert.isAtLeast(slowed.took, 4 * 100 + 3 * 200)
    })
)

it.effect("a project that is slowed down stays so while it goes on, though its turns take less than others may", () =>
  Effect.gen(function* () {
    const play = players(Turns.make({ measured: true }))
    yield* play("heavy", 16, 500)
    for (let round = 0; round < 5; round += 1) yield* play("heavy", 8, 500)
    assert.strictEqual((yield* play("heavy", 4, 100)).most, 1)
  })
)

it.effect("two calls that a stall of a second has caught slow nobody down", () =>
  Effect.gen(function* () {
    const play = players(Turns.make({ measured: true }))
    yield* play("innocent", 2, 1400)
    assert.strictEqual((yield* play("innocent", 4, 10)).most, 4)
  })
)

it.effect("only the project with the most time is slowed down", () =>
  Effect.gen(function* () {
    const play = players(Turns.make({ measured: true }))
    for (let round = 0; round < 4; round += 1) yield* play("heavy", 8, 1000)
    for (let round = 0; round < 2; round += 1) yield* play("light", 8, 500)
    assert.strictEqual((yield* play("light", 8, 100)).most, 4)
    assert.strictEqual((yield* play("heavy", 4, 100)).most, 1)
  })
)

it.effect("a project that has rested takes its turns at once again", () =>
  Effect.gen(function* () {
    const turns = Turns.make({ measured: true })
    const play = players(turns)
    // Thirty seconds of forty are remembered, and nobody rests for longer than ten.
    yield* play("heavy", 2, 20_000)
    const slowed = yield* play("heavy", 2, 100)
    assert.strictEqual(slowed.most, 1)
    assert.isBelow(slowed.took, 11_000)
    yield* TestClock.adjust("2 minutes")
    assert.strictEqual((yield* play("heavy", 4, 100)).most, 4)
    const now = yield* turns.visit("heavy", "you", maxima, ({ project: { callers, present, restsUntil } }) =>
      Effect.sync(() => [restsUntil, present, [...callers.keys()]])
    )
    assert.deepStrictEqual(now, [0, 1, ["you"]])
    // A longer rest earns nothing more.
    yield* TestClock.adjust("10 minutes")
    yield* play("heavy", 12, 300)
    assert.strictEqual((yield* play("heavy", 4, 100)).most, 1)
  })
)

it.effect("what calls took before another database server answered is forgotten", () =>
  Effect.gen(function* () {
    let server: string | undefined = "first"
    const turns = Turns.make({ measured: true, server: () => server })
    const play = players(turns)
    yield* play("heavy", 8, 5000)
    server = undefined
    assert.strictEqual((yield* play("heavy", 4, 100)).most, 1)
    server = "second"
    assert.strictEqual((yield* play("heavy", 8, 100)).most, 4)

    // A call that began before counts from then on.
    const call = (took: number) =>
      turns.visit("heavy", "me", maxima, (visit) => turns.callsOf(visit, maxima, never)(Effect.sleep(took), refused))
    const waiting = yield* Effect.forkChild(call(5000))
    yield* TestClock.adjust(4990)
    server = "third"
    yield* call(0)
    yield* TestClock.adjust(10)
    yield* Fiber.join(waiting)
    assert.strictEqual((yield* play("heavy", 8, 100)).most, 4)
  })
)

it.effect("for ten seconds after a failover no time counts", () =>
  Effect.gen(function* () {
    let server = "first"
    const play = players(Turns.make({ measured: true, server: () => server }))
    yield* play("busy", 1, 10)
    server = "second"
    yield* play("busy", 4, 9990)
    assert.strictEqual((yield* play("busy", 4, 10)).most, 4)

    // A call that begins meanwhile counts from the end on.
    server = "third"
    yield* play("busy", 1, 10)
    yield* play("busy", 4, 11_000)
    assert.strictEqual((yield* play("busy", 4, 10)).most, 1)
  })
)

it.effect("what calls wait for the database in vain does not count, unless it answers others meanwhile", () =>
  Effect.gen(function* () {
    const play = players(Turns.make({ measured: true }))
    const away = refuse("bridge_persistence_error", 1)
    yield* play("p", 8, 5000, away)
    assert.deepStrictEqual(yield* play("p", 4, 100), { most: 4, took: 100 })

    const busy = yield* Effect.forkChild(play("p", 4, 5000, away))
    yield* TestClock.adjust(4000)
    yield* play("other", 1, 10)
    yield* Fiber.join(busy)
    assert.strictEqual((yield* play("p", 4, 100)).most, 1)
  })
)

it.effect("calls that take no time never slow a project down", () =>
  Effect.gen(function* () {
    const play = players(Turns.make({ measured: true }))
    // One call after another, busy for half of the time.
    for (let round = 0; round < 200; round += 1) {
      yield* play("steady", 1, 100)
      yield* TestClock.adjust(100)
    }
    assert.strictEqual((yield* play("steady", 8, 10)).most, 4)
  })
)

it.effect("a project with calls is not forgotten when more are known than are kept", () =>
  Effect.gen(function* () {
    const turns = Turns.make({ measured: true, most: 2 })
    const one = { calls: 1, searches: 1 }
    const call = (project: string, work: Effect.Effect<void>) =>
      turns.visit(project, "me", one, (visit) => turns.callsOf(visit, one, 0)(work, refused))
    yield* Effect.forkChild(call("a", Effect.never), { startImmediately: true })
    for (const project of ["b", "c", "d"]) yield* call(project, Effect.void)
    assert.strictEqual(yield* Effect.flip(call("a", Effect.void)), "refused")
  })
)

it.effect("without measured time nobody is slowed down", () =>
  Effect.gen(function* () {
    const play = players(Turns.make({ measured: false }))
    for (let round = 0; round < 3; round += 1) yield* play("heavy", 8, 1000)
    assert.strictEqual((yield* play("heavy", 8, 100)).most, 4)
  })
)

it.effect("a call without a turn in time is refused, and takes none", () =>
  Effect.gen(function* () {
    const turns = Turns.make({ measured: true })
    const one = { calls: 1, searches: 1 }
    const call = (until: number, milliseconds: number) =>
      turns.visit("p", "me", one, (visit) => turns.callsOf(visit, one, until)(Effect.sleep(milliseconds), refused))
    const first = yield* Effect.forkChild(call(never, 500))
    yield* TestClock.adjust(1)
    const second = yield* Effect.forkChild(Effect.flip(call(300, 1)))
    yield* TestClock.adjust(300)
    assert.strictEqual(yield* Fiber.join(second), "refused")
    yield* TestClock.adjust(200)
    yield* Fiber.join(first)
    const third = yield* Effect.forkChild(call(never, 1))
    yield* TestClock.adjust(1)
    yield* Fiber.join(third)
  })
)

it.effect("calls count while they run: a project with long calls gets no further ones at once", () =>
  Effect.gen(function* () {
    const turns = Turns.make({ measured: true })
    const visit = <A, E>(work: (visit: Turns.Visit) => Effect.Effect<A, E>) => turns.visit("p", "me", maxima, work)
    const long = visit((found) => turns.callsOf(found, maxima, never)(Effect.sleep(3_000), refused))
    const first = yield* Effect.forkChild(Effect.all([long, long], { concurrency: 2 }))
    yield* TestClock.adjust(2_000)
    // Two turns of four are free, but the project has taken four seconds by now.
    const next = yield* Effect.flip(visit((found) => turns.callsOf(found, maxima, 0)(Effect.void, refused)))
    assert.strictEqual(next, "refused")
    yield* TestClock.adjust(1_000)
    yield* Fiber.join(first)
    assert.strictEqual(yield* visit(({ project }) => Effect.succeed(project.restsUntil)), 3_000 + 2 * 3_000)
  })
)

it.effect("callers of a project have half of its turns each for a minute after one was refused", () =>
  Effect.gen(function* () {
    const turns = Turns.make({ measured: false })
    const running = new Map<string, number>()
    const most = new Map<string, number>()
    const add = (subject: string, difference: number) => {
      const now = (running.get(subject) ?? 0) + difference
      running.set(subject, now)
      most.set(subject, Math.max(most.get(subject) ?? 0, now))
    }
    const calls = (subject: string, kind: "calls" | "searches", count: number, until = never) => {
      const call = Effect.acquireUseRelease(
        Effect.sync(() => add(subject, 1)),
        () => Effect.sleep(100),
        () => Effect.sync(() => add(subject, -1))
      )
      const one = turns.visit("p", subject, maxima, (visit) =>
        kind === "calls"
          ? turns.callsOf(visit, maxima, until)(call, refused)
          : turns.searchesOf(visit, until)(call, refused)
      )
      const all = Effect.forEach(Array.from({ length: count }), () => Effect.ignore(one), { concurrency: count })
      return Effect.forkChild(all, { startImmediately: true })
    }
    const settle = Effect.fnUntraced(function* (...started: ReadonlyArray<ReturnType<typeof calls>>) {
      most.clear()
      const fibers = yield* Effect.all(started)
      while (fibers.some((fiber) => fiber.pollUnsafe() === undefined)) yield* TestClock.adjust(10)
      return Object.fromEntries(most)
    })

    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8), calls("b", "calls", 1)), { a: 4, b: 1 })
    // Everybody had a turn, so nobody has to share.
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8)), { a: 4 })
    // A refusal of whoever has the most calls changes nothing.
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 4), calls("a", "calls", 1, 0)), { a: 4 })
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8)), { a: 4 })
    // Nor does one of whoever has half of them.
    const halves = [calls("a", "calls", 4), calls("b", "calls", 3), calls("b", "calls", 1, 0)]
    assert.deepStrictEqual(yield* settle(...halves), { a: 4, b: 3 })
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8)), { a: 4 })
    // A refusal of the other does.
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8), calls("b", "calls", 1, 0)), { a: 4 })
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8), calls("b", "calls", 8)), { a: 2, b: 2 })
    assert.deepStrictEqual(yield* settle(calls("a", "searches", 4), calls("b", "searches", 4)), { a: 1, b: 1 })
    yield* TestClock.adjust("50 seconds")
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8)), { a: 2 })
    yield* TestClock.adjust("10 seconds")
    assert.deepStrictEqual(yield* settle(calls("a", "calls", 8)), { a: 4 })
  })
)

describe("a call", () => {
  /** Admits calls of a process with so many connections, one of so many; says who runs, in the order of their beginning. */
  const admitting = Effect.fnUntraced(function* (poolSize: number, processes = 1, server = () => "one") {
    const settings = { database: { poolSize }, http: { rateLimits: true }, processes } as Settings["Service"]
    const layer = CallBudget.layer.pipe(
      Layer.provide(RateLimit.layer),
      Layer.provide(Layer.succeed(Database, { server } as Database["Service"])),
      Layer.provide(Layer.succeed(Settings, settings))
    )
    const { admit } = yield* Effect.provide(CallBudget, layer)
    const begun: Array<string> = []
    const start = (project_id: string, subject: string, { lasts = 500, searches = true } = {}) =>
      Effect.forkChild(
        Effect.andThen(
          Effect.sync(() => begun.push(subject)),
          Effect.sleep(lasts)
        ).pipe(
          admit({ project_id, subject, limits: { concurrent_searches: 4 } }, { searches, writes: false }),
          Effect.flip
        ),
        { startImmediately: true }
      )
    return { begun, start }
  })

  it.effect("of a project that is slowed down is told when to try again", () =>
    Effect.gen(function* () {
      const { start } = yield* admitting(10)
      yield* start("p", "me", { searches: false, lasts: 4_000 })
      yield* TestClock.adjust("4 seconds")
      const next = yield* start("p", "me", { searches: false })
      yield* TestClock.adjust("1 second")
      const { details } = yield* Fiber.join(next)
      // Its rest is eight seconds long.
      assert.deepStrictEqual(details, { limit: "concurrent_calls", value: 1, maximum: 1, retry_after: 7 })
    })
  )

  it.effect("of a project whose calls have waited for another database server is not slowed down", () =>
    Effect.gen(function* () {
      let server = "one"
      const { begun, start } = yield* admitting(10, 1, () => server)
      yield* start("p", "me", { searches: false, lasts: 5_000 })
      yield* TestClock.adjust("5 seconds")
      server = "two"
      yield* TestClock.adjust("4 seconds")
      yield* start("p", "first", { searches: false })
      yield* start("p", "second", { searches: false })
      assert.deepStrictEqual(begun, ["me", "first", "second"])
    })
  )

  it.effect("that searches takes one of half the connections, and projects that wait take turns", () =>
    Effect.gen(function* () {
      const { begun, start } = yield* admitting(5)
      for (const subject of ["a1", "a2", "a3", "a4"]) yield* start("a", subject)
      yield* start("b", "b1")
      assert.deepStrictEqual(begun, ["a1", "a2"])
      yield* TestClock.adjust("500 millis")
      assert.sameMembers(begun, ["a1", "a2", "a3", "b1"])
    })
  )

  it.effect("that searches has its project's turns at one of several processes", () =>
    Effect.gen(function* () {
      const { begun, start } = yield* admitting(20, 2)
      for (const subject of ["a1", "a2", "a3", "a4"]) yield* start("a", subject)
      assert.deepStrictEqual(begun, ["a1", "a2"])
    })
  )
})
