/** An agent asks, a person answers, and the agent learns it (decisions.md, The loop of a decision). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Transfer } from "../../src/agents/transfer/Transfer.ts"
import { Limits } from "../../src/operator/limits/Limits.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { answer, ask, choices, person, question } from "../support/agents/Answers.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("a decision", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const taskOf = (a: Agent, id: string) => Effect.map(a.call("task_get", { id }), ({ output }) => output.task)
  const audited = (project_id: string) =>
    SqlClient.SqlClient.use(
      (sql) => sql<{ action: string; actor: string; subject: any }>`
        select action, actor, subject from audit_event
         where project_id = ${project_id}::uuid and action = 'task.answered'`
    )

  it.effect("is asked with choices, and says who asked", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* ask(a)
      assert.deepInclude(task, { status: "blocked", blocked_kind: "decision", blocked_reason: question, choices })
      assert.match(task.asked_by, /^project_token:/)
      assert.deepInclude(yield* taskOf(a, task.id), { choices, asked_by: task.asked_by, answer: null })
    })
  )

  const wrongChoices: ReadonlyArray<readonly [string, ReadonlyArray<unknown>]> = [
    ["one", ["PDF"]],
    ["seven", ["1", "2", "3", "4", "5", "6", "7"]],
    ["two that are alike", ["PDF", "PDF"]],
    ["two that are alike after normalisation", ["a\u0308", "\u00e4"]],
    ["one over 200 bytes", ["PDF", "ü".repeat(101)]],
    ["one of two lines", ["PDF", "U\nBL"]],
    ["one that is blank", ["PDF", " "]],
    ["one that hides text", ["PDF", "UBL\u202e"]],
    ["one that is no text", ["PDF", 1]]
  ]
  for (const [what, given] of wrongChoices) {
    it.effect(`choices: ${what} is refused and changes nothing`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const task = yield* a.task("T")
        const asked = { status: "blocked", blocked_kind: "decision", choices: given }
        const { code, details } = yield* a.update(task, asked)
        assert.strictEqual(code, "invalid_request")
        assert.match(details.field, /^choices/)
        assert.deepInclude(yield* taskOf(a, task.id), { version: 1, status: "open" })
      })
    )
  }

  it.effect("choices belong to a question only, and go with it", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      for (const change of [{}, { status: "blocked" }, { status: "blocked", blocked_kind: "external" }]) {
        const { code, details } = yield* a.update(task, { ...change, choices })
        assert.deepStrictEqual([code, details.field], ["invalid_request", "choices"])
      }
      const asked = yield* ask(a)
      const renamed = (yield* a.update(asked, { title: "Renamed" })).output.task
      assert.deepInclude(renamed, { choices, asked_by: asked.asked_by })
      const external = (yield* a.update(renamed, { blocked_kind: "external" })).output.task
      assert.deepInclude(external, { choices: null, asked_by: null })
      const again = (yield* a.update(external, { blocked_kind: "decision" })).output.task
      assert.deepInclude(again, { choices: null })
      assert.isNotNull(again.asked_by)
    })
  )

  it.effect("is asked by the credential that changed its choices last", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const other = yield* Agent.make(yield* Service, { project_id: a.project_id })
      const asked = yield* ask(a)
      const { task } = (yield* other.update(asked, { choices: ["Peppol", "UBL"] })).output
      assert.strictEqual(task.asked_by, task.updated_by)
      assert.notStrictEqual(task.asked_by, asked.asked_by)
    })
  )

  it.effect("frees the task for its assignee, and is kept in memory with the question", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const task = yield* ask(a)
      const ada = person(a.project_id)
      yield* TestClock.adjust("1 second")
      const { answer: freed } = yield* answer(service, ada, task, "UBL")
      assert.deepInclude(freed, { id: task.id, status: "in_progress", version: task.version + 1, assignee: "agent-1" })

      const found = yield* taskOf(a, task.id)
      assert.deepInclude(found, {
        status: "in_progress",
        assignee: "agent-1",
        claimed_at: task.claimed_at,
        blocked_kind: null,
        blocked_reason: null,
        choices: null,
        asked_by: null,
        answered_by: `project_token:${ada.credential_id}`,
        answer_entry_id: freed.entry_id,
        updated_by: `project_token:${ada.credential_id}`
      })
      assert.deepStrictEqual(found.answer, {
        entry_id: freed.entry_id,
        text: "UBL",
        by: { kind: "token", id: ada.credential_id, label: "Ada" },
        at: found.updated_at,
        same_credential: false
      })
      const { entry } = (yield* a.call("memory_get", { id: freed.entry_id })).output
      assert.deepInclude(entry, {
        kind: "decision",
        title: "Should invoices be PDF or UBL?",
        body: `UBL\n\n${question}`
      })
      assert.deepInclude(entry.provenance, { task_id: task.id, actor: `project_token:${ada.credential_id}` })
      const hits = (yield* a.call("memory_search", { query: "invoices UBL" })).output.entries
      assert.strictEqual(hits[0].id, freed.entry_id)
      assert.deepStrictEqual(yield* audited(a.project_id), [
        {
          action: "task.answered",
          actor: `project_token:${ada.credential_id}`,
          subject: { task_id: task.id, entry_id: freed.entry_id }
        }
      ])
    })
  )

  it.effect("the title is the question where no reason was given", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const { output } = yield* a.update(yield* a.task("PDF or UBL?"), { status: "blocked", blocked_kind: "decision" })
      const { answer: freed } = yield* answer(service, person(a.project_id), output.task, "UBL")
      assert.strictEqual(freed.status, "open")
      const { entry } = (yield* a.call("memory_get", { id: freed.entry_id })).output
      assert.deepInclude(entry, { title: "PDF or UBL?", body: "UBL\n\nPDF or UBL?" })
    })
  )

  it.effect("leaves a task open that waits for another, with its assignee", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const first = yield* a.task("First")
      const task = yield* ask(a, { depends_on: [first.id] })
      const { answer: freed } = yield* answer(service, person(a.project_id), task, "UBL")
      assert.deepInclude(freed, { status: "open", assignee: "agent-1" })
      assert.deepInclude(yield* taskOf(a, task.id), { claimed_at: null, ready: false })
    })
  )

  it.effect("says so when the credential that asked has answered", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const task = yield* ask(a)
      const self = person(a.project_id, task.asked_by.replace("project_token:", ""))
      yield* answer(service, self, task, "UBL")
      assert.isTrue((yield* taskOf(a, task.id)).answer.same_credential)
    })
  )

  it.effect("knows the credential that asked, also when another has changed the task since", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const other = yield* Agent.make(service, { project_id: a.project_id })
      for (const isOwn of [true, false]) {
        const asked = yield* ask(a)
        const { output } = yield* other.update(asked, { title: "Invoices" })
        const answerer = (isOwn ? asked.asked_by : output.task.updated_by).replace("project_token:", "")
        yield* answer(service, person(a.project_id, answerer), output.task, "UBL")
        assert.strictEqual((yield* taskOf(a, asked.id)).answer.same_credential, isOwn)
      }
    })
  )

  it.effect("is carried until the next receipt, whatever changes before", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const task = yield* ask(a)
      yield* answer(service, person(a.project_id), task, "UBL")
      const renamed = (yield* a.update(yield* taskOf(a, task.id), { title: "Renamed" })).output.task
      assert.strictEqual(renamed.answer.text, "UBL")
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "Used UBL." }
      const reported = (yield* a.update(renamed, { receipt })).output.task
      assert.isNull(reported.answer)
      const after = yield* taskOf(a, task.id)
      assert.isNull(after.answer)
      assert.strictEqual(after.answer_entry_id, renamed.answer_entry_id)
    })
  )

  it.effect("comes first in the snapshot, then what waits for a person, then what is at work", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const atWork = yield* a.task("at work", { priority: 0 })
      yield* a.update(atWork, { status: "in_progress" })
      const waiting = yield* ask(a)
      const answered = yield* ask(a)
      yield* answer(service, person(a.project_id), answered, "ü".repeat(2000))
      const { open_tasks } = (yield* a.call("continuity_context")).output
      assert.deepStrictEqual(
        open_tasks.map(({ id }: { id: string }) => id),
        [answered.id, waiting.id, atWork.id]
      )
      assert.strictEqual(Buffer.byteLength(open_tasks[0].answer.text), 599)
      assert.deepStrictEqual(open_tasks[1].choices, choices)
    })
  )

  it.effect("is refused for another version, a task that asks nothing, and another project's", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const ada = person(a.project_id)
      const task = yield* ask(a)
      const failed = <A, E extends { readonly _tag: string }>(self: Effect.Effect<A, E>) =>
        Effect.map(Effect.flip(self), ({ _tag }) => _tag)
      const stale = yield* Effect.flip(answer(service, ada, { id: task.id, version: 1 }, "UBL"))
      assert.deepInclude(stale, { _tag: "stale_version", details: { current_version: task.version } })
      const open = yield* a.task("T")
      assert.strictEqual(yield* failed(answer(service, ada, open, "UBL")), "task_not_asking")
      const { output } = yield* a.update(open, { status: "blocked", blocked_kind: "external" })
      assert.strictEqual(yield* failed(answer(service, ada, output.task, "UBL")), "task_not_asking")
      const other = yield* agent
      assert.strictEqual(yield* failed(answer(service, person(other.project_id), task, "UBL")), "task_not_found")
      assert.deepInclude(yield* taskOf(a, task.id), { version: task.version, status: "blocked" })
      assert.lengthOf((yield* a.call("memory_search")).output.entries, 0)
      assert.lengthOf(yield* audited(a.project_id), 0)
    })
  )

  it.effect("sent twice with one key is one answer; with another text, task or version the key is refused", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const ada = person(a.project_id)
      const task = yield* ask(a)
      const first = yield* answer(service, ada, task, "UBL", "k")
      const second = yield* answer(service, ada, task, "UBL", "k")
      assert.deepStrictEqual([first.replayed, second.replayed], [false, true])
      assert.deepStrictEqual(second.answer, first.answer)
      for (const other of [
        answer(service, ada, task, "PDF", "k"),
        answer(service, ada, yield* ask(a), "UBL", "k"),
        answer(service, ada, { ...task, version: task.version + 1 }, "UBL", "k")
      ]) {
        assert.strictEqual((yield* Effect.flip(other))._tag, "idempotency_conflict")
      }
      assert.lengthOf(yield* audited(a.project_id), 1)
    })
  )

  it.effect("counts as an entry and its bytes, and a full project changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent
      const task = yield* ask(a)
      const limits = Context.get(service.services, Limits)
      yield* limits.set(a.project_id, { entries: 0 })
      const full = yield* Effect.flip(answer(service, { ...person(a.project_id), limits: { entries: 0 } }, task, "UBL"))
      assert.deepInclude(full, { _tag: "limit_exceeded" })
      assert.strictEqual((full as any).details.limit, "entries")
      assert.deepInclude(yield* taskOf(a, task.id), { version: task.version, status: "blocked" })

      // There is room for one entry, and none in the index.
      const sql = yield* SqlClient.SqlClient
      const index = (bytes: number) =>
        sql`update project_usage set index_bytes = ${bytes}::bigint where project_id = ${a.project_id}::uuid`
      yield* index(4 * 2 ** 30)
      const indexed = yield* Effect.flip(
        answer(service, { ...person(a.project_id), limits: { entries: 1 } }, task, "UBL")
      )
      assert.strictEqual((indexed as any).details.limit, "index_bytes")
      assert.include(indexed.message, "would add more")
      yield* index(0)

      const used = Effect.map(
        limits.list(a.project_id),
        (all) => all.find(({ limit }) => limit === "stored_bytes")!.value!
      )
      const before = yield* used
      yield* answer(service, person(a.project_id), task, "UBL")
      const entry = Buffer.byteLength(`Should invoices be PDF or UBL?UBL\n\n${question}`)
      assert.strictEqual((yield* used) - before, entry + 3 - Buffer.byteLength(question) - 6)
    })
  )

  it.effect("travels with an export", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const a = yield* agent
      const asked = yield* ask(a)
      const answered = yield* ask(a)
      yield* answer({ services }, person(a.project_id), answered, "UBL")
      let file = ""
      const transfer = Context.get(services, Transfer)
      yield* transfer.save(a.project_id, (text) => Effect.sync(() => void (file += text)))
      const copy = yield* Agent.make({ services, url: a.url })
      yield* transfer.load(copy.project_id, Stream.make(Buffer.from(file)))
      for (const { id } of [asked, answered]) assert.deepStrictEqual(yield* taskOf(copy, id), yield* taskOf(a, id))

      const dangling = file.split("\n").filter((line) => !line.startsWith('{"memory"'))
      const counts = dangling.pop() === "" ? dangling.pop()! : ""
      const text = [...dangling, counts.replace(/"memory": ?1/, '"memory":0')].join("\n")
      const { project_id } = yield* Context.get(services, Projects).create("Copy")
      const refused = yield* Effect.flip(transfer.load(project_id, Stream.make(Buffer.from(text))))
      assert.deepInclude(refused, { _tag: "import_invalid" })
      assert.match(refused.message, /refers to a row/)
    })
  )
})
