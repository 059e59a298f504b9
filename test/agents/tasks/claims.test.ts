/** Claims of tasks hold, and a takeover leaves a trace (decisions.md, Claims). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Agent, issueToken } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

layer(Service.layer)("claims", (it) => {
  /** Two agents of one project, each with its own credential. */
  const two = Effect.gen(function* () {
    const service = yield* Service
    const ada = yield* Agent.make(service)
    return { ada, bob: new Agent({ ...ada, token: yield* issueToken(service, ada.project_id) }) }
  })
  const claim = (agent: Agent, task: { readonly id: string }, given: Readonly<Record<string, unknown>> = {}) =>
    agent.write("task_claim", { id: task.id, expected_version: 1, assignee: "agent", ...given })
  const found = (agent: Agent, { id }: { readonly id: string }) =>
    Effect.map(agent.call("task_get", { id }), ({ output }) => output)
  const actions = ({ project_id }: Agent, action: string) =>
    SqlClient.SqlClient.use(
      (sql) => sql<{ actor: string; subject: any }>`
      select actor, subject from audit_event where project_id = ${project_id}::uuid and action = ${action}`
    )

  it.effect("a claim puts the task to work for the credential and the assignee", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const task = yield* ada.task("Task")
      assert.isUndefined((yield* claim(ada, task, { assignee: "ada" })).code)
      const { task: claimed } = yield* found(ada, task)
      assert.deepInclude(claimed, {
        status: "in_progress",
        assignee: "ada",
        version: 2,
        claimed_by: claimed.created_by
      })
      assert.isNotNull(claimed.claimed_at)
    })
  )

  it.effect("without an assignee the credential is the assignee", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const task = yield* ada.task("Task")
      yield* ada.write("task_claim", { id: task.id, expected_version: 1 })
      const { task: claimed } = yield* found(ada, task)
      assert.strictEqual(claimed.assignee, claimed.created_by)
    })
  )

  it.effect("the same credential and assignee claim again without a change, whatever version they send", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const task = yield* ada.task("Task")
      yield* claim(ada, task)
      for (const expected_version of [1, 2, 9]) {
        assert.isUndefined((yield* claim(ada, task, { expected_version })).code)
      }
      assert.strictEqual((yield* found(ada, task)).task.version, 2)
    })
  )

  it.effect("the repeat of a claim with its key is a replay for its credential, and a conflict for any other", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      const given = { idempotency_key: "claim-1" }
      yield* claim(ada, task, given)
      assert.isTrue((yield* claim(ada, task, given)).output.replayed)
      assert.strictEqual((yield* claim(bob, task, given)).code, "idempotency_conflict")
      assert.strictEqual((yield* claim(bob, task, { idempotency_key: "claim-2" })).code, "task_claimed")
    })
  )

  for (const expected_version of [1, 2]) {
    it.effect(`another agent with version ${expected_version} is told who is at work and since when`, () =>
      Effect.gen(function* () {
        const { ada, bob } = yield* two
        const task = yield* ada.task("Task")
        yield* claim(ada, task, { assignee: "ada" })
        const { task: held } = yield* found(ada, task)
        const refused = yield* claim(bob, task, { assignee: "bob", expected_version })
        assert.strictEqual(refused.code, "task_claimed")
        assert.deepStrictEqual(refused.details, {
          assignee: "ada",
          claimed_by: held.claimed_by,
          since: held.claimed_at
        })
        assert.deepStrictEqual((yield* found(ada, task)).task, held)
      })
    )
  }

  it.effect(
    "the same name with another credential, and the same credential with another name, do not hold the task",
    () =>
      Effect.gen(function* () {
        const { ada, bob } = yield* two
        const task = yield* ada.task("Task")
        yield* claim(ada, task, { assignee: "agent" })
        assert.strictEqual((yield* claim(bob, task, { assignee: "agent", expected_version: 2 })).code, "task_claimed")
        assert.strictEqual((yield* claim(ada, task, { assignee: "other", expected_version: 2 })).code, "task_claimed")
      })
  )

  it.effect("task_update cannot take a task that another is at work on", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      yield* claim(ada, task, { assignee: "ada" })
      const { task: held } = yield* found(ada, task)
      for (const given of [
        { status: "in_progress", assignee: "bob" },
        { status: "in_progress" },
        { assignee: "bob" },
        { assignee: null }
      ]) {
        assert.strictEqual((yield* bob.update(held, given)).code, "task_claimed", JSON.stringify(given))
      }
      assert.strictEqual((yield* ada.update(held, { status: "in_progress", assignee: "bob" })).code, "task_claimed")
      assert.deepStrictEqual((yield* found(ada, task)).task, held)
    })
  )

  it.effect("others may still change what is no claim, and give the task back", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      yield* claim(ada, task)
      const tagged = yield* bob.update({ id: task.id, version: 2 }, { tags: ["tag"] })
      assert.isUndefined(tagged.code)
      assert.isUndefined((yield* bob.update({ id: task.id, version: 3 }, { status: "open" })).code)
      assert.isUndefined((yield* claim(bob, task, { assignee: "bob", expected_version: 4 })).code)
    })
  )

  it.effect("the holder hands the task over by name, and that name claims it", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      yield* claim(ada, task, { assignee: "ada" })
      assert.isUndefined((yield* ada.update({ id: task.id, version: 2 }, { assignee: "bob" })).code)
      assert.strictEqual((yield* claim(bob, task, { assignee: "eve", expected_version: 3 })).code, "task_claimed")
      assert.isUndefined((yield* claim(bob, task, { assignee: "bob", expected_version: 3 })).code)
      assert.strictEqual((yield* claim(ada, task, { assignee: "bob", expected_version: 4 })).code, "task_claimed")
    })
  )

  it.effect("a takeover needs the present version, and leaves an audit row and a note", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      yield* claim(ada, task, { assignee: "ada" })
      const takeover = { assignee: "bob", takeover: { reason: "She has not answered for a day" } }
      const stale = yield* claim(bob, task, takeover)
      assert.deepStrictEqual(
        [stale.code, stale.details],
        ["stale_version", { current_version: 2, status: "in_progress", assignee: "ada" }]
      )
      assert.isUndefined((yield* claim(bob, task, { ...takeover, expected_version: 2 })).code)
      const { notes, receipts, task: taken } = yield* found(bob, task)
      assert.deepInclude(taken, { assignee: "bob", version: 3, status: "in_progress" })
      assert.lengthOf(receipts, 0)
      assert.match(notes[0].text, /^Taken over from ada, at work since \S+: She has not answered for a day$/)
      const [row, ...more] = yield* actions(ada, "task.taken_over")
      assert.deepStrictEqual(
        [row, more],
        [{ actor: taken.claimed_by, subject: { task_id: task.id, note_id: notes[0].id } }, []]
      )
      // Whoever lost the task is told, and a repeated takeover changes nothing.
      assert.strictEqual((yield* claim(ada, task, { assignee: "ada", expected_version: 3 })).code, "task_claimed")
      yield* claim(bob, task, { ...takeover, expected_version: 2 })
      assert.lengthOf((yield* found(bob, task)).notes, 1)
    })
  )

  it.effect("a takeover of a task that nobody works on is a claim without a note", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const task = yield* ada.task("Task")
      assert.isUndefined((yield* claim(ada, task, { takeover: { reason: "x" } })).code)
      assert.deepStrictEqual((yield* found(ada, task)).notes, [])
      assert.deepStrictEqual(yield* actions(ada, "task.taken_over"), [])
    })
  )

  it.effect("a task that waits, asks a person, or is closed cannot be claimed", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const first = yield* ada.task("First")
      const waiting = yield* ada.task("Second", { depends_on: [first.id] })
      const open = yield* claim(ada, waiting)
      assert.deepStrictEqual([open.code, open.details], ["task_dependencies_open", { open: [first.id] }])
      const asking = yield* ada.task("Third")
      yield* ada.update(asking, { status: "blocked", blocked_kind: "decision" })
      assert.strictEqual((yield* claim(ada, asking, { expected_version: 2 })).code, "task_transition_invalid")
      yield* ada.update(first, { status: "done" })
      assert.strictEqual((yield* claim(ada, first, { expected_version: 2 })).code, "task_transition_invalid")
      assert.isUndefined((yield* claim(ada, waiting)).code)
    })
  )

  it.effect("a task that was blocked by something outside can be claimed again", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const task = yield* ada.task("Task")
      yield* ada.update(task, { status: "blocked", blocked_kind: "external", blocked_reason: "The supplier" })
      assert.isUndefined((yield* claim(ada, task, { expected_version: 2 })).code)
      assert.deepInclude((yield* found(ada, task)).task, { status: "in_progress", blocked_kind: null })
    })
  )

  it.effect("a blocked task waits for its open dependencies, and for no closed one", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const [open, done, cancelled] = [yield* ada.task("Open"), yield* ada.task("Done"), yield* ada.task("Cancelled")]
      const task = yield* ada.task("Task", { depends_on: [open.id, done.id, cancelled.id] })
      yield* ada.update(task, { status: "blocked", blocked_kind: "external", blocked_reason: "The supplier" })
      yield* ada.update(done, { status: "done" })
      yield* ada.update(cancelled, { status: "cancelled" })
      const { code, details } = yield* claim(ada, task, { expected_version: 2 })
      assert.deepStrictEqual([code, details], ["task_dependencies_open", { open: [open.id] }])
      yield* ada.update(open, { status: "cancelled" })
      assert.isUndefined((yield* claim(ada, task, { expected_version: 2 })).code)
    })
  )

  it.effect("a task that an earlier release claimed by name is held by that name", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      yield* claim(ada, task, { assignee: "ada" })
      yield* SqlClient.SqlClient.use((sql) => sql`update task set claimed_by = null where id = ${task.id}::uuid`)
      assert.strictEqual((yield* claim(bob, task, { assignee: "bob", expected_version: 2 })).code, "task_claimed")
      assert.isUndefined((yield* claim(bob, task, { assignee: "ada", expected_version: 2 })).code)
    })
  )

  it.effect("a task of another project is not found", () =>
    Effect.gen(function* () {
      const { ada } = yield* two
      const stranger = yield* Agent.make(yield* Service)
      const task = yield* ada.task("Task")
      assert.strictEqual((yield* claim(stranger, task)).code, "task_not_found")
      assert.strictEqual((yield* stranger.write("task_note", { id: task.id, text: "x" })).code, "task_not_found")
    })
  )

  it.effect("notes are kept in order, change no version, and are written once for a key", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Task")
      yield* ada.write("task_note", { id: task.id, text: "first" })
      const given = { id: task.id, text: "second", idempotency_key: "k" }
      const { output } = yield* bob.write("task_note", given)
      assert.deepStrictEqual((yield* bob.write("task_note", given)).output, { ...output, replayed: true })
      const { notes, task: kept } = yield* found(ada, task)
      assert.deepStrictEqual(
        notes.map(({ text }: { text: string }) => text),
        ["second", "first"]
      )
      assert.strictEqual(kept.version, 1)
      assert.lengthOf(yield* actions(ada, "task.noted"), 2)
    })
  )
})
