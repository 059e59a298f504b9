/**
 * Twelve things that agents do with a project. A scripted model plays them: it knows the server's instructions, the list of
 * tools and the text of each answer, and nothing else. Each scenario has an end that helps, and a budget of calls and tokens.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { TestClock } from "effect/testing"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { answer, person } from "../../support/agents/Answers.ts"
import { Agent, issueToken } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

type Given = Readonly<Record<string, unknown>>

/** An agent that sees what a model sees. */
class Model {
  readonly agent: Agent
  readonly project_id: string
  calls = 0
  /** Tokens of four characters that it was given to read, beside the list of tools. */
  tokens = 0
  private write_context: unknown

  constructor(agent: Agent) {
    this.agent = agent
    this.project_id = agent.project_id
  }

  static start = Effect.fnUntraced(function* (agent: Agent) {
    const model = new Model(agent)
    const { body } = yield* agent.post("server/discover")
    const { instructions } = body.result as { instructions: string }
    model.tokens += instructions.length / 4
    model.write_context = JSON.parse(/write_context with every write: (\{[^}]*\})/.exec(instructions)![1]!)
    return model
  })

  /** Calls a tool and reads its answer: the output, or `error` with code, message and details. */
  call(tool: string, given: Given = {}) {
    return Effect.map(this.agent.call(tool, given), ({ text }) => {
      this.calls += 1
      this.tokens += text.length / 4
      return JSON.parse(text)
    })
  }

  write(tool: string, given: Given) {
    return this.call(tool, { write_context: this.write_context, ...given })
  }

  task(title: string, given: Given = {}) {
    return Effect.map(this.write("task_create", { title, ...given }), ({ task }) => task)
  }
}

const receipt = (given: Given = {}) => ({
  session_ref: "monday",
  worker: "ada",
  thread: "cart",
  outcome: "handoff",
  summary: "The cart is priced; the discount is not.",
  ...given
})

layer(Service.layer, { timeout: 60_000 })("an agent", (it) => {
  /** Models in one new project, each with a credential of its own. */
  const models = Effect.fnUntraced(function* (...names: ReadonlyArray<string>) {
    const service = yield* Service
    const { project_id } = yield* Context.get(service.services, Projects).create("Shop")
    return yield* Effect.forEach(names, () => Effect.flatMap(Agent.make(service, { project_id }), Model.start))
  })
  const one = Effect.map(models("ada"), ([ada]) => ada!)
  const two = Effect.map(models("ada", "bob"), ([ada, bob]) => ({ ada: ada!, bob: bob! }))

  it.effect("1. knows where work stands after one call, and can write without a second", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      yield* ada.task("Price the cart")
      yield* ada.write("memory_add", { kind: "decision", title: "Prices are in cents", body: "Integers, no floats." })
      const { open_tasks, recent_memory } = yield* bob.call("continuity_context")
      assert.deepStrictEqual([open_tasks[0].title, recent_memory[0].title], ["Price the cart", "Prices are in cents"])
      const { id, version } = open_tasks[0]
      assert.strictEqual((yield* bob.write("task_claim", { id, expected_version: version })).task.status, "in_progress")
      assert.strictEqual(bob.calls, 2)
      assert.isBelow(bob.tokens, 800)
    })
  )

  it.effect("2. takes over where another stopped, with the pitfalls and the next steps", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const task = yield* ada.task("Price the cart")
      const claimed = yield* ada.write("task_claim", { id: task.id, expected_version: 1 })
      yield* ada.write("task_note", { id: task.id, text: "Prices come from the catalogue" })
      yield* ada.write("task_note", { id: task.id, text: "Discounts come from the campaign" })
      yield* ada.write("task_update", {
        id: task.id,
        expected_version: claimed.task.version,
        status: "open",
        receipt: receipt({ next_steps: ["Apply the discount"], pitfalls: ["Rounding twice loses a cent"] })
      })
      const { open_tasks, recent_receipts } = yield* bob.call("continuity_context")
      assert.deepInclude(open_tasks[0], { id: task.id, status: "open" })
      assert.deepInclude(recent_receipts[0], {
        next_steps: ["Apply the discount"],
        pitfalls: ["Rounding twice loses a cent"]
      })
      const whole = JSON.stringify(yield* bob.call("task_get", { id: task.id }))
      assert.include(whole, "Prices come from the catalogue")
      assert.include(whole, "Discounts come from the campaign")
    })
  )

  it.effect("3. cannot take a task from another by an obvious retry, only on purpose and with a reason", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const { id } = yield* ada.task("Price the cart")
      yield* ada.write("task_claim", { id, expected_version: 1, assignee: "ada" })
      const refused = yield* bob.write("task_claim", { id, expected_version: 1, assignee: "bob" })
      assert.strictEqual(refused.error.code, "task_claimed")
      assert.strictEqual(refused.error.details.assignee, "ada")
      const { task } = yield* bob.call("task_get", { id })
      const retry = { id, expected_version: task.version }
      assert.strictEqual((yield* bob.write("task_claim", { ...retry, assignee: "bob" })).error.code, "task_claimed")
      const takeover = { reason: "Ada's machine is gone" }
      const taken = yield* bob.write("task_claim", { ...retry, assignee: "bob", takeover })
      assert.strictEqual(taken.task.assignee, "bob")
      const late = yield* ada.write("task_update", { id, expected_version: 2, status: "done" })
      assert.strictEqual(late.error.code, "stale_version")
      assert.deepInclude(late.error.details, { assignee: "bob", status: "in_progress" })
      assert.include(JSON.stringify(yield* ada.call("task_get", { id })), "Ada's machine is gone")
    })
  )

  it.effect("4. learns which earlier decision its own contradicts, and finds the newer one afterwards", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const decision = { kind: "decision", tags: ["Payments"] }
      const first = yield* ada.write("memory_add", {
        ...decision,
        title: "Retry failed payments three times",
        body: "After the third failure the order is cancelled."
      })
      const second = yield* bob.write("memory_add", {
        ...decision,
        title: "Do not retry failed payments",
        body: "The provider retries failed payments by itself."
      })
      assert.strictEqual(second.similar[0].id, first.entry.id)
      const third = yield* bob.write("memory_add", {
        ...decision,
        title: "The provider alone retries failed payments",
        body: "We cancel the order when the provider gives up.",
        supersedes: second.similar[0].id
      })
      const again = yield* ada.write("memory_add", { kind: "note", body: "Five times", supersedes: first.entry.id })
      assert.strictEqual(again.error.code, "memory_already_superseded")
      assert.include(JSON.stringify(again.error.details), third.entry.id)
      const { entries } = yield* ada.call("memory_search", { query: "how often do we retry failed payments" })
      const found = entries.map(({ id }: { id: string }) => id)
      assert.include(found, third.entry.id)
      assert.notInclude(found, first.entry.id)
    })
  )

  it.effect("5. asks a person, waits, and the next agent sees the answer first", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const service = yield* Service
      for (const title of ["Write the mail", "Move the logo"]) yield* ada.task(title, { priority: 0 })
      const { id } = yield* ada.task("Choose the invoice format", { priority: 4 })
      const { task } = yield* ada.write("task_update", {
        id,
        expected_version: 1,
        status: "blocked",
        blocked_kind: "decision",
        blocked_reason: "PDF or UBL?",
        choices: ["PDF", "UBL"]
      })
      const asked = yield* bob.call("continuity_context")
      assert.deepInclude(asked.open_tasks[0], { id, blocked_reason: "PDF or UBL?" })
      assert.strictEqual(asked.counts.decisions, 1)
      yield* answer(service, person(ada.project_id), task, "UBL")
      const { changed } = yield* ada.call("task_wait", { id, version: task.version })
      assert.isTrue(changed)
      const answered = yield* bob.call("continuity_context")
      assert.strictEqual(answered.open_tasks[0].id, id)
      assert.strictEqual(answered.open_tasks[0].answer.text, "UBL")
      const { entries } = yield* bob.call("memory_search", { query: "invoice format PDF or UBL" })
      assert.strictEqual(entries[0].kind, "decision")
    })
  )

  it.effect("6. finds what a crashed one was doing, since when, and how far it came", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const { id } = yield* ada.task("Price the cart")
      yield* ada.write("task_claim", { id, expected_version: 1, assignee: "ada" })
      yield* ada.write("task_note", { id, text: "Half of the tests are green" })
      yield* TestClock.adjust("25 hours")
      const { open_tasks } = yield* bob.call("continuity_context")
      assert.deepInclude(open_tasks[0], { id, assignee: "ada", status: "in_progress", stale: true })
      assert.include(JSON.stringify(yield* bob.call("task_get", { id })), "Half of the tests are green")
    })
  )

  it.effect("7. finds one of 300 tasks by its words for under a thousand tokens", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const body = "An ordinary task of the shop, as there are many. ".repeat(20)
      for (let batch = 0; batch < 6; batch += 1) {
        const tasks = Array.from({ length: 50 }, (_, index) => ({ title: `Chore ${batch * 50 + index}`, body }))
        if (batch === 2) tasks[7] = { title: "Rotate the webhook secret", body: "Before the partner's audit in May." }
        const { tasks: made } = yield* ada.write("task_create_many", { tasks })
        assert.lengthOf(made, 50)
      }
      const before = bob.tokens
      const { hits } = yield* bob.call("search", {
        query: "webhook secret rotation before audit",
        in: ["tasks"],
        limit: 5
      })
      assert.strictEqual(hits[0].title, "Rotate the webhook secret")
      assert.isBelow(bob.tokens - before, 1000)
    })
  )

  it.effect("8. sees one repository's work alone", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      const git_checkpoint = { branch: "main", commit_sha: "0".repeat(40), dirty: false, pushed: true }
      for (const repository of ["git@example.com:acme/shop.git", "git@example.com:acme/app.git"]) {
        const { id } = yield* ada.task(`Work in ${repository}`)
        const update = { id, expected_version: 1, status: "in_progress" }
        const left = receipt({ git_checkpoint: { repository, ...git_checkpoint } })
        assert.isUndefined((yield* ada.write("task_update", { ...update, receipt: left })).error)
      }
      const { open_tasks, recent_receipts } = yield* bob.call("continuity_context", {
        repository: "git@example.com:acme/app.git"
      })
      assert.deepStrictEqual(
        [open_tasks, recent_receipts].map(({ length }) => length),
        [1, 1]
      )
      assert.strictEqual(recent_receipts[0].git_checkpoint.repository, "git@example.com:acme/app.git")
    })
  )

  it.effect("9. is told on reading and on writing when it is in the wrong project", () =>
    Effect.gen(function* () {
      const here = yield* one
      const elsewhere = yield* one
      const { id } = yield* here.task("Price the cart")
      const { project } = yield* elsewhere.call("continuity_context")
      assert.deepStrictEqual(project, { id: elsewhere.project_id, name: "Shop" })
      assert.strictEqual((yield* elsewhere.call("task_get", { id })).error.code, "task_not_found")
      const { error } = yield* here.call("memory_add", {
        write_context: elsewhere.agent.write_context,
        kind: "note",
        body: "Meant for the other project"
      })
      assert.strictEqual(error.code, "write_context_mismatch")
      const { hits } = yield* here.call("search", { query: "meant for the other project" })
      assert.lengthOf(hits, 0)
    })
  )

  it.effect("10. is told how to sign in when its credential has ended, and goes on with another", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const ada = yield* one
      const { id } = yield* ada.task("Price the cart")
      const tokens = Context.get(service.services, ProjectTokens)
      const [{ token_id } = { token_id: "" }] = yield* tokens.list(ada.project_id, { limit: 1, after: undefined })
      yield* tokens.revoke(token_id)
      const { headers, status } = yield* ada.agent.post("tools/call", { name: "task_get", arguments: { id } })
      assert.strictEqual(status, 401)
      assert.match(headers.get("www-authenticate")!, /resource_metadata="[^"]+".*scope="[^"]*tasks:write/)
      const token = yield* issueToken(service, ada.project_id)
      const again = yield* Model.start(new Agent({ ...ada.agent, token }))
      assert.strictEqual((yield* again.call("task_get", { id })).task.title, "Price the cart")
    })
  )

  it.effect("11. repeats a write whose answer was lost: with its key it is the same, without it is named", () =>
    Effect.gen(function* () {
      const ada = yield* one
      const note = { kind: "note", title: "Rounding twice loses a cent", body: "Round once, at the end." }
      const keyed = { ...note, idempotency_key: "note-1" }
      const first = yield* ada.write("memory_add", keyed)
      const again = yield* ada.write("memory_add", keyed)
      assert.deepInclude(again, { entry: first.entry, replayed: true })
      const double = yield* ada.write("memory_add", note)
      assert.strictEqual(double.similar[0].id, first.entry.id)
      assert.isDefined((yield* ada.write("memory_archive", { id: double.entry.id })).entry)
      const { entries } = yield* ada.call("memory_search", { query: "rounding" })
      assert.lengthOf(entries, 1)
    })
  )

  it.effect("12. learns in one call what happened since yesterday", () =>
    Effect.gen(function* () {
      const { ada, bob } = yield* two
      yield* ada.task("The week before")
      yield* TestClock.adjust("7 days")
      const task = yield* ada.task("Price the cart")
      yield* ada.write("memory_add", { kind: "decision", title: "Prices are in cents", body: "Integers, no floats." })
      yield* ada.write("task_note", { id: task.id, text: "Half of it" })
      yield* ada.write("task_update", { id: task.id, expected_version: 1, status: "done", receipt: receipt() })
      const { activity } = yield* bob.call("activity", { since: "24h" })
      const kinds = activity.map(({ kind }: { kind: string }) => kind)
      assert.deepStrictEqual(kinds.toSorted(), ["decision", "receipt", "task", "task_note"])
      assert.notInclude(JSON.stringify(activity), "The week before")
      assert.strictEqual(bob.calls, 1)
      assert.isBelow(bob.tokens, 1000)
    })
  )
})
