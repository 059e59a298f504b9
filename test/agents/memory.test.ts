/** Memory entries (spec 2.8, 4.11). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Memory } from "../../src/agents/memory/Memory.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { waitedForBy } from "../support/database/Locks.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("memory", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const countOf = (agent: Agent) =>
    Effect.map(
      SqlClient.SqlClient.use(
        (sql) => sql<{ n: number }>`
        select count(*)::int as n from memory_entry where project_id = ${agent.project_id}::uuid`
      ),
      ([row]) => row!.n
    )

  it.effect("memory_get returns an entry as it was added", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const entry = yield* a.note("Body with\nlines", { title: "Title", tags: ["x", "x", "y"], session_ref: "s" })
      const { output } = yield* a.call("memory_get", { id: entry.id })
      assert.deepStrictEqual(output.entry, entry)
      assert.deepStrictEqual(entry.tags, ["x", "y"])
    })
  )

  it.effect("without a title, the first line of the body becomes the title", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const entry = yield* a.note(`\n  ${"ä".repeat(300)}\nsecond line`)
      assert.isAtMost(Buffer.byteLength(entry.title), 200)
      assert.match(entry.title, /^ä+…$/)
    })
  )

  it.effect("a superseded entry is no longer found but can still be read", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const old = yield* a.note("The port is 8787")
      const entry = yield* a.note("The port is 9090", { supersedes: old.id })
      const { output } = yield* a.call("memory_get", { id: old.id })
      assert.deepInclude(output.entry, { active: false, superseded_by: entry.id })
      const found = yield* a.call("memory_search", { query: "port" })
      assert.deepStrictEqual(
        found.output.entries.map((hit: { id: string }) => hit.id),
        [entry.id]
      )
    })
  )

  it.effect("an entry cannot be superseded twice", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const old = yield* a.note("old")
      yield* a.note("new", { supersedes: old.id })
      const again = yield* a.write("memory_add", { kind: "note", body: "newer", supersedes: old.id })
      assert.strictEqual(again.code, "memory_already_superseded")
      assert.strictEqual(yield* countOf(a), 2)
    })
  )

  it.effect("an unknown entry cannot be superseded", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const refused = yield* a.write("memory_add", { kind: "note", body: "new", supersedes: randomUUID() })
      assert.strictEqual(refused.code, "memory_not_found")
      assert.strictEqual(yield* countOf(a), 0)
    })
  )

  it.effect("an entry cannot name a task that does not exist", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const refused = yield* a.write("memory_add", { kind: "note", body: "new", task_id: randomUUID() })
      assert.strictEqual(refused.code, "task_not_found")
      assert.strictEqual(yield* countOf(a), 0)
    })
  )

  it.effect("of parallel calls that supersede one entry, one succeeds", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const old = yield* a.note("old")
      const calls = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, index) => `new ${index}`),
        (body) => a.write("memory_add", { kind: "note", body, supersedes: old.id }),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(calls.filter(({ output }) => output !== undefined).length, 1)
      assert.isTrue(calls.every(({ code, output }) => output !== undefined || code === "memory_already_superseded"))
    })
  )

  it.effect("the operator archives an entry, and a search no longer finds it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const entry = yield* a.note("pelican")
      const memory = Context.get(service.services, Memory)
      yield* memory.archive(a.project_id, entry.id)
      yield* memory.archive(a.project_id, entry.id)
      assert.deepStrictEqual((yield* a.call("memory_search", { query: "pelican" })).output.entries, [])
      assert.deepStrictEqual((yield* a.call("memory_search")).output.entries, [])
      assert.isFalse((yield* a.call("memory_get", { id: entry.id })).output.entry.active)
    })
  )

  it.effect("memory_archive locks the project's usage before the entry, as one that supersedes it does", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* a.note("old")
      const sql = yield* SqlClient.SqlClient
      const ofProject = sql`project_id = ${a.project_id}::uuid`
      const archiving = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select from project_usage where ${ofProject} for update`
          const archiving = yield* Effect.forkChild(a.write("memory_archive", { id }))
          yield* waitedForBy(1)
          assert.lengthOf(
            yield* sql`select from memory_entry where ${ofProject} and id = ${id}::uuid for update skip locked`,
            1
          )
          return archiving
        })
      )
      yield* Fiber.join(archiving)
    })
  )

  it.effect("pages of the newest entries contain each entry once", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const added: Array<string> = []
      for (let index = 0; index < 7; index += 1) {
        yield* TestClock.adjust("1 second")
        added.push((yield* a.note(`entry ${index}`)).id)
      }
      const seen: Array<string> = []
      let cursor: string | undefined
      do {
        const { output } = yield* a.call("memory_search", { limit: 3, ...(cursor === undefined ? {} : { cursor }) })
        seen.push(...output.entries.map((hit: { id: string }) => hit.id))
        cursor = output.next_cursor
      } while (cursor !== undefined)
      assert.deepStrictEqual(seen, added.toReversed())
    })
  )

  it.effect("a cursor of another query is refused", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* a.note("one")
      yield* a.note("two")
      const { output } = yield* a.call("memory_search", { limit: 1 })
      for (const other of [{ kind: "note" }, { tags: ["api"] }]) {
        const { code } = yield* a.call("memory_search", { limit: 1, ...other, cursor: output.next_cursor })
        assert.strictEqual(code, "cursor_invalid")
      }
    })
  )

  it.effect("a search by words has one page, and takes no cursor", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* a.note("one")
      yield* a.note("two")
      const { output } = yield* a.call("memory_search", { limit: 1 })
      const { code } = yield* a.call("memory_search", { limit: 1, query: "one", cursor: output.next_cursor })
      assert.strictEqual(code, "cursor_invalid")
    })
  )

  for (const time of [
    "0000-01-01T00:00:00.000Z",
    "2026-02-30T00:00:00.000Z",
    "2026-01-01T24:00:00.000Z",
    "1969-12-31T23:59:59.999Z",
    "+010000-01-01T00:00:00.000Z",
    "2026-01-01"
  ]) {
    it.effect(`a cursor with the time ${time} is refused`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const { id } = yield* a.note("one")
        yield* a.note("two")
        const { output } = yield* a.call("memory_search", { limit: 1 })
        const position = JSON.parse(Buffer.from(output.next_cursor, "base64url").toString())
        const cursor = Buffer.from(JSON.stringify({ ...position, k: [time, id] })).toString("base64url")
        assert.strictEqual((yield* a.call("memory_search", { limit: 1, cursor })).code, "cursor_invalid")
      })
    )
  }

  for (const cursor of ["!!!", "e30", Buffer.from('{"v":1,"k":["x"],"f":"y"}').toString("base64url")]) {
    it.effect(`the invalid cursor ${JSON.stringify(cursor)} is refused`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        assert.strictEqual((yield* a.call("memory_search", { cursor })).code, "cursor_invalid")
      })
    )
  }
})
