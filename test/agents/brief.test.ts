/** Writes return what their caller does not know yet, and entries that say nearly the same (spec 4.11). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Agent } from "../support/agents/McpAgent.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("brief results", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const brief = { verbose: false }
  const long = "pelican ".repeat(2000)

  it.effect("a task of 16 KB is created, claimed and closed in less than 1 KB of answers", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const created = yield* a.write("task_create", { title: "Task", body: long, ...brief })
      const { id } = created.output.task
      assert.deepStrictEqual(created.output, {
        task: { id, version: 1, status: "open", assignee: null },
        replayed: false
      })
      const claimed = yield* a.write("task_claim", { id, expected_version: 1, assignee: "ada", ...brief })
      assert.deepStrictEqual(claimed.output.task, { id, version: 2, status: "in_progress", assignee: "ada" })
      const receipt = { session_ref: "s", worker: "ada", outcome: "completed", summary: "x".repeat(4000) }
      const done = yield* a.write("task_update", { id, expected_version: 2, status: "done", receipt, ...brief })
      assert.deepStrictEqual(done.output.task, { id, version: 3, status: "done", assignee: "ada" })
      assert.hasAllKeys(done.output.receipt, ["id", "created_at"])
      assert.isBelow([created, claimed, done].map(({ text }) => text).join("").length, 1024)
    })
  )

  it.effect(
    "verbose returns the whole, also for a repeated call, and is no part of the request that a key stands for",
    () =>
      Effect.gen(function* () {
        const a = yield* agent
        const given = { title: "Task", body: "Body", idempotency_key: "k" }
        const first = yield* a.write("task_create", { ...given, ...brief })
        assert.notProperty(first.output.task, "body")
        const again = yield* a.write("task_create", { ...given, verbose: true })
        assert.strictEqual(again.output.task.body, "Body")
        assert.isTrue(again.output.replayed)
        const entry = { kind: "note", body: "Body", idempotency_key: "k" }
        assert.notProperty((yield* a.write("memory_add", { ...entry, ...brief })).output.entry, "body")
        assert.strictEqual((yield* a.write("memory_add", { ...entry, verbose: true })).output.entry.body, "Body")
      })
  )

  it.effect("memory_add names active entries about the same, the most similar first", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (let n = 0; n < 20; n += 1) yield* a.note(`Unrelated remark number ${n} about weather, ferries and bread`)
      const old = yield* a.note("We deploy with blue green releases on Fridays", { kind: "decision" })
      const other = yield* a.note("We deploy with blue green releases, but never on Fridays or Mondays")
      const { output } = yield* a.write("memory_add", {
        kind: "decision",
        body: "We deploy with blue green releases on Tuesdays"
      })
      assert.sameMembers(
        output.similar.map(({ id }: { id: string }) => id),
        [old.id, other.id]
      )
      assert.deepInclude(output.similar[0], {
        kind: "decision",
        title: "We deploy with blue green releases on Fridays"
      })
      for (const { score } of output.similar) assert.isTrue(score >= 0.5 && score <= 1, String(score))
      assert.isAtLeast(output.similar[0].score, output.similar[1].score)
      yield* a.note("We deploy with blue green releases on Sundays")
      const body = "We deploy with blue green releases on Saturdays"
      const next = yield* a.write("memory_add", { kind: "note", body })
      assert.lengthOf(next.output.similar, 3)
    })
  )

  it.effect("an entry that is unlike all others, superseded ones and those of other projects are not similar", () =>
    Effect.gen(function* () {
      const [a, b] = [yield* agent, yield* agent]
      yield* b.note("We deploy with blue green releases on Fridays")
      const old = yield* a.note("We deploy with blue green releases on Fridays")
      const { output } = yield* a.write("memory_add", {
        kind: "note",
        body: "We deploy with blue green releases on Tuesdays",
        supersedes: old.id
      })
      assert.deepStrictEqual(output.similar, [])
      assert.deepStrictEqual((yield* a.write("memory_add", { kind: "note", body: "Bread" })).output.similar, [])
    })
  )

  it.effect("memory_archive takes an entry out of search, may be repeated, and names who did it", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id, provenance } = yield* a.note("pelican")
      for (let turn = 0; turn < 2; turn += 1) {
        const { output } = yield* a.write("memory_archive", { id })
        assert.deepInclude(output.entry, { id, active: false })
      }
      assert.deepStrictEqual((yield* a.call("memory_search", { query: "pelican" })).output.entries, [])
      assert.isFalse((yield* a.call("memory_get", { id })).output.entry.active)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`
        select actor from audit_event
         where project_id = ${a.project_id}::uuid and action = 'memory.archived'`
      assert.deepStrictEqual(rows, [{ actor: provenance.actor }])
      const stranger = yield* agent
      assert.strictEqual((yield* stranger.write("memory_archive", { id })).code, "memory_not_found")
    })
  )
})
