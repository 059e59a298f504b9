/** task_wait: one statement a second for everyone who waits (decisions.md, The loop of a decision). */
import { assert, describe, it, layer, vi } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { givesWay, type Turn, Waits } from "../../../src/agents/tasks/Waits.ts"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Draining } from "../../../src/platform/edge/Draining.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { answer, ask, person } from "../../support/agents/Answers.ts"
import { Agent, type Called } from "../../support/agents/McpAgent.ts"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { instance, Service } from "../../support/service/Service.ts"

describe("in a full project", () => {
  const waiting = ["a", "b", "a", "b", "b"].map((subject, place) => ({ subject, place }))

  it.each([
    ["c", 1],
    ["a", 1],
    ["b", undefined]
  ])(
    "whoever waits longest with the token that waits most gives way to a caller with token %s: %s",
    (subject, place) => {
      assert.strictEqual(givesWay(waiting, subject)?.place, place)
    }
  )
})

layer(TestDatabase.sql)("of the places of a project", (it) => {
  const alone = Waits.layer.pipe(
    Layer.provide(Layer.succeed(Draining, { began: Effect.never })),
    Layer.provide(Layer.succeed(Settings, { processes: 1 } as Settings["Service"]))
  )
  /** Waiters of a new project at the only process. `enter` returns a call once it waits, or is refused. */
  const make = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { wait } = yield* Waits
    const [project_id, id] = [randomUUID(), randomUUID()]
    yield* sql`insert into project (project_id, name, created_at) values (${project_id}::uuid, 'Project', now())`
    yield* sql`
      insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
      values (${project_id}::uuid, ${id}::uuid, 'Task', '', 'open', 2, '{}', 1, 'x', now(), now())`
    const enter = Effect.fnUntraced(function* (count: number, subject: string, timeout_seconds = 25) {
      const [all, read] = [yield* Latch.make(), { count: 0 }]
      const turn: Turn = (task) => Effect.tap(task, () => (++read.count === count ? all.open : all.await))
      const call = wait({ project_id, subject }, { id, version: 1, timeout_seconds }, turn)
      const calls = yield* Effect.forEach(Array.from({ length: count }), () => Effect.forkChild(call))
      yield* all.await
      yield* Effect.promise(() => new Promise((done) => setTimeout(done, 10)))
      return calls
    })
    const ended = (calls: Effect.Success<ReturnType<typeof enter>>) =>
      calls.filter((call) => call.pollUnsafe() !== undefined)
    return { enter, ended }
  })

  it.effect("the only process has 64, and one is free whenever a caller leaves", () =>
    Effect.gen(function* () {
      const { ended, enter } = yield* make
      const first = yield* enter(1, "a", 1)
      const others = yield* enter(63, "a")
      assert.lengthOf(ended([...first, ...others]), 0)
      const [refused] = yield* enter(1, "a")
      const { details } = (yield* Effect.flip(Fiber.join(refused!))) as { readonly details?: unknown }
      assert.deepStrictEqual(details, { limit: "waiters", value: 64, maximum: 64, retry_after: 1 })
      yield* TestClock.adjust("1 second")
      assert.isFalse((yield* Fiber.join(first[0]!)).changed)
      assert.lengthOf(ended(yield* enter(1, "a")), 0)
      assert.lengthOf(ended(yield* enter(1, "a")), 1)
    }).pipe(Effect.provide(alone))
  )

  it.effect("each of two callers who come at once gets another one's", () =>
    Effect.gen(function* () {
      const { ended, enter } = yield* make
      const before = yield* enter(64, "a")
      const after = yield* enter(2, "b")
      yield* Effect.promise(() => vi.waitUntil(() => ended(before).length >= 2, { timeout: 20_000 }).catch(() => {}))
      assert.deepStrictEqual([ended(before).length, ended(after).length], [2, 0])
    }).pipe(Effect.provide(alone))
  )
})

layer(Service.layer, { timeout: 60_000 })("task_wait", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  /**
   * Seconds pass until all calls are answered; returns how many it took. Each is as long as a real one: statements take
   * real time, and have a deadline.
   */
  const passUntil = Effect.fnUntraced(function* (calls: ReadonlyArray<Fiber.Fiber<Called>>) {
    const answered = () => calls.every((call) => call.pollUnsafe() !== undefined)
    let seconds = 0
    while (!answered()) {
      yield* TestClock.adjust("1 second")
      seconds += 1
      yield* Effect.promise(() => vi.waitUntil(answered, { timeout: 1000 }).catch(() => {}))
      assert.isBelow(seconds, 200)
    }
    return seconds
  })
  const readsTask = (statement: string) =>
    statement.includes("d.depends_on::text") && !statement.includes("for no key update")
  /** Until the service has read the task and waits. */
  const settled = Effect.promise(() => new Promise((done) => setTimeout(done, 300)))
  const waits = (a: Agent, task: { readonly id: string; readonly version: number }, timeout_seconds = 25) =>
    Effect.forkChild(a.call("task_wait", { id: task.id, version: task.version, timeout_seconds }))

  it.effect("returns the answer of a person as soon as there is one", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const task = yield* ask(a)
      const call = yield* waits(a, task)
      yield* settled
      yield* TestClock.adjust("1 second")
      assert.isUndefined(call.pollUnsafe())
      yield* answer(service, person(a.project_id), task, "UBL")
      assert.isAtMost(yield* passUntil([call]), 3)
      const { output } = yield* Fiber.join(call)
      assert.deepInclude(output, { changed: true })
      assert.deepInclude(output.task, { status: "in_progress", version: task.version + 1 })
      assert.strictEqual(output.task.answer.text, "UBL")
    })
  )

  it.effect("returns at once when the version is already higher, and unchanged when the time is up", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* ask(a)
      const known = yield* a.call("task_wait", { id: task.id, version: 1 })
      assert.deepInclude(known.output, { changed: true })
      const call = yield* waits(a, task, 2)
      yield* settled
      yield* passUntil([call])
      assert.deepInclude((yield* Fiber.join(call)).output, { changed: false })
    })
  )

  it.effect("knows no task of another project", () =>
    Effect.gen(function* () {
      const task = yield* ask(yield* agent)
      const { code } = yield* (yield* agent).call("task_wait", { id: task.id, version: task.version })
      assert.strictEqual(code, "task_not_found")
    })
  )

  it.effect(
    "lets 32 callers of a project wait at one of two processes, with one statement a second, and others work meanwhile",
    () =>
      Effect.gen(function* () {
        const statements: Array<string> = []
        let reads = 0
        const { layer: counting } = faultyDatabase((statement) => {
          if (statement.includes("with ordinality as w")) statements.push(statement)
          if (readsTask(statement)) reads += 1
          return statement
        })
        const read = (count: number) =>
          Effect.promise(() => vi.waitUntil(() => reads >= count, { timeout: 20_000 })).pipe(Effect.andThen(settled))
        const service = yield* instance({ SERVICE_PROCESSES: "2" }, counting)
        const a = yield* Agent.make(service)
        const task = yield* ask(a)
        const calls = yield* Effect.forEach(Array.from({ length: 32 }), () => waits(a, task))
        yield* read(32)
        const full = yield* a.call("task_wait", { id: task.id, version: task.version })
        assert.strictEqual(full.code, "limit_exceeded")
        assert.deepStrictEqual(full.details, { limit: "waiters", value: 32, maximum: 32, retry_after: 1 })
        // A colleague has fewer waiters, so one of these gives way.
        const colleague = yield* Agent.make(service, { project_id: a.project_id })
        const colleagues = yield* waits(colleague, task)
        const ended = () => calls.filter((call) => call.pollUnsafe() !== undefined)
        yield* Effect.promise(() => vi.waitUntil(() => ended().length > 0, { timeout: 20_000 }))
        const gone = ended()
        assert.lengthOf(gone, 1)
        assert.deepInclude((yield* Fiber.join(gone[0]!)).output, { changed: false })
        calls.splice(calls.indexOf(gone[0]!), 1, colleagues)
        // Its place is taken again.
        const still = yield* a.call("task_wait", { id: task.id, version: task.version })
        assert.strictEqual(still.code, "limit_exceeded")
        const other = yield* Agent.make(service)
        const theirs = yield* ask(other)
        const earlier = reads
        const theirCall = yield* waits(other, theirs, 1)
        // A project has four calls at once here; those that wait are none of them.
        yield* Effect.forEach(Array.from({ length: 8 }), () => a.note("meanwhile"), { concurrency: 4 })
        yield* read(earlier + 1)
        const before = statements.length
        const seconds = yield* passUntil([theirCall])
        assert.isAtMost(statements.length - before, seconds + 1)
        assert.isAtLeast(statements.length, 1)
        assert.isTrue(calls.every((call) => call.pollUnsafe() === undefined))
        yield* answer(service, person(a.project_id), task, "UBL")
        assert.isAtMost(yield* passUntil(calls), 3)
        for (const call of calls) {
          const { output, text } = yield* Fiber.join(call)
          assert.isTrue(output?.changed, text)
        }
        const again = yield* a.call("task_wait", { id: task.id, version: task.version })
        assert.isTrue(again.output.changed)
        // Nobody waits any more, so all places are free.
        const later = yield* ask(a)
        const call = yield* waits(a, later, 1)
        yield* settled
        yield* passUntil([call])
        const { output, text } = yield* Fiber.join(call)
        assert.isFalse(output?.changed, text)
        const asked = statements.length
        yield* TestClock.adjust("3 seconds")
        yield* settled
        assert.lengthOf(statements, asked)
      })
  )

  it.effect("tells nobody anything whose credential has ended meanwhile", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const task = yield* ask(a)
      const call = yield* waits(a, task)
      yield* settled
      yield* answer(service, person(a.project_id), task, "UBL")
      yield* Context.get(service.services, Projects).disable(a.project_id)
      yield* passUntil([call])
      const { code, text } = yield* Fiber.join(call)
      assert.strictEqual(code, "unauthorized")
      assert.notInclude(text, "UBL")
    })
  )

  it.effect("outlasts a database that does not answer for a while", () =>
    Effect.gen(function* () {
      let hasRead = false
      const {
        fail,
        heal,
        layer: faulty
      } = faultyDatabase((statement) => {
        hasRead ||= readsTask(statement)
        return statement
      })
      const service = yield* instance({ SERVICE_LOG_LEVEL: "Fatal" }, faulty)
      const a = yield* Agent.make(service)
      const task = yield* ask(a)
      hasRead = false
      const call = yield* waits(a, task)
      yield* Effect.promise(() => vi.waitUntil(() => hasRead, { timeout: 20_000 }))
      yield* settled
      yield* fail("refused", 1)
      yield* TestClock.adjust("1 second")
      yield* settled
      assert.isUndefined(call.pollUnsafe())
      assert.isTrue(yield* heal)
      yield* answer(yield* Service, person(a.project_id), task, "UBL")
      yield* passUntil([call])
      assert.isTrue((yield* Fiber.join(call)).output.changed)
    })
  )

  it.effect("ends unchanged when the process stops", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const service = yield* Scope.provide(instance(), scope)
      const a = yield* Agent.make(service)
      yield* Context.get(service.services, Limits).list(a.project_id)
      const task = yield* ask(a)
      const call = yield* waits(a, task)
      yield* settled
      const since = Date.now()
      const closed = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      const { output } = yield* Fiber.join(call)
      assert.deepInclude(output, { changed: false })
      assert.isBelow(Date.now() - since, 8000)
      yield* Fiber.join(closed)
    })
  )
})
