/** The startup snapshot (spec 4.11, 8). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

layer(Service.layer)("continuity_context", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))

  it.effect("an empty project has an empty snapshot", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { output } = yield* a.call("continuity_context")
      assert.deepInclude(output, { open_tasks: [], recent_memory: [], recent_receipts: [], truncated: false })
      assert.deepStrictEqual(output.project, { id: a.project_id, name: "Test project" })
    })
  )

  it.effect("tasks in progress come first, then ready ones, then waiting ones; closed ones are left out", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const ready = yield* a.task("ready", { priority: 0 })
      const waiting = yield* a.task("waiting", { priority: 0, depends_on: [ready.id] })
      const atWork = yield* a.task("at work", { priority: 4 })
      yield* a.update(atWork, { status: "in_progress" })
      const done = yield* a.task("done")
      yield* a.update(done, { status: "done" })
      const { output } = yield* a.call("continuity_context")
      assert.deepStrictEqual(
        output.open_tasks.map(({ id }: { id: string }) => id),
        [atWork.id, ready.id, waiting.id]
      )
    })
  )

  it.effect("a task in progress is stale when it was not updated for 24 hours, and none that nobody works on", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* a.update(yield* a.task("At work"), { status: "in_progress" })
      yield* a.task("Open")
      yield* a.update(yield* a.task("Blocked"), { status: "blocked" })
      const stale = Effect.map(a.call("continuity_context"), ({ output }) =>
        output.open_tasks.filter((task: { stale: boolean }) => task.stale).map((task: { title: string }) => task.title)
      )
      yield* TestClock.adjust("23 hours")
      assert.deepStrictEqual(yield* stale, [])
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* stale, ["At work"])
    })
  )

  it.effect("at most 8 decisions come before notes, and memory is cut to 15 entries", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (let index = 0; index < 9; index += 1) yield* a.note("We use PostgreSQL", { kind: "decision" })
      for (let index = 0; index < 20; index += 1) {
        yield* TestClock.adjust("1 second")
        yield* a.note(`note ${index}`)
      }
      const { output } = yield* a.call("continuity_context")
      assert.deepStrictEqual(
        output.recent_memory.map(({ kind }: { kind: string }) => kind),
        [...Array(8).fill("decision"), ...Array(7).fill("note")]
      )
      assert.strictEqual(output.omitted.memory, 14)
      assert.lengthOf((yield* a.call("memory_search")).output.entries, 10)
      assert.lengthOf((yield* a.call("activity", { since: "24h" })).output.activity, 25)
    })
  )

  it.effect("all tasks are counted by status, also those that do not fit", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = Effect.fnUntraced(function* (given: Readonly<Record<string, unknown>>) {
        yield* a.update(yield* a.task("Task"), given)
      })
      for (let index = 0; index < 30; index += 1) yield* a.task("Task")
      yield* task({ status: "in_progress" })
      yield* task({ status: "blocked", blocked_kind: "decision" })
      yield* task({ status: "blocked", blocked_kind: "external" })
      yield* task({ status: "done" })
      yield* task({ status: "cancelled" })
      assert.lengthOf((yield* a.call("continuity_context")).output.open_tasks, 20)
      const { output } = yield* a.call("continuity_context", { max_bytes: 4096 })
      assert.deepStrictEqual(output.counts, { in_progress: 1, open: 30, blocked: 2, decisions: 1, closed: 2 })
      assert.strictEqual(output.open_tasks.length + output.omitted.tasks, 33)
    })
  )

  const titlesOf = (tasks: ReadonlyArray<{ readonly title: string }>) => tasks.map(({ title }) => title)
  const receiptIn = (repository?: string) => ({
    session_ref: repository ?? "none",
    worker: "ada",
    outcome: "progress",
    summary: repository ?? "none",
    ...(repository === undefined
      ? undefined
      : { git_checkpoint: { repository, branch: "main", commit_sha: "a".repeat(40), dirty: false } })
  })
  const summariesOf = (receipts: ReadonlyArray<{ readonly summary: string }>) =>
    receipts.map(({ summary }) => summary).toSorted()

  it.effect(
    "a tag chooses tasks of each kind, their receipts and memory, and the counts stay those of the project",
    () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const tag of ["shop", "site"]) {
          const tags = [tag, "all"]
          yield* a.task(`${tag} ready`, { tags, priority: 1 })
          yield* a.update(yield* a.task(`${tag} asks`, { tags }), {
            status: "blocked",
            blocked_kind: "decision",
            blocked_reason: "Which?",
            receipt: receiptIn(tag)
          })
          yield* a.note(`${tag} note`, { tags })
          yield* a.note(`${tag} decision`, { tags, kind: "decision" })
        }
        const { output } = yield* a.call("continuity_context", { tag: "Shop" })
        assert.deepStrictEqual(titlesOf(output.open_tasks), ["shop asks", "shop ready"])
        assert.deepStrictEqual(
          output.recent_memory.map(({ excerpt }: { excerpt: string }) => excerpt),
          ["shop decision", "shop note"]
        )
        assert.deepStrictEqual(summariesOf(output.recent_receipts), ["shop"])
        assert.deepInclude(output.counts, { open: 2, blocked: 2, decisions: 2 })
        assert.deepStrictEqual(output.omitted, { tasks: 2, memory: 2, receipts: 1 })
        const none = yield* a.call("continuity_context", { tag: "none" })
        assert.deepInclude(none.output, { open_tasks: [], recent_memory: [], recent_receipts: [] })
      })
  )

  const work = Effect.fnUntraced(function* (
    a: Agent,
    title: string,
    ...repositories: ReadonlyArray<string | undefined>
  ) {
    let task = yield* a.task(title)
    for (const [n, repository] of repositories.entries()) {
      const receipt = { ...receiptIn(repository), session_ref: `session ${n}` }
      task = (yield* a.update(task, { receipt })).output.task
    }
  })
  const [ours, theirs] = ["git@github.com:acme/shop.git", "https://github.com/acme/site"]

  it.effect("a repository, however its remote is written, leaves out what belongs only to others", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* work(a, "ours", ours)
      yield* work(a, "theirs", theirs)
      yield* work(a, "both", theirs, ours)
      yield* work(a, "new")
      yield* work(a, "without code", undefined)
      for (const repository of [ours, "ssh://git@github.com/acme/shop", "https://GitHub.com/acme/shop.git/"]) {
        const { output } = yield* a.call("continuity_context", { repository })
        assert.sameMembers(titlesOf(output.open_tasks), ["ours", "both", "new", "without code"], repository)
        assert.deepStrictEqual(summariesOf(output.recent_receipts), [ours, ours, "none"], repository)
      }
      const longer = yield* a.call("continuity_context", { repository: "github.com/acme/shop-two" })
      assert.sameMembers(titlesOf(longer.output.open_tasks), ["new", "without code"])
    })
  )

  it.effect("the ten newest receipts of a task say to which repositories it belongs", () =>
    Effect.gen(function* () {
      const a = yield* agent
      yield* work(a, "nine elsewhere", ours, ...Array.from({ length: 9 }, () => theirs))
      yield* work(a, "ten elsewhere", ours, ...Array.from({ length: 10 }, () => theirs))
      const { output } = yield* a.call("continuity_context", { repository: ours })
      assert.deepStrictEqual(titlesOf(output.open_tasks), ["nine elsewhere"])
    })
  )

  it.effect("the smallest snapshot has an item of each kind, however long they are, and its pitfalls", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const words = "Ünïcödé “quotes” ".repeat(40)
      const tags = Array.from({ length: 16 }, (_, n) => `${"t".repeat(60)}${n}`)
      const receipt = {
        session_ref: "s".repeat(128),
        worker: "w".repeat(128),
        outcome: "handoff",
        summary: words.slice(0, 900),
        next_steps: Array(10).fill("n".repeat(500)),
        pitfalls: Array(10).fill("p".repeat(500)),
        git_checkpoint: {
          repository: "r".repeat(256),
          branch: "b".repeat(255),
          commit_sha: "a".repeat(40),
          dirty: true
        }
      }
      const task = yield* a.task("t".repeat(200), { body: words, tags })
      const question = {
        status: "blocked",
        blocked_kind: "decision",
        blocked_reason: "q".repeat(500),
        choices: ["a", "b", "c", "d", "e", "f"].map((one) => one.repeat(200)),
        assignee: "m".repeat(128),
        receipt
      }
      assert.isUndefined((yield* a.update(task, question)).code)
      yield* a.note(words, { title: "t".repeat(200), tags })
      const { output, text } = yield* a.call("continuity_context", { max_bytes: 4096 })
      assert.isAtMost(Buffer.byteLength(text), 4096)
      assert.deepStrictEqual(
        [output.open_tasks.length, output.recent_memory.length, output.recent_receipts.length],
        [1, 1, 1]
      )
      assert.match(output.recent_receipts[0].pitfalls[0], /^p+…$/)
      assert.lengthOf(output.open_tasks[0].choices, 6)
    })
  )

  it.effect("never exceeds its bytes, whatever space the last item leaves", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (let index = 0; index < 25; index += 1) {
        yield* a.task(`Task ${index}`)
        yield* a.note(`Note ${index}`)
      }
      for (let max_bytes = 5000; max_bytes < 5200; max_bytes += 8) {
        const { output, text } = yield* a.call("continuity_context", { max_bytes })
        assert.isAtMost(Buffer.byteLength(text), max_bytes)
        assert.isTrue(output.truncated)
      }
    })
  )

  for (const max_bytes of [4096, 10_000, 24_576, 49_152]) {
    it.effect(`a full project is cut to ${max_bytes} bytes with whole ids, and omitted items are counted`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (let index = 0; index < 25; index += 1) {
          const task = yield* a.task(`Task ${index} ${"ü".repeat(90)}`, { body: "猫".repeat(index * 50) })
          yield* a.note('\t"\\ “”'.repeat(1 + index * 20))
          if (index % 2 === 0) {
            const summary = "s".repeat(1 + index * 100)
            yield* a.update(task, { receipt: { session_ref: "s", worker: "w", outcome: "progress", summary } })
          }
        }
        const { output, text } = yield* a.call("continuity_context", { max_bytes })
        assert.isAtMost(Buffer.byteLength(text), max_bytes)
        assert.strictEqual(output.bytes, Buffer.byteLength(text))
        assert.isAbove(Buffer.byteLength(text), max_bytes < 25_000 ? max_bytes - 2500 : 20_000)
        assert.isTrue(output.truncated)
        assert.deepStrictEqual(
          [output.omitted.tasks, output.omitted.memory, output.omitted.receipts],
          [25 - output.open_tasks.length, 25 - output.recent_memory.length, 13 - output.recent_receipts.length]
        )
        for (const { id } of [...output.open_tasks, ...output.recent_memory, ...output.recent_receipts]) {
          assert.match(id, /^[0-9a-f-]{36}$/)
        }
      })
    )
  }
})
