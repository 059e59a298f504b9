/** Tasks and receipts (spec 2.8, 3.5, 4.11). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { furthest } from "../../../src/agents/tasks/dependencies/Cycle.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

const statuses = ["open", "in_progress", "blocked", "done", "cancelled"] as const
type Status = (typeof statuses)[number]

const transitions: Record<Status, ReadonlyArray<Status>> = {
  open: ["in_progress", "blocked", "done", "cancelled"],
  in_progress: ["open", "in_progress", "blocked", "done", "cancelled"],
  blocked: ["open", "in_progress", "done", "cancelled"],
  done: ["open"],
  cancelled: ["open"]
}

const receipt = (session_ref: string, more: object = {}) => ({
  session_ref,
  worker: "worker-1",
  outcome: "handoff",
  summary: "Half of it is done.",
  ...more
})

layer(Service.layer)("tasks", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))
  const receiptsOf = (task_id: string) =>
    SqlClient.SqlClient.use(
      (sql) => sql<{ session_ref: string }>`
      select session_ref from receipt where task_id = ${task_id}::uuid`
    )

  it.effect("a task starts open with version 1 and priority 2", () =>
    Effect.gen(function* () {
      const task = yield* (yield* agent).task("Write tests")
      assert.deepInclude(task, { status: "open", version: 1, priority: 2, ready: true, assignee: null, depends_on: [] })
    })
  )

  for (const from of statuses) {
    for (const to of statuses) {
      const allowed = from === to || transitions[from].includes(to)
      it.effect(`${from} to ${to} ${allowed ? "is allowed" : "is refused and changes nothing"}`, () =>
        Effect.gen(function* () {
          const a = yield* agent
          let task = yield* a.task("T")
          if (from !== "open") task = (yield* a.update(task, { status: from })).output.task
          const { code, output } = yield* a.update(task, { status: to })
          if (allowed) assert.deepInclude(output.task, { status: to, version: task.version + 1 })
          else {
            assert.strictEqual(code, "task_transition_invalid")
            assert.strictEqual((yield* a.call("task_get", { id: task.id })).output.task.version, task.version)
          }
        })
      )
    }
  }

  it.effect("claiming sets assignee and claimed_at, releasing clears both", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      const claimed = (yield* a.update(task, { status: "in_progress", assignee: "ada" })).output.task
      assert.strictEqual(claimed.assignee, "ada")
      assert.isNotNull(claimed.claimed_at)
      const released = (yield* a.update(claimed, { status: "open" })).output.task
      assert.deepInclude(released, { assignee: null, claimed_at: null })
    })
  )

  it.effect("a closed task keeps the time at which it was closed, until it is opened again", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const done = (yield* a.update(yield* a.task("T"), { status: "done" })).output.task
      yield* TestClock.adjust("1 second")
      const renamed = (yield* a.update(done, { title: "U" })).output.task
      assert.strictEqual(renamed.closed_at, done.closed_at)
      const again = (yield* a.update(renamed, { status: "open" })).output.task
      assert.isNull(again.closed_at)
      const later = (yield* a.update(again, { status: "done" })).output.task
      assert.isAbove(Date.parse(later.closed_at), Date.parse(done.closed_at))
    })
  )

  it.effect("a stale expected_version leaves task and receipts unchanged", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      const current = (yield* a.update(task, { title: "U" })).output.task
      const stale = yield* a.update(task, { title: "V", receipt: receipt("s") })
      assert.strictEqual(stale.code, "stale_version")
      assert.deepStrictEqual(stale.details, { current_version: 2, status: "open", assignee: null })
      assert.deepStrictEqual((yield* a.call("task_get", { id: task.id })).output.task, current)
      assert.lengthOf(yield* receiptsOf(task.id), 0)
    })
  )

  it.effect("a receipt is written with the update and read with the task", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const git_checkpoint = {
        repository: "github.com/acme/shop",
        branch: "main",
        commit_sha: "0".repeat(40),
        dirty: true,
        pushed: false
      }
      const task = yield* a.task("T")
      const updated = yield* a.update(task, {
        status: "in_progress",
        receipt: receipt("s", { git_checkpoint, next_steps: ["a\nof two lines", "b"], thread: "t" })
      })
      const found = (yield* a.call("task_get", { id: task.id })).output
      assert.deepStrictEqual(found.receipts, [updated.output.receipt])
      assert.deepInclude(updated.output.receipt, {
        task_version_after: 2,
        task_status_after: "in_progress",
        git_checkpoint,
        next_steps: ["a\nof two lines", "b"],
        pitfalls: []
      })
    })
  )

  it.effect("a second receipt of one session is refused, and its update rolled back", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      const once = (yield* a.update(task, { receipt: receipt("s") })).output.task
      const twice = yield* a.update(once, { status: "done", receipt: receipt("s") })
      assert.strictEqual(twice.code, "receipt_exists")
      assert.deepStrictEqual((yield* a.call("task_get", { id: task.id })).output.task, once)
    })
  )

  it.effect("a session may write receipts for different tasks", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (const title of ["T", "U"]) {
        const { output } = yield* a.update(yield* a.task(title), { receipt: receipt("s") })
        assert.strictEqual(output.receipt.session_ref, "s")
      }
    })
  )

  it.effect("a retried update with its idempotency key returns the original result, not a stale version", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      const given = { status: "in_progress", receipt: receipt("s"), idempotency_key: "k" }
      const first = yield* a.update(task, given)
      const again = yield* a.update(task, given)
      assert.deepStrictEqual(again.output, { ...first.output, replayed: true })
      assert.lengthOf(yield* receiptsOf(task.id), 1)
    })
  )

  it.effect("refusals in order: not found, stale version, claimed, fields, transition, dependencies, receipt", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const other = yield* Agent.make(yield* Service, { project_id: a.project_id })
      const theirs = yield* a.task("Theirs")
      yield* other.update(theirs, { status: "in_progress", assignee: "other" })
      const take = { assignee: "me", blocked_kind: "decision" }
      const version = (version: number) => ({ id: theirs.id, version })
      assert.strictEqual((yield* a.update(version(1), take)).code, "stale_version")
      assert.strictEqual((yield* a.update(version(2), take)).code, "task_claimed")
      assert.strictEqual((yield* other.update(version(2), { blocked_kind: "decision" })).code, "invalid_request")
      const waiting = yield* a.task("Waiting", { depends_on: [theirs.id] })
      const told = (yield* a.update(waiting, { receipt: receipt("s") })).output.task
      const start = { status: "in_progress", receipt: receipt("s") }
      assert.strictEqual((yield* a.update(told, start)).code, "task_dependencies_open")
      const closed = (yield* a.update(told, { status: "done" })).output.task
      assert.strictEqual((yield* a.update(closed, start)).code, "task_transition_invalid")
      const task = yield* a.task("T")
      const done = (yield* a.update(task, { status: "done", receipt: receipt("s") })).output.task
      const wrong = { status: "blocked", receipt: receipt("s") }
      assert.strictEqual((yield* a.update({ ...done, id: randomUUID() }, wrong)).code, "task_not_found")
      assert.strictEqual((yield* a.update(task, wrong)).code, "stale_version")
      assert.strictEqual((yield* a.update(done, wrong)).code, "task_transition_invalid")
      assert.strictEqual((yield* a.update(done, { receipt: receipt("s") })).code, "receipt_exists")
    })
  )

  it.effect("task_not_found tells the client to stop", () =>
    Effect.gen(function* () {
      const { code, text } = yield* (yield* agent).call("task_get", { id: randomUUID() })
      assert.strictEqual(code, "task_not_found")
      assert.match(text, /Stop: do not recreate it, migrate it or search other projects/)
    })
  )

  it.effect("a task with unfinished dependencies is not ready and cannot be claimed", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const first = yield* a.task("first")
      const second = yield* a.task("second", { depends_on: [first.id] })
      assert.isFalse(second.ready)
      const refused = yield* a.update(second, { status: "in_progress" })
      assert.strictEqual(refused.code, "task_dependencies_open")
      assert.deepStrictEqual(refused.details, { open: [first.id] })
      yield* a.update(first, { status: "done" })
      const listed = yield* a.call("task_list", { ready: true })
      assert.deepStrictEqual(
        listed.output.tasks.map(({ id }: { id: string }) => id),
        [second.id]
      )
      assert.strictEqual((yield* a.update(second, { status: "in_progress" })).output.task.status, "in_progress")
    })
  )

  it.effect("a task that is given an unfinished dependency cannot be claimed by the same update", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const [first, second] = [yield* a.task("first"), yield* a.task("second")]
      const { code } = yield* a.update(second, { status: "in_progress", depends_on: [first.id] })
      assert.strictEqual(code, "task_dependencies_open")
    })
  )

  it.effect("task_get returns the dependencies of a task and the tasks that depend on it", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const first = yield* a.task("first")
      const second = yield* a.task("second", { depends_on: [first.id] })
      const link = { title: "first", status: "open", id: first.id }
      assert.deepStrictEqual((yield* a.call("task_get", { id: second.id })).output.dependencies, [link])
      assert.deepStrictEqual((yield* a.call("task_get", { id: first.id })).output.blocks, [
        { id: second.id, title: "second", status: "open" }
      ])
    })
  )

  it.effect("of the tasks that depend on a task, the open ones come first, then the urgent ones", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* a.task("first")
      const waiting = (title: string, priority: number) => a.task(title, { priority, depends_on: [id] })
      yield* a.update(yield* waiting("closed", 0), { status: "cancelled" })
      yield* waiting("open", 3)
      yield* waiting("urgent", 1)
      const { blocks } = (yield* a.call("task_get", { id })).output
      assert.deepStrictEqual(
        blocks.map(({ title }: { title: string }) => title),
        ["urgent", "open", "closed"]
      )
    })
  )

  it.effect("dependencies never form a cycle", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const first = yield* a.task("first")
      const second = yield* a.task("second", { depends_on: [first.id] })
      const third = yield* a.task("third", { depends_on: [second.id] })
      for (const id of [first.id, second.id, third.id]) {
        assert.strictEqual((yield* a.update(first, { depends_on: [id] })).code, "task_dependency_cycle")
      }
      assert.deepStrictEqual((yield* a.call("task_get", { id: first.id })).output.task, first)
    })
  )

  it.effect("a check for a cycle visits at most 2,000 tasks on either side", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const ids = Array.from({ length: 2 * furthest + 10 }, () => randomUUID())
      const [before, after] = [ids.slice(0, -1), ids.slice(1)]
      yield* sql`
        insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
        select ${a.project_id}::uuid, id, 'T', '', 'open', 2, '{}', 1, 'x', now(), now()
          from unnest(${ids}::uuid[]) as t (id)`
      yield* sql`
        insert into task_dependency (project_id, task_id, depends_on)
        select ${a.project_id}::uuid, task_id, depends_on
          from unnest(${before}::uuid[], ${after}::uuid[]) as d (task_id, depends_on)`
      const other = yield* a.task("another")
      const update = (at: number, depends_on: ReadonlyArray<string>) =>
        Effect.map(a.update({ id: ids.at(at)!, version: 1 }, { depends_on }), ({ code }) => code)
      assert.strictEqual(yield* update(furthest + 5, [ids[furthest + 7]!]), "task_graph_too_large")
      assert.strictEqual(yield* update(-1, [ids[0]!]), "task_graph_too_large")
      assert.strictEqual(yield* update(-1, [ids.at(-furthest)!]), "task_dependency_cycle")
      assert.strictEqual(yield* update(furthest, [ids[1]!]), "task_dependency_cycle")
      assert.lengthOf((yield* a.call("task_list")).output.tasks, 25)
      // One side ends, or nothing is added.
      assert.isUndefined(yield* update(0, [ids[3]!]))
      assert.isUndefined(yield* update(furthest + 5, [other.id]))
      assert.isUndefined(yield* update(-2, []))
    })
  )

  it.effect("of two concurrent updates that together close a cycle, one is refused", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (let round = 0; round < 10; round += 1) {
        const [one, two] = [yield* a.task("one"), yield* a.task("two")]
        const results = yield* Effect.all(
          [a.update(one, { depends_on: [two.id] }), a.update(two, { depends_on: [one.id] })],
          { concurrency: 2 }
        )
        assert.deepStrictEqual(
          results.map(({ code }) => code).toSorted((a, b) => (a ?? "").localeCompare(b ?? "")),
          ["task_dependency_cycle", undefined].toSorted()
        )
      }
    })
  )

  it.effect("an unknown dependency is task_not_found, and no task is created", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const refused = yield* a.write("task_create", { title: "T", depends_on: [randomUUID()] })
      assert.strictEqual(refused.code, "task_not_found")
      assert.deepStrictEqual((yield* a.call("task_list")).output.tasks, [])
    })
  )

  it.effect("blocked_kind defaults to other and is cleared when the task is no longer blocked", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      const blocked = (yield* a.update(task, { status: "blocked", blocked_reason: "Which color?" })).output.task
      assert.strictEqual(blocked.blocked_kind, "other")
      const decision = (yield* a.update(blocked, { blocked_kind: "decision" })).output.task
      assert.deepInclude(decision, { blocked_kind: "decision", blocked_reason: "Which color?" })
      const open = (yield* a.update(decision, { status: "open" })).output.task
      assert.deepInclude(open, { blocked_kind: null, blocked_reason: null })
    })
  )

  it.effect("blocked_kind without status blocked is refused", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const refused = yield* a.update(yield* a.task("T"), { blocked_kind: "decision" })
      assert.strictEqual(refused.code, "invalid_request")
    })
  )

  for (const order of ["priority", "updated"] as const) {
    it.effect(`pages of tasks ordered by ${order} contain each task once`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        const tasks: Array<{ id: string; priority: number }> = []
        for (let index = 0; index < 7; index += 1) {
          yield* TestClock.adjust("1 second")
          tasks.push(yield* a.task(`T${index}`, { priority: index % 3 }))
        }
        const expected = order === "updated" ? tasks.toReversed() : tasks.toSorted((a, b) => a.priority - b.priority)
        const seen: Array<string> = []
        let cursor: string | undefined
        do {
          const { output } = yield* a.call("task_list", {
            limit: 2,
            order,
            ...(cursor === undefined ? {} : { cursor })
          })
          seen.push(...output.tasks.map((task: { id: string }) => task.id))
          cursor = output.next_cursor
        } while (cursor !== undefined)
        assert.deepStrictEqual(
          seen,
          expected.map(({ id }) => id)
        )
        assert.notProperty((yield* a.call("task_list", { limit: 7, order })).output, "next_cursor")
      })
    )
  }

  it.effect("a cursor of another list of tasks is refused, and so is one that no page ended with", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* a.task("T")
      yield* a.task("U")
      const { next_cursor } = (yield* a.call("task_list", { limit: 1 })).output
      const position = JSON.parse(Buffer.from(next_cursor, "base64url").toString())
      const cursorOf = (changed: object) =>
        Buffer.from(JSON.stringify({ ...position, ...changed })).toString("base64url")
      const [priority, at] = position.k
      for (const given of [
        { order: "updated" },
        { status: ["open"] },
        { ready: true },
        { assignee: "ada" },
        { tag: "ci" },
        { parent: id },
        { cursor: cursorOf({ v: 2 }) },
        ...[
          [5, at, id],
          [-1, at, id],
          [1.5, at, id],
          [priority, "2026-01-01", id],
          [priority, at, "x"],
          [at, id]
        ].map((k) => ({ cursor: cursorOf({ k }) }))
      ]) {
        const { code } = yield* a.call("task_list", { limit: 1, cursor: next_cursor, ...given })
        assert.strictEqual(code, "cursor_invalid", JSON.stringify(given))
      }
      const [last] = (yield* a.call("task_list", { cursor: next_cursor })).output.tasks
      assert.strictEqual(last.title, "U")
    })
  )

  it.effect("task_list filters by status, assignee and tag and omits bodies", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const wanted = yield* a.task("T", { tags: ["ci"], body: "long" })
      yield* a.update(wanted, { status: "in_progress", assignee: "ada" })
      yield* a.task("U", { tags: ["ci"] })
      const { output } = yield* a.call("task_list", { status: ["in_progress"], assignee: "ada", tag: "ci" })
      assert.lengthOf(output.tasks, 1)
      assert.strictEqual(output.tasks[0].id, wanted.id)
      assert.notProperty(output.tasks[0], "body")
    })
  )
})
