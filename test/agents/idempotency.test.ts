/** Safe retries of what agents write (spec 4.11). */
import { assert, describe, it as test, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { canonical } from "../../src/agents/continuity/Idempotency.ts"
import { type ToolName, tools } from "../../src/agents/mcp/Tools.ts"
import { sweeps } from "../../src/agents/Wing.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { overtaken, readsAtGate } from "../support/attacks/Late.ts"
import { examplesFor } from "../support/agents/Examples.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { faultyDatabase } from "../support/service/Faults.ts"
import { instance, Service } from "../support/service/Service.ts"

describe("the canonical form of a request", () => {
  test("does not depend on the order of members", () => {
    const one = canonical({ b: 1, a: { d: ["x", "y"], c: null }, e: [{ g: 1, f: 2 }] })
    assert.strictEqual(one, '{"a":{"c":null,"d":["x","y"]},"b":1,"e":[{"f":2,"g":1}]}')
    assert.strictEqual(canonical({ e: [{ f: 2, g: 1 }], a: { c: null, d: ["x", "y"] }, b: 1 }), one)
  })
  test("keeps the order of lists", () => {
    assert.notStrictEqual(canonical({ tags: ["x", "y"] }), canonical({ tags: ["y", "x"] }))
  })
})

/** Another valid value for fields that take one of a few. */
const literals: Readonly<Record<string, string>> = {
  kind: "note",
  status: "open",
  outcome: "progress",
  blocked_kind: "other"
}

const anotherFor = (field: string, value: unknown) => {
  if (typeof value === "number") return value + 1
  if (typeof value === "boolean") return !value
  const text = String(value)
  if (/^[0-9a-f-]{36,40}$/.test(text)) return `${text.slice(0, -1)}${text.endsWith("7") ? "8" : "7"}`
  return literals[field] ?? `${text}x`
}

/** The request once for each value in it, with another value there. */
const variantsOf = <A>(value: A, field = ""): ReadonlyArray<readonly [where: string, other: A]> => {
  if (typeof value !== "object" || value === null) return [[field, anotherFor(field, value) as A]]
  return Object.entries(value).flatMap(([name, member]) =>
    variantsOf(member, Array.isArray(value) ? field : name).map(([where, other]) => {
      const changed = Array.isArray(value) ? value.with(Number(name), other) : { ...value, [name]: other }
      return [`${name}.${where}`, changed as A] as const
    })
  )
}

layer(Service.layer)("an idempotency key", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const countOf = (agent: Agent) =>
    Effect.map(
      SqlClient.SqlClient.use(
        (sql) => sql<{ n: number }>`
        select count(*)::int as n from memory_entry where project_id = ${agent.project_id}::uuid`
      ),
      ([row]) => row!.n
    )

  it.effect("makes a retry return the original result", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const given = { kind: "decision", body: "once", idempotency_key: "key-1" }
      const first = yield* a.write("memory_add", given)
      const second = yield* a.write("memory_add", given)
      assert.isFalse(first.output.replayed)
      assert.deepStrictEqual(second.output, { ...first.output, replayed: true })
      assert.strictEqual(yield* countOf(a), 1)
    })
  )

  it.effect("of memory_add lets others of the project write while similar entries are looked for", () =>
    Effect.gen(function* () {
      const gated = (statement: string) => (statement.includes("weighed") ? readsAtGate(statement) : statement)
      const a = yield* agent
      const slow = a.at(yield* instance({}, faultyDatabase(gated).layer))
      const given = { kind: "note", body: "once", idempotency_key: "key-1" }
      const { output } = yield* overtaken(slow.write("memory_add", given), a.note("another"))
      assert.isFalse(output.replayed)
      assert.deepStrictEqual((yield* a.write("memory_add", given)).output, { ...output, replayed: true })
    })
  )

  it.effect("is scoped to one project and one tool", () =>
    Effect.gen(function* () {
      const [a, b] = [yield* agent, yield* agent]
      const note = { kind: "note", body: "x", idempotency_key: "k" }
      const task = { title: "x", idempotency_key: "k" }
      const ask = Effect.all([
        a.write("memory_add", note),
        a.write("memory_add", { ...note, idempotency_key: "another" }),
        a.write("task_create", task),
        b.write("memory_add", note),
        b.write("task_create", task)
      ])
      const first = (yield* ask).map(({ output }) => output)
      const again = (yield* ask).map(({ output }) => output)
      assert.deepStrictEqual(
        again,
        first.map((output) => ({ ...output, replayed: true }))
      )
      assert.strictEqual(new Set(first.map(({ entry, task }) => (entry ?? task).id)).size, 5)
    })
  )

  it.effect("accepts a retry whose fields are in another order", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const given = { kind: "note", body: "x", tags: ["t"], idempotency_key: "k" }
      yield* a.write("memory_add", given)
      const again = yield* a.write("memory_add", Object.fromEntries(Object.entries(given).toReversed()))
      assert.isTrue(again.output.replayed)
    })
  )

  for (const [name, { input }] of Object.entries(tools)) {
    if (!("fields" in input && "idempotency_key" in input.fields)) continue
    it.effect(`is refused with another request, whichever of its values differs: ${name}`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const given: Readonly<Record<string, unknown>> = (yield* examplesFor(a))[name as ToolName]
        const { idempotency_key, write_context, ...content } = given
        assert.isFalse((yield* a.call(name, given)).output.replayed)
        for (const [where, other] of variantsOf(content)) {
          const { code, text } = yield* a.call(name, { ...other, idempotency_key, write_context })
          assert.strictEqual(code, "idempotency_conflict", `${where}: ${text}`)
        }
        assert.isTrue((yield* a.call(name, given)).output.replayed)
      })
    )
  }

  it.effect("stays unused when the call fails", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const given = { kind: "note", body: "x", idempotency_key: "key-1" }
      const failed = yield* a.write("memory_add", { ...given, supersedes: randomUUID() })
      assert.strictEqual(failed.code, "memory_not_found")
      const entry = yield* a.note("x", { idempotency_key: "key-1" })
      assert.isTrue(entry.active)
    })
  )

  it.effect("makes parallel calls create one entry", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const calls = yield* Effect.replicateEffect(
        a.write("memory_add", { kind: "note", body: "x", idempotency_key: "k" }),
        12,
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(calls.map(({ output }) => output.entry.id)).size, 1)
      assert.strictEqual(yield* countOf(a), 1)
    })
  )

  it.effect("is optional; without it every call creates an entry", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const given = { kind: "note", body: "x" }
      const first = yield* a.write("memory_add", given)
      const second = yield* a.write("memory_add", given)
      assert.deepStrictEqual([first.output.replayed, second.output.replayed], [false, false])
      assert.strictEqual(yield* countOf(a), 2)
    })
  )

  it.effect("is kept for seven days, and longer while a transaction locks its row", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const sweep = Effect.provide(sweepOnce(sweeps), DatabaseClock.layerLocal)
      const given = { kind: "note", body: "x", idempotency_key: "k" }
      const isKept = Effect.map(a.write("memory_add", given), ({ output }) => output.replayed as boolean)
      assert.isFalse(yield* isKept)
      yield* TestClock.adjust(Duration.days(7))
      yield* sweep
      assert.isTrue(yield* isKept)
      yield* TestClock.adjust("1 millis")
      const locked = yield* Deferred.make<void>()
      const released = yield* Deferred.make<void>()
      const lock = sql`select 1 from idempotency_record where project_id = ${a.project_id}::uuid for update`.pipe(
        Effect.andThen(Deferred.succeed(locked, undefined)),
        Effect.andThen(Deferred.await(released)),
        sql.withTransaction
      )
      const holder = yield* Effect.forkChild(lock)
      yield* Deferred.await(locked)
      yield* sweep
      yield* Deferred.succeed(released, undefined)
      yield* Fiber.join(holder)
      assert.isTrue(yield* isKept)
      yield* sweep
      assert.isFalse(yield* isKept)
    })
  )
})
