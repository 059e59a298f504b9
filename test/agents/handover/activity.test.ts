/** What happened in a project since a time, and its receipts (spec 4.11). */
import { assert, it as plain, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { instantOf } from "../../../src/agents/handover/Shapes.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

plain("an age is in minutes, hours, days or weeks, and none begins before 1970", () => {
  const now = new Date("1970-03-01T00:00:00Z")
  const ages = ["90m", "24h", "7d", "2w", "9999w"].map((age) => instantOf(age, now).toISOString())
  assert.deepStrictEqual(
    ages.map((at) => at.slice(0, 16)),
    ["1970-02-28T22:30", "1970-02-28T00:00", "1970-02-22T00:00", "1970-02-15T00:00", "1970-01-01T00:00"]
  )
})

layer(Service.layer)("activity", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const receipt = { session_ref: "s", worker: "ada", outcome: "progress", summary: "Half of it." }
  /** One of each, an hour apart: an old task; then a note, a decision, a note on the task, and a receipt. */
  const project = Effect.gen(function* () {
    const a = yield* agent
    const task = yield* a.task("Paint the gate")
    yield* a.task("Untouched")
    yield* TestClock.adjust("2 days")
    const note = yield* a.note("Green is sold out")
    yield* TestClock.adjust("1 hour")
    const decision = yield* a.note("The gate is blue", { kind: "decision", task_id: task.id })
    yield* TestClock.adjust("1 hour")
    yield* a.write("task_note", { id: task.id, text: "First coat" })
    yield* TestClock.adjust("1 hour")
    yield* a.update(task, { receipt })
    yield* TestClock.adjust("1 hour")
    return { a, task, note, decision }
  })
  const since = (a: Agent, given: Readonly<Record<string, unknown>>) =>
    Effect.map(a.call("activity", given), ({ output, text }) => {
      assert.isDefined(output, text)
      return output
    })
  const kinds = (page: any): Array<string> => page.activity.map(({ kind }: { kind: string }) => kind)

  it.effect("says what happened since yesterday in one call, the newest first", () =>
    Effect.gen(function* () {
      const { a, decision, note, task } = yield* project
      const page = yield* since(a, { since: "24h" })
      assert.sameMembers(kinds(page).slice(0, 2), ["receipt", "task"])
      assert.deepStrictEqual(kinds(page).slice(2), ["task_note", "decision", "note"])
      const [, , onTask, decided, noted] = page.activity
      const now = { id: task.id, title: "Paint the gate", status: "open", version: 2 }
      assert.deepInclude(onTask, { text: "First coat", actor: task.created_by, task: now })
      assert.deepInclude(decided, { id: decision.id, title: "The gate is blue", task: now })
      assert.deepInclude(noted, { id: note.id, text: "Green is sold out", task: null })
      const [written] = page.activity.filter(({ kind }: { kind: string }) => kind === "receipt")
      assert.deepInclude(written, { title: "progress", text: "Half of it.", task: now })
      assert.notProperty(page, "next_cursor")
    })
  )

  for (const [name, given, expected] of [
    ["90m", { since: "90m" }, ["receipt", "task"]],
    ["4h with one kind", { since: "4h", kinds: ["decision"] }, ["decision"]],
    ["a week", { since: "1w", kinds: ["task"] }, ["task", "task"]],
    ["0m", { since: "0m" }, []]
  ] as const) {
    it.effect(`since ${name}: ${expected.join(", ") || "nothing"}`, () =>
      Effect.gen(function* () {
        const { a } = yield* project
        assert.sameMembers(kinds(yield* since(a, given)), [...expected])
      })
    )
  }

  it.effect("takes a time, and returns the instant that an age names", () =>
    Effect.gen(function* () {
      const { a } = yield* project
      const page = yield* since(a, { since: "90m" })
      assert.deepStrictEqual(kinds(yield* since(a, { since: page.since })), kinds(page))
    })
  )

  it.effect("pages of one item each have everything once, also of one kind, and when time passes between them", () =>
    Effect.gen(function* () {
      const { a } = yield* project
      for (const given of [{ since: "24h" }, { since: "1w", kinds: ["task"] }]) {
        const whole = yield* since(a, given)
        const found: Array<unknown> = []
        let cursor: string | undefined
        do {
          const page = yield* since(a, { ...given, limit: 1, ...(cursor === undefined ? undefined : { cursor }) })
          found.push(...page.activity)
          cursor = page.next_cursor
          yield* TestClock.adjust("1 hour")
        } while (cursor !== undefined)
        assert.deepStrictEqual(found, whole.activity)
      }
    })
  )

  it.effect("a cursor of another question is refused, and so is what is no time", () =>
    Effect.gen(function* () {
      const { a } = yield* project
      const { next_cursor: cursor } = yield* since(a, { since: "24h", limit: 1 })
      assert.strictEqual((yield* a.call("activity", { since: "23h", cursor })).code, "cursor_invalid")
      assert.strictEqual((yield* a.call("activity", { since: "24h", kinds: ["note"], cursor })).code, "cursor_invalid")
      const position = JSON.parse(Buffer.from(cursor, "base64url").toString())
      const [at, id, asked] = position.k
      for (const k of [
        [at, id],
        [at, "x", asked],
        ["2026-02-30T00:00:00.000Z", id, asked],
        [at, id, "yesterday"]
      ]) {
        const made = Buffer.from(JSON.stringify({ ...position, k })).toString("base64url")
        assert.strictEqual((yield* a.call("activity", { since: "24h", cursor: made })).code, "cursor_invalid", `${k}`)
      }
      for (const since of ["yesterday", "24", "h", "99999h", "2026-02-30T00:00:00Z", ""]) {
        const { code, details } = yield* a.call("activity", { since })
        assert.deepStrictEqual([code, details?.field], ["invalid_request", "since"], since)
      }
    })
  )

  it.effect("leaves out decisions and notes that were superseded since", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const decision = yield* a.note("The gate is blue", { kind: "decision" })
      const note = yield* a.note("Green is sold out")
      yield* TestClock.adjust("1 hour")
      const decided = yield* a.note("The gate is red", { kind: "decision", supersedes: decision.id })
      const noted = yield* a.note("Green is here", { supersedes: note.id })
      const page = yield* since(a, { since: "1d" })
      assert.sameMembers(
        page.activity.map(({ id }: { id: string }) => id),
        [decided.id, noted.id]
      )
    })
  )

  it.effect("names each once, though another project has tasks of the same ids", () =>
    Effect.gen(function* () {
      const { a } = yield* project
      const before = yield* since(a, { since: "24h" })
      const copy = yield* agent
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into task
        select (jsonb_populate_record(t, jsonb_build_object('project_id', ${copy.project_id}::text, 'title', 'A copy'))).*
          from task t
         where project_id = ${a.project_id}::uuid`
      assert.deepStrictEqual(yield* since(a, { since: "24h" }), before)
    })
  )

  it.effect("another project sees nothing of it", () =>
    Effect.gen(function* () {
      const { task } = yield* project
      const stranger = yield* agent
      assert.deepStrictEqual((yield* since(stranger, { since: "2w" })).activity, [])
      assert.deepStrictEqual((yield* stranger.call("receipt_list")).output.receipts, [])
      assert.strictEqual((yield* stranger.call("receipt_list", { task_id: task.id })).code, "task_not_found")
    })
  )

  it.effect("receipts are listed by task, worker and time, page by page", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const [one, two] = [yield* a.task("One"), yield* a.task("Two")]
      const report = (task: { readonly id: string; readonly version: number }, session_ref: string, worker: string) =>
        a.update(task, { receipt: { ...receipt, session_ref, worker } })
      yield* report(one, "a", "ada")
      yield* TestClock.adjust("2 hours")
      yield* report(two, "b", "bob")
      yield* report({ id: one.id, version: 2 }, "c", "bob")
      const sessions = (given: Readonly<Record<string, unknown>>) =>
        Effect.map(a.call("receipt_list", given), ({ output }) =>
          output.receipts.map(({ session_ref }: { session_ref: string }) => session_ref)
        )
      assert.deepStrictEqual(yield* sessions({}), ["c", "b", "a"])
      assert.deepStrictEqual(yield* sessions({ task_id: one.id }), ["c", "a"])
      assert.deepStrictEqual(yield* sessions({ worker: "bob" }), ["c", "b"])
      assert.deepStrictEqual(yield* sessions({ since: "1h" }), ["c", "b"])
      assert.deepStrictEqual(yield* sessions({ task_id: one.id, worker: "bob", since: "1h" }), ["c"])
      const { output } = yield* a.call("receipt_list", { worker: "bob", limit: 1 })
      assert.deepStrictEqual(yield* sessions({ worker: "bob", limit: 1, cursor: output.next_cursor }), ["b"])
      for (const other of [{ worker: "ada" }, { worker: undefined }, { task_id: one.id }, { since: "1h" }]) {
        const { code } = yield* a.call("receipt_list", { worker: "bob", ...other, cursor: output.next_cursor })
        assert.strictEqual(code, "cursor_invalid", JSON.stringify(other))
      }
    })
  )
})
