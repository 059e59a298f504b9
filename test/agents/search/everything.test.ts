/** The search over memory, tasks, receipts and documents (spec 4.11). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { Hit } from "../../../src/agents/search/Shapes.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { pinned } from "../../support/agents/Pinned.ts"
import { Service } from "../../support/service/Service.ts"

layer(Service.layer)("search", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const find = (a: Agent, query: string, given: Readonly<Record<string, unknown>> = {}) =>
    Effect.map(a.call("search", { query, ...given }), ({ output, text }): Array<Hit> => {
      assert.isDefined(output, text)
      return output.hits
    })

  it.effect("finds a word in each place, in any of its forms", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const entry = yield* a.note("Invoices are rotated at night")
      const titled = yield* a.task("Rotate the invoices", { body: "Soon." })
      const noted = yield* a.task("Other work")
      yield* a.write("task_note", { id: noted.id, text: "Saw the rotation fail" })
      const receipt = {
        session_ref: "s",
        worker: "ada",
        outcome: "progress",
        summary: "Half",
        pitfalls: ["Rotating twice"]
      }
      const handed = yield* a.task("Third")
      yield* a.update(handed, { receipt })
      const document_id = yield* pinned(a.project_id, "Guide", "Überblick\nnothing\nHow we ROTATE grüne keys\n")
      yield* a.task("Unrelated")

      const hits = yield* find(a, "how do we rotate?")
      assert.sameDeepMembers(
        hits.map(({ in: source, task_id }) => [source, task_id]),
        [
          ["memory", null],
          ["tasks", titled.id],
          ["tasks", noted.id],
          ["receipts", handed.id],
          ["documents", null]
        ]
      )
      assert.deepInclude(hits, { ...hits.find(({ in: source }) => source === "memory")!, id: entry.id })
      // A word in a title counts twice.
      assert.strictEqual(hits.find(({ in: source }) => source !== "memory")!.id, titled.id)
      const document = hits.find(({ in: source }) => source === "documents")!
      assert.deepInclude(document, { id: document_id, title: "Guide", start_line: 3, excerpt: "" })
      const onReceipt = hits.find(({ in: source }) => source === "receipts")!
      assert.deepInclude(onReceipt, { title: "Third", start_line: null })
      assert.include(onReceipt.excerpt, "Rotating twice")
      const onTask = hits.find(({ id }) => id === noted.id)!
      assert.deepInclude(onTask, { title: "Other work", excerpt: "Saw the rotation fail" })

      assert.deepStrictEqual((yield* find(a, "grüne"))[0]?.start_line, 3)
      // A word of the title alone stands before the first line.
      assert.deepStrictEqual((yield* find(a, "guide"))[0]?.start_line, 1)
      assert.deepStrictEqual(
        (yield* find(a, "rotate", { in: ["tasks"] })).map(({ in: source }) => source),
        ["tasks", "tasks"]
      )
      assert.lengthOf(yield* find(a, "rotate", { limit: 2 }), 2)
    })
  )

  it.effect("prefers what has more of the words, and the rarer ones", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (const title of ["Common one", "Common two", "Common three"]) yield* a.task(title)
      const rare = yield* a.task("Walrus")
      const both = yield* a.task("Common walrus")
      const hits = yield* find(a, "common walrus", { in: ["tasks"] })
      assert.deepStrictEqual(
        hits.slice(0, 2).map(({ id }) => id),
        [both.id, rare.id]
      )
      assert.lengthOf(hits, 5)
    })
  )

  it.effect("takes turns between memory and the rest, because their scores do not compare", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (const text of ["Walrus", "Walrus and seal", "Walrus, seal and heron"]) {
        yield* a.note(text)
        yield* a.task(text)
      }
      const hits = yield* find(a, "walrus")
      assert.sameDeepMembers(
        hits.map(({ in: source }) => source),
        ["memory", "tasks", "memory", "tasks", "memory", "tasks"]
      )
      assert.deepStrictEqual(yield* find(a, "walrus", { limit: 3 }), hits.slice(0, 3))
    })
  )

  it.effect("finds a word in each field", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("Title", { body: "The ostrich.", tags: ["pelican"] })
      yield* a.update(task, {
        status: "blocked",
        blocked_kind: "other",
        blocked_reason: "A heron waits.",
        receipt: {
          session_ref: "s",
          worker: "ada",
          outcome: "blocked",
          summary: "Saw a walrus.",
          next_steps: ["Feed it", "Count each penguin"],
          git_checkpoint: { repository: "acme/zoo", branch: "flamingo", commit_sha: "a".repeat(40), dirty: false }
        }
      })
      for (const [word, source] of [
        ["ostrich", "tasks"],
        ["pelican", "tasks"],
        ["heron", "tasks"],
        ["walrus", "receipts"],
        ["penguin", "receipts"],
        ["flamingo", "receipts"]
      ] as const) {
        const hits = yield* find(a, word)
        assert.deepStrictEqual(
          hits.map(({ in: source, task_id }) => [source, task_id]),
          [[source, task.id]],
          word
        )
      }
    })
  )

  it.effect("finds a word by the beginning that its forms share, but a short related word in no other", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("A happy orange")
      assert.strictEqual((yield* find(a, "happiness"))[0]?.id, task.id)
      // `ran` is related to `run`.
      assert.deepStrictEqual(yield* find(a, "run"), [])
    })
  )

  it.effect("reads the first 64 KiB of a document", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* pinned(a.project_id, "Long", `${"x\n".repeat(32_000)}walrus\n${"x\n".repeat(800)}heron`)
      assert.deepStrictEqual(
        (yield* find(a, "walrus")).map(({ start_line }) => start_line),
        [32_001]
      )
      assert.deepStrictEqual(yield* find(a, "heron"), [])
    })
  )

  it.effect("shows the text around a match", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* a.task("Long", { body: `${"before ".repeat(500)}the walrus ${"after ".repeat(500)}` })
      const [hit] = yield* find(a, "walrus")
      assert.include(hit!.excerpt, "before the walrus after")
      assert.isAtMost(Buffer.byteLength(hit!.excerpt), 400)
    })
  )

  it.effect("finds nothing of another project, and nothing for words without meaning or a percent sign", () =>
    Effect.gen(function* () {
      const [a, other] = [yield* agent, yield* agent]
      yield* other.task("Walrus")
      yield* other.note("Walrus")
      yield* a.task("The 100 %")
      for (const query of ["walrus", "the of and", "%", "_"]) assert.deepStrictEqual(yield* find(a, query), [], query)
    })
  )

  it.effect("finds scripts without spaces", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("請求書の締め日を変更する")
      assert.strictEqual((yield* find(a, "締め日"))[0]?.id, task.id)
    })
  )

  it.effect("reads the 2,000 tasks that changed last", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
        select ${a.project_id}::uuid, gen_random_uuid(), case when n in (1, 2) then 'Walrus ' || n else 'Task' end, '', 'open',
               2, '{}', 1, 'x', now(), now() + n * interval '1 second'
          from generate_series(1, 2001) n`
      assert.deepStrictEqual(
        (yield* find(a, "walrus")).map(({ title }) => title),
        ["Walrus 2"]
      )
    })
  )

  it.effect("reads the 200 documents that were pinned last", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const document_id = yield* pinned(a.project_id, "Walrus 1", "Text")
      yield* sql`
        insert into pinned_document
        select (jsonb_populate_record(p, jsonb_build_object(
                 'document_id', gen_random_uuid(), 'path', 'docs/' || n, 'pinned_at', pinned_at + n * interval '1 second',
                 'title', case n when 1 then 'Walrus 2' else 'Guide' end))).*
          from pinned_document p, generate_series(1, 200) n
         where document_id = ${document_id}::uuid`
      assert.deepStrictEqual(
        (yield* find(a, "walrus")).map(({ title }) => title),
        ["Walrus 2"]
      )
    })
  )

  it.effect("names who wrote last, and when", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const colleague = yield* Agent.make(yield* Service, { project_id: a.project_id })
      const [changed, noted] = [yield* a.task("Walrus"), yield* a.task("Heron")]
      yield* a.write("task_note", { id: noted.id, text: "Saw a walrus" })
      yield* TestClock.adjust("1 minute")
      yield* colleague.update(changed, { priority: 1 })
      yield* colleague.write("task_note", { id: noted.id, text: "The walrus is gone" })
      const { task } = (yield* a.call("task_get", { id: changed.id })).output
      assert.notStrictEqual(task.updated_by, task.created_by)
      const hits = yield* find(a, "walrus")
      assert.sameDeepMembers(
        hits.map(({ actor, at, id }) => [id, actor, at]),
        [changed.id, noted.id].map((id) => [id, task.updated_by, task.updated_at])
      )
      assert.strictEqual((yield* find(a, "heron"))[0]!.actor, task.created_by)
    })
  )

  it.effect("has the newest first of what is found equally well", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const first = yield* a.task("Walrus")
      yield* TestClock.adjust("1 minute")
      const together = [yield* a.task("Walrus"), yield* a.task("Walrus"), yield* a.task("Walrus")].map(({ id }) => id)
      assert.deepStrictEqual(
        (yield* find(a, "walrus")).map(({ id }) => id),
        [...together.toSorted().toReversed(), first.id]
      )
    })
  )
})
