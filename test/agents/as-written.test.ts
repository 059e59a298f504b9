/** What models write is taken as they mean it, where that is certain; a refusal names the way out. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { asWritten } from "../../src/agents/mcp/calls/AsWritten.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("arguments as models write them", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const created = Effect.fnUntraced(function* (a: Agent, given: Readonly<Record<string, unknown>> = {}) {
    const { code, output, text } = yield* a.write("task_create", { title: "Task", ...given })
    assert.isUndefined(code, text)
    return (yield* a.call("task_get", { id: output.task.id })).output.task
  })

  for (const [written, stored] of [
    [
      ["Frontend", "C++", "Needs review"],
      ["frontend", "c++", "needs-review"]
    ],
    [
      ["needs review", "Needs-Review", "#bug", "ｆｕｌｌ　ｗｉｄｔｈ"],
      ["needs-review", "#bug", "full-width"]
    ],
    [
      ["--draft--", "v1.2/api_x:y", "日本語", "Überblick!"],
      ["draft", "v1.2/api_x:y", "日本語", "überblick"]
    ],
    ["Frontend", ["frontend"]],
    ['["One", "Two"]', ["one", "two"]],
    [null, []]
  ] as const) {
    it.effect(`tags ${JSON.stringify(written)} are stored as ${JSON.stringify(stored)}`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        assert.deepStrictEqual((yield* created(a, { tags: written })).tags, stored)
      })
    )
  }

  it.effect("tasks and entries are found by a tag as it was written", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* created(a, { tags: ["Needs review"] })
      yield* a.write("memory_add", { kind: "note", body: "x", tags: ["Needs review"] })
      assert.lengthOf((yield* a.call("task_list", { tag: "Needs review" })).output.tasks, 1)
      assert.lengthOf((yield* a.call("memory_search", { tags: "needs  Review!" })).output.entries, 1)
    })
  )

  for (const tags of [["!!!"], ["a".repeat(65)], ["é".repeat(33)], [""], [7]]) {
    it.effect(`the tags ${JSON.stringify(tags).slice(0, 20)} are refused with the field and what is expected`, () =>
      Effect.gen(function* () {
        const { code, details } = yield* (yield* agent).write("task_create", { title: "Task", tags })
        assert.deepStrictEqual([code, details.field], ["invalid_request", "tags.0"])
        assert.match(details.reason, /a tag of 1 to 64 bytes|string/)
      })
    )
  }

  it("the JSON text of a list is read up to 64 KiB", () => {
    for (const [length, isRead] of [
      [65_536, true],
      [65_537, false]
    ] as const) {
      const list = ["x".repeat(length - 4)]
      const text = JSON.stringify(list)
      assert.lengthOf(text, length)
      assert.deepStrictEqual(asWritten({ type: "array", items: { type: "string" } }, text), isRead ? list : [text])
    }
  })

  it("the elements of a list that is too long are left as they are", () => {
    const schema = { type: "array", maxItems: 2, items: { type: "integer" } }
    assert.deepStrictEqual(asWritten(schema, '["1", "2"]'), [1, 2])
    assert.deepStrictEqual(asWritten(schema, '["1", "2", "3"]'), ["1", "2", "3"])
  })

  it.effect("null means absent for an optional parameter, but clears an assignee", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* created(a, { body: null, priority: null, depends_on: null, idempotency_key: null })
      const claim = {
        id: task.id,
        expected_version: 1,
        status: "in_progress",
        assignee: "me",
        title: null,
        receipt: null
      }
      const { code, text } = yield* a.write("task_update", claim)
      assert.isUndefined(code, text)
      const released = { id: task.id, expected_version: 2, assignee: null }
      yield* a.write("task_update", released)
      const found = (yield* a.call("task_get", { id: task.id })).output.task
      assert.deepStrictEqual([found.title, found.assignee], ["Task", null])
    })
  )

  it.effect("null for a required parameter is refused", () =>
    Effect.gen(function* () {
      const { code, details } = yield* (yield* agent).write("task_create", { title: null })
      assert.deepStrictEqual([code, details.field], ["invalid_request", "title"])
    })
  )

  it.effect("an empty text is not absent", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* a.task("Task", { body: "To do" })
      const { output } = yield* a.write("task_update", { id, expected_version: 1, body: "" })
      assert.strictEqual(output.task.body, "")
    })
  )

  it.effect("an empty cursor, one status for a list, and numbers and booleans as text are understood", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* created(a)
      const given = { cursor: "", status: "open", ready: "true", limit: "5" }
      assert.lengthOf((yield* a.call("task_list", given)).output.tasks, 1)
    })
  )

  it.effect("a receipt and its checkpoint may be JSON text", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* created(a)
      const git_checkpoint = JSON.stringify({
        repository: "git@github.com:acme/shop.git",
        branch: "main",
        commit_sha: "a".repeat(40),
        dirty: "false"
      })
      const receipt = {
        session_ref: "s",
        worker: "w",
        outcome: "progress",
        summary: "Half.",
        next_steps: "Rest",
        git_checkpoint
      }
      const { code, text } = yield* a.write("task_update", {
        id,
        expected_version: 1,
        receipt: JSON.stringify(receipt)
      })
      assert.isUndefined(code, text)
      const [stored] = (yield* a.call("task_get", { id })).output.receipts
      assert.deepStrictEqual(stored.next_steps, ["Rest"])
      assert.deepStrictEqual(
        [stored.git_checkpoint.repository, stored.git_checkpoint.dirty],
        ["git@github.com:acme/shop.git", false]
      )
    })
  )

  for (const [repository, taken] of [
    ["acme/shop", true],
    ["https://github.com/acme/shop.git", true],
    ["ssh://git@github.com/acme/shop.git", true],
    ["ssh://git@github.com:2222/acme/shop.git", true],
    ["bob@github.com:acme/shop.git", false],
    ["ssh://bob@github.com/acme/shop.git", false],
    ["https://git:hunter2@github.com/acme/shop", false],
    ["ssh://git:hunter2@github.com/acme/shop", false],
    ["https://git@github.com/acme/shop", false],
    ["https://github.com/acme/shop?token=x", false]
  ] as const) {
    it.effect(`the repository ${repository} is ${taken ? "stored" : "refused"}`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const { id } = yield* created(a)
        const git_checkpoint = { repository, branch: "main", commit_sha: "a".repeat(40), dirty: false }
        const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "Half.", git_checkpoint }
        const { code, details } = yield* a.write("task_update", { id, expected_version: 1, receipt })
        assert.deepStrictEqual(
          [code, details?.field],
          taken ? [undefined, undefined] : ["invalid_request", "receipt.git_checkpoint.repository"]
        )
      })
    )
  }

  it.effect("an unknown field of a receipt is named, with those that are known", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* created(a)
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "Half.", notes: "x" }
      const { details } = yield* a.write("task_update", { id, expected_version: 1, receipt })
      assert.strictEqual(details.field, "receipt.notes")
      assert.match(details.reason, /^Unknown parameter; known: session_ref, worker, thread, outcome, summary/)
    })
  )

  for (const tool of ["task_get", "memory_get"]) {
    for (const shorten of [
      (id: string) => id.slice(0, 8),
      (id: string) => `${id.slice(0, 13)}…`,
      (id: string) => id.slice(0, -1)
    ]) {
      it.effect(`${tool} with ${shorten("018f0000-0000-7000-8000-000000000001")} asks for the whole id`, () =>
        Effect.gen(function* () {
          const a = yield* agent
          const { id } = yield* created(a)
          const { code, details } = yield* a.call(tool, { id: shorten(id) })
          assert.deepStrictEqual([code, details?.field], ["invalid_request", "id"])
          assert.include(details.reason, "the whole id of 36 characters")
        })
      )
    }
  }

  it.effect("superseding an entry that was superseded names its successor, and superseding that one succeeds", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const first = yield* a.note("one")
      const second = (yield* a.write("memory_add", { kind: "note", body: "two", supersedes: first.id })).output.entry
      const again = yield* a.write("memory_add", { kind: "note", body: "three", supersedes: first.id })
      assert.deepStrictEqual([again.code, again.details], ["memory_already_superseded", { superseded_by: second.id }])
      assert.include(again.text, second.id)
      const corrected = yield* a.write("memory_add", {
        kind: "note",
        body: "three",
        supersedes: again.details.superseded_by
      })
      assert.isUndefined(corrected.code)
    })
  )

  it.effect("write_context may be the JSON text that server_identity returned", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const given = { kind: "note", body: "x", write_context: JSON.stringify(a.write_context) }
      assert.isUndefined((yield* a.call("memory_add", given)).code)
    })
  )

  it.effect("a wrong write_context says which part is wrong", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { instance_id: _, ...partial } = a.write_context
      const project_id = "018f0000-0000-7000-8000-00000000beef"
      for (const [write_context, reason] of [
        [partial, "write_context lacks instance_id"],
        [{ ...a.write_context, note: 1 }, "write_context has more than resource, instance_id, project_id"],
        [{ ...a.write_context, project_id }, "project_id is another than that of this credential"],
        ["{", "write_context is not an object"]
      ] as const) {
        const { code, details, text } = yield* a.call("memory_add", { kind: "note", body: "x", write_context })
        assert.deepStrictEqual([code, details], ["write_context_mismatch", { reason }])
        assert.include(text, "server_identity")
      }
    })
  )
})
