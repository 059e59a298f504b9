/** The budgets of a project (decisions.md, Budgets of a project): no caller passes a limit, and no other project notices. */
import { assert, it, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer, Metric, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { readFile } from "node:fs"
import { CallBudget } from "../../src/agents/mcp/calls/CallBudget.ts"
import { Calls } from "../../src/agents/mcp/calls/Calls.ts"
import { storedBytesOfNote } from "../../src/agents/tasks/Notes.ts"
import * as Tasks from "../../src/agents/tasks/Tasks.ts"
import { sweeps } from "../../src/agents/Wing.ts"
import { Transfer } from "../../src/agents/transfer/Transfer.ts"
import { Limits } from "../../src/operator/limits/Limits.ts"
import type { LimitName } from "../../src/operator/limits/LimitNames.ts"
import { Memory, storedBytes } from "../../src/agents/memory/Memory.ts"
import { withinLimit } from "../../src/agents/memory/Ranking.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { Database } from "../../src/platform/database/Database.ts"
import { Draining } from "../../src/platform/edge/Draining.ts"
import { RateLimit } from "../../src/platform/edge/limits/RateLimit.ts"
import { limitRefusals } from "../../src/platform/metrics/Metrics.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { person } from "../support/agents/Answers.ts"
import { Agent, type Called, issueToken } from "../support/agents/McpAgent.ts"
import { waitingForLock } from "../support/database/Locks.ts"
import { instance, Service } from "../support/service/Service.ts"

it("the bytes of each text of an entry, a task, a receipt and a note are counted", () => {
  const entry = { title: "", body: "", tags: [] }
  const task = { ...entry, answer: null, blocked_reason: null, choices: null }
  const receipt = { summary: "", next_steps: [], pitfalls: [], git_checkpoint: null }
  const by = { kind: "token", id: "", label: null } as const
  const answer = { entry_id: "", text: "ü", by, at: new Date(0), same_credential: false }
  const git_checkpoint = { repository: "ü", branch: "b", commit_sha: "a".repeat(40), dirty: false }
  assert.deepStrictEqual(
    [{ title: "ü" }, { body: "ü" }, { tags: ["ü", "b"] }].map((given) => storedBytes({ ...entry, ...given })),
    [2, 2, 3]
  )
  assert.deepStrictEqual(
    [{ title: "ü" }, { body: "ü" }, { tags: ["ü"] }, { blocked_reason: "ü" }, { choices: ["ü", "b"] }, { answer }].map(
      (given) => Tasks.storedBytes({ ...task, ...given })
    ),
    [2, 2, 2, 2, 3, 2]
  )
  assert.deepStrictEqual(
    [{ summary: "ü" }, { next_steps: ["ü", "b"] }, { pitfalls: ["ü", "b"] }, { git_checkpoint }].map(
      (given) => Tasks.storedBytesOfReceipt({ ...receipt, ...given }) - 1024
    ),
    [2, 3, 3, Buffer.byteLength(JSON.stringify(git_checkpoint))]
  )
  assert.strictEqual(storedBytesOfNote({ text: "ü" }), 512 + 2)
})

type Maxima = Readonly<Partial<Record<LimitName, number | null>>>

const setLimits = (agent: Agent, maxima: Maxima) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Limits).set(agent.project_id, maxima))

const limitOf = (agent: Agent, name: LimitName) =>
  Effect.flatMap(Service, ({ services }) =>
    Effect.map(Context.get(services, Limits).list(agent.project_id), (limits) =>
      limits.find(({ limit }) => limit === name)!
    )
  )

const agentWith = (maxima: Maxima) =>
  Effect.gen(function* () {
    const agent = yield* Agent.make(yield* Service)
    yield* setLimits(agent, maxima)
    return agent
  })

const codesOf = (calls: ReadonlyArray<Called>) => Object.groupBy(calls, ({ code = "ok" }) => code)

const indexes = (count: number) => Array.from({ length: count }, (_, index) => index)

/** The exact bytes, entries and tasks of a project, counted from its rows. Only active entries are indexed. */
const counted = ({ project_id }: Agent) =>
  SqlClient.SqlClient.use(
    (sql) => sql<{ stored_bytes: number; index_bytes: number; entries: number; tasks: number; receipts: number }>`
      select ((select coalesce(sum(octet_length(title) + octet_length(body) + octet_length(array_to_string(tags, ''))), 0)
                 from memory_entry where project_id = ${project_id}::uuid)
              + (select coalesce(sum(octet_length(title) + octet_length(body) + octet_length(coalesce(blocked_reason, ''))
                                     + octet_length(array_to_string(tags, ''))), 0)
                   from task where project_id = ${project_id}::uuid)
              + (select coalesce(sum(1024 + octet_length(summary) + octet_length(array_to_string(next_steps, ''))
                                     + octet_length(array_to_string(pitfalls, ''))), 0)
                   from receipt where project_id = ${project_id}::uuid)
              + (select coalesce(sum(octet_length(result)), 0)
                   from idempotency_record where project_id = ${project_id}::uuid))::float8 as stored_bytes,
             (select coalesce(sum(octet_length(lexeme) + 24), 0)
                from memory_posting p
                join memory_entry e on e.project_id = p.project_id and e.id = p.entry_id and e.active
               where p.project_id = ${project_id}::uuid)::float8 as index_bytes,
             (select count(*) from memory_entry where project_id = ${project_id}::uuid)::float8 as entries,
             (select count(*) from task where project_id = ${project_id}::uuid)::float8 as tasks,
             (select count(*) from receipt where project_id = ${project_id}::uuid)::float8 as receipts`
  )

const usage = ({ project_id }: Agent) =>
  SqlClient.SqlClient.use(
    (sql) => sql`
      select stored_bytes::float8, index_bytes::float8, entries::float8, tasks::float8, receipts::float8
        from project_usage
       where project_id = ${project_id}::uuid`
  )

const exported = (agent: Agent) =>
  Effect.gen(function* () {
    const { services } = yield* Service
    const pieces: Array<string> = []
    const write = (text: string) => Effect.sync(() => void pieces.push(text))
    yield* Context.get(services, Transfer).save(agent.project_id, write)
    return Buffer.from(pieces.join(""))
  })

layer(Service.layer)("a limit by size", (it) => {
  it.effect("lets exactly as many of 50 concurrent callers at two instances through as there is space for", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({ entries: 3, tasks: 2, concurrent_calls: 50 })
      const replica = agent.at(yield* instance())
      const write = (index: number) => {
        const at = index % 2 === 0 ? agent : replica
        return index < 25
          ? at.write("memory_add", { kind: "note", body: "x" })
          : at.write("task_create", { title: "x" })
      }
      const { limit_exceeded, ok, ...others } = codesOf(
        yield* Effect.forEach(indexes(50), write, { concurrency: "unbounded" })
      )
      assert.deepStrictEqual(others, {})
      assert.lengthOf(ok!, 5)
      assert.sameDeepMembers(
        [...new Set(limit_exceeded!.map(({ details }) => JSON.stringify(details)))],
        [
          { limit: "entries", value: 3, maximum: 3 },
          { limit: "tasks", value: 2, maximum: 2 }
        ].map((details) => JSON.stringify(details))
      )
      assert.deepStrictEqual(yield* usage(agent), yield* counted(agent))
    })
  )

  it.effect("counts every byte that a write stores, and none of a refused or repeated one", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      const old = yield* agent.note("Größe: 部署流水线的超时", { tags: ["a", "b"], idempotency_key: "k" })
      yield* agent.note("Größe: 部署流水线的超时", { tags: ["a", "b"], idempotency_key: "k" })
      yield* agent.note("a new text about deploys", { supersedes: old.id })
      yield* agent.write("memory_add", { kind: "note", body: "again", supersedes: old.id })
      const task = yield* agent.task("Task", { body: "a body", tags: ["x"] })
      yield* agent.write("task_create", { title: "x", depends_on: ["00000000-0000-7000-8000-000000000000"] })
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "äöü", next_steps: ["one", "two"] }
      const { output } = yield* agent.update(task, {
        body: "a longer body",
        status: "blocked",
        blocked_reason: "why",
        receipt
      })
      yield* agent.update(output.task, { status: "open", body: "", receipt })
      yield* agent.update(output.task, { status: "open", body: "" })
      yield* agent.update(task, { body: "stale" })
      assert.deepStrictEqual(yield* usage(agent), yield* counted(agent))
    })
  )

  it.effect("counts a note on a task by its bytes and 512 more, and none beyond what is left", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      const task = yield* agent.task("Task")
      const used = Effect.map(limitOf(agent, "stored_bytes"), ({ value }) => value!)
      const note = agent.write("task_note", { id: task.id, text: "größer" })
      const before = yield* used
      yield* note
      assert.strictEqual((yield* used) - before, 512 + 8)
      yield* setLimits(agent, { stored_bytes: (yield* used) + 519 })
      assert.strictEqual((yield* note).code, "limit_exceeded")
      yield* setLimits(agent, { stored_bytes: (yield* used) + 520 })
      assert.isUndefined((yield* note).code)
      assert.lengthOf((yield* agent.call("task_get", { id: task.id })).output.notes, 2)
    })
  )

  it.effect("gives the bytes of remembered answers back when they are forgotten, to each project its own", () =>
    Effect.gen(function* () {
      const agents = [yield* agentWith({}), yield* agentWith({})]
      for (const agent of agents) {
        yield* agent.note("remembered", { idempotency_key: "k" })
        yield* agent.note("remembered as well", { idempotency_key: "l" })
      }
      yield* agents[0]!.task("remembered", { idempotency_key: "k" })
      yield* TestClock.adjust("8 days")
      const before = yield* Effect.forEach(agents, usage)
      yield* sweepOnce(sweeps).pipe(Effect.provide(DatabaseClock.layerLocal))
      const after = yield* Effect.forEach(agents, usage)
      assert.notDeepEqual(after, before)
      assert.deepStrictEqual(after, yield* Effect.forEach(agents, counted))
    })
  )

  it.effect("stops what adds to a project that is full, and nothing else", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      const entry = yield* agent.note("x".repeat(2000))
      const task = yield* agent.task("Task", { body: "y".repeat(2000) })
      yield* setLimits(agent, { stored_bytes: 3000 })
      const before = yield* usage(agent)
      const refusals = Effect.map(Metric.value(limitRefusals("stored_bytes")), (state) =>
        Number((state as Metric.CounterState<number>).count)
      )
      const earlier = yield* refusals
      for (const refused of [
        yield* agent.write("memory_add", { kind: "note", body: "more" }),
        yield* agent.write("memory_add", { kind: "note", body: "more", supersedes: entry.id, idempotency_key: "k" }),
        yield* agent.write("task_create", { title: "more" }),
        yield* agent.update(task, { body: "y".repeat(2001) })
      ]) {
        assert.strictEqual(refused.code, "limit_exceeded")
        assert.deepInclude(refused.details, { limit: "stored_bytes", maximum: 3000 })
      }
      assert.strictEqual((yield* refusals) - earlier, 4)
      assert.deepStrictEqual(yield* usage(agent), before)
      assert.isTrue((yield* agent.call("memory_get", { id: entry.id })).output.entry.active)
      const { output } = yield* agent.update(task, { body: "shorter", status: "in_progress" })
      assert.strictEqual(output.task.version, 2)
      yield* setLimits(agent, { stored_bytes: null })
      yield* agent.note("fits again", { supersedes: entry.id, idempotency_key: "k" })
    })
  )

  it.effect("holds for the index of the search, which may have four times the bytes of text", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({ stored_bytes: 400 })
      // Three bytes of text for each posting of 26 bytes.
      const body = [..."abcdefghijklmnopqrstuvwxyz0123456789"].flatMap((a) => [`${a}7`, `${a}8`, `${a}9`]).join(" ")
      const { code, details } = yield* agent.write("memory_add", { kind: "note", title: "t", body })
      assert.strictEqual(code, "limit_exceeded")
      assert.include(details, { limit: "index_bytes", maximum: 1600 })
    })
  )

  it.effect("holds for an import, which is rolled back as a whole", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const source = yield* agentWith({})
      yield* source.note("one entry of the file")
      const task = yield* source.task("a task of the file")
      yield* source.update(task, {
        receipt: { session_ref: "s", worker: "w", outcome: "progress", summary: "done so far" }
      })
      const file = yield* exported(source)
      const target = yield* agentWith({ stored_bytes: 10 })
      const load = Context.get(services, Transfer).load(target.project_id, Stream.make(file))
      const refusal = yield* Effect.flip(load)
      assert.include(refusal, { _tag: "limit_exceeded" })
      assert.deepStrictEqual(yield* usage(target), [])
      yield* setLimits(target, { stored_bytes: null })
      yield* load
      assert.deepStrictEqual(yield* usage(target), yield* counted(target))
      assert.deepStrictEqual(yield* usage(target), yield* usage(source))
      yield* load
      assert.deepStrictEqual(yield* usage(target), yield* counted(target))
    }).pipe(Effect.scoped)
  )
})

layer(Service.layer)("a limit on calls at once", (it) => {
  /** Holds the entry's row, so that an update of it waits for the database. */
  const whileLocked = <A, E, R>(id: string, work: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const locked = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const holder = yield* Context.get(services, Database)
        .dedicated(
          SqlClient.SqlClient.use((sql) =>
            sql.withTransaction(
              Effect.gen(function* () {
                yield* sql`select 1 from task where id = ${id}::uuid for update`
                yield* Deferred.succeed(locked, undefined)
                yield* Deferred.await(done)
              })
            )
          )
        )
        .pipe(Effect.forkChild)
      yield* Deferred.await(locked)
      return yield* work.pipe(
        Effect.ensuring(Effect.andThen(Deferred.succeed(done, undefined), Effect.ignore(Fiber.join(holder))))
      )
    })

  /** Moves the test clock on until the fiber ends: its call waits for a turn by that clock. */
  const inTestTime = <A, E>(fiber: Fiber.Fiber<A, E>) =>
    Effect.gen(function* () {
      while (fiber.pollUnsafe() === undefined) {
        yield* TestClock.adjust("100 millis")
        yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 5)))
      }
      return yield* Fiber.join(fiber)
    })

  it.effect("refuses the next call after a second, and no call of another project", () =>
    Effect.gen(function* () {
      // Each of two processes has half of a limit.
      const on = yield* instance({ SERVICE_PROCESSES: "2" })
      const agent = (yield* agentWith({ concurrent_calls: 2 })).at(on)
      const neighbour = (yield* agentWith({ concurrent_calls: 2 })).at(on)
      const task = yield* agent.task("Task")
      yield* whileLocked(
        task.id,
        Effect.gen(function* () {
          const first = yield* Effect.forkChild(agent.update(task, { title: "changed" }))
          yield* waitingForLock
          const second = yield* Effect.forkChild(agent.call("task_get", { id: task.id }))
          assert.isDefined((yield* neighbour.call("task_list")).output)
          const { code, details } = yield* inTestTime(second)
          assert.strictEqual(code, "limit_exceeded")
          assert.deepStrictEqual(details, { limit: "concurrent_calls", value: 1, maximum: 1, retry_after: 1 })
          yield* Effect.forkChild(Fiber.join(first))
        })
      )
    })
  )

  it.effect("refuses task_wait before its wait, and not after it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const agent = yield* agentWith({ concurrent_calls: 1 })
      const [task, waited] = [yield* agent.task("Task"), yield* agent.task("Waited")]
      const wait = (version: number) => Effect.forkChild(agent.call("task_wait", { id: waited.id, version }))
      const waiting = yield* wait(waited.version)
      yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 300)))
      yield* whileLocked(
        task.id,
        Effect.gen(function* () {
          const first = yield* Effect.forkChild(agent.update(task, { title: "changed" }))
          yield* waitingForLock
          const { code, details } = yield* inTestTime(yield* wait(-1))
          assert.strictEqual(code, "limit_exceeded")
          assert.deepStrictEqual(details, { limit: "concurrent_calls", value: 1, maximum: 1, retry_after: 1 })
          yield* sql`update task set version = version + 1 where id = ${waited.id}::uuid`
          const { output, text } = yield* inTestTime(waiting)
          assert.isTrue(output?.changed, text)
          yield* Effect.forkChild(Fiber.join(first))
        })
      )
      assert.strictEqual((yield* inTestTime(yield* wait(-1))).code, "invalid_request")
    })
  )

  it.effect("counts the time of what comes after the wait", () =>
    Effect.gen(function* () {
      const { services } = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const calls = Calls.layer.pipe(
        Layer.provide(CallBudget.layer),
        Layer.provide([RateLimit.layer, Layer.succeed(Draining, { began: Effect.never })]),
        Layer.provide(Layer.succeedContext(services))
      )
      const { call } = Context.get(yield* Layer.build(Layer.fresh(calls)), Calls)
      const agent = yield* agentWith({})
      const { id, version } = yield* agent.task("Task")
      const start = (tool: "task_get" | "task_wait", given: object, answering: Effect.Effect<void>) =>
        Effect.forkChild(call(person(agent.project_id), tool, { id, ...given }, () => Effect.as(answering, true)))
      const waited = yield* start("task_wait", { version, timeout_seconds: 1 }, Effect.sleep("4 seconds"))
      assert.isUndefined((yield* inTestTime(waited)).isError)
      // More than the three seconds after which a project has one turn at a time.
      yield* start("task_get", {}, Effect.never)
      assert.isTrue((yield* inTestTime(yield* start("task_get", {}, Effect.void))).isError)
    })
  )

  it.effect("leaves connections to other projects, however many credentials the calls have", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      const colleague = yield* Agent.connect({ ...agent, token: yield* issueToken(yield* Service, agent.project_id) })
      const task = yield* agent.task("Task")
      const waiting = Effect.map(
        SqlClient.SqlClient.use(
          (sql) => sql<{ n: number }>`
            select count(*)::int as n from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'`
        ),
        ([row]) => row!.n
      )
      const calls = yield* whileLocked(
        task.id,
        Effect.gen(function* () {
          const started = yield* Effect.forEach(indexes(8), (n) =>
            Effect.forkChild((n < 4 ? agent : colleague).update(task, { title: "changed" }))
          )
          yield* Effect.repeat(waiting, { until: (n) => n >= 4, times: 5000 })
          yield* Effect.promise(() => new Promise((resume) => setTimeout(resume, 100)))
          // Of ten, known callers have eight, and one project half of these.
          assert.strictEqual(yield* waiting, 4)
          return started
        })
      )
      const codes = codesOf(yield* Effect.forEach(calls, Fiber.join))
      assert.deepStrictEqual([codes["ok"]?.length, codes["stale_version"]?.length], [1, 7])
    })
  )

  it.effect("lets a batch wait in line", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({ concurrent_calls: 2 })
      yield* agent.note("walrus")
      const calls = yield* Effect.forEach(indexes(40), () => agent.call("memory_search", { query: "walrus" }), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(Object.keys(codesOf(calls)), ["ok"])
    })
  )
})

layer(Service.layer)("a limit on calls in a minute", (it) => {
  const limited = Effect.flatMap(instance({ SERVICE_RATE_LIMITS: "on" }), (service) => Agent.make(service))

  it.effect("refuses the next one, says when to retry, and is mended by time", () =>
    Effect.gen(function* () {
      const agent = yield* limited
      yield* setLimits(agent, { writes_per_minute: 3, searches_per_minute: 2 })
      const add = agent.write("memory_add", { kind: "note", body: "x" })
      const adds = yield* Effect.forEach(indexes(4), () => add)
      const searches = yield* Effect.forEach(["memory_search", "search", "memory_search"], (tool) =>
        agent.call(tool, { query: "x" })
      )
      assert.deepStrictEqual(
        adds.map(({ code }) => code),
        [undefined, undefined, undefined, "limit_exceeded"]
      )
      assert.deepStrictEqual(adds[3]!.details, { limit: "writes_per_minute", value: 3, maximum: 3, retry_after: 20 })
      assert.deepStrictEqual(
        searches.map(({ code }) => code),
        [undefined, undefined, "limit_exceeded"]
      )
      assert.deepStrictEqual(searches[2]!.details, {
        limit: "searches_per_minute",
        value: 2,
        maximum: 2,
        retry_after: 30
      })
      assert.isDefined((yield* agent.call("task_list")).output)
      yield* TestClock.adjust("20 seconds")
      assert.isUndefined((yield* add).code)
      assert.strictEqual((yield* add).code, "limit_exceeded")
    })
  )

  it.effect("leaves half of it to a colleague who was refused", () =>
    Effect.gen(function* () {
      const agent = yield* limited
      yield* setLimits(agent, { writes_per_minute: 6 })
      const colleague = yield* Agent.connect({ ...agent, token: yield* issueToken(yield* Service, agent.project_id) })
      const write = (by: Agent) => by.write("memory_add", { kind: "note", body: "x" })
      // Alone, one token has the whole minute.
      const alone = yield* Effect.forEach(indexes(7), () => write(agent))
      assert.deepStrictEqual(
        alone.map(({ code }) => code ?? "ok"),
        ["ok", "ok", "ok", "ok", "ok", "ok", "limit_exceeded"]
      )
      // The colleague is refused once; from then on ten seconds are theirs, whatever the other does.
      assert.strictEqual((yield* write(colleague)).code, "limit_exceeded")
      yield* TestClock.adjust("10 seconds")
      const { code, details } = yield* write(agent)
      assert.strictEqual(code, "limit_exceeded")
      assert.deepStrictEqual(details, { limit: "writes_per_minute", value: 3, maximum: 3, retry_after: 10 })
      assert.isUndefined((yield* agent.call("memory_search", { query: "x" })).code)
      assert.isUndefined((yield* write(colleague)).code)
      yield* TestClock.adjust("2 minutes")
      const later = yield* Effect.forEach(indexes(6), () => write(agent))
      assert.deepStrictEqual(Object.keys(codesOf(later)), ["ok"])
    })
  )

  it.effect("counts every twenty tasks that a closed task made wait as a further write, also beyond the limit", () =>
    Effect.gen(function* () {
      const agent = yield* limited
      yield* setLimits(agent, { writes_per_minute: 3 })
      const task = yield* agent.task("Task")
      const waiting = indexes(45).map((index) => ({ title: `Task ${index}`, depends_on: [task.id] }))
      assert.isUndefined((yield* agent.write("task_create_many", { tasks: waiting })).code)
      assert.isUndefined((yield* agent.update(task, { status: "done" })).code)
      const { details } = yield* agent.write("memory_add", { kind: "note", body: "x" })
      // Two writes more than there were, and one for this call.
      assert.deepStrictEqual(details, { limit: "writes_per_minute", value: 3, maximum: 3, retry_after: 60 })
    })
  )

  it.effect("counts a write whose write_context is wrong: its refusal is a row of the audit log", () =>
    Effect.gen(function* () {
      const agent = yield* limited
      yield* setLimits(agent, { writes_per_minute: 2 })
      const wrong = agent.call("memory_add", { kind: "note", body: "x", write_context: {} })
      const codes = yield* Effect.forEach(indexes(3), () => Effect.map(wrong, ({ code }) => code))
      assert.deepStrictEqual(codes, ["write_context_mismatch", "write_context_mismatch", "limit_exceeded"])
    })
  )
})

/** Takes every connection of the pool. Returns what gives them back. */
const takeAllConnections = Effect.gen(function* () {
  const { services } = yield* Service
  const sql = Context.get(services, SqlClient.SqlClient)
  const done = yield* Deferred.make<void>()
  const holding = yield* Effect.forEach(indexes(Context.get(services, Settings).database.poolSize), () =>
    Effect.gen(function* () {
      const held = yield* Deferred.make<void>()
      const hold = Effect.andThen(Deferred.succeed(held, undefined), Deferred.await(done))
      const fiber = yield* Effect.forkChild(sql.withTransaction(hold))
      yield* Deferred.await(held)
      return fiber
    })
  )
  return Effect.andThen(Deferred.succeed(done, undefined), Fiber.joinAll(holding))
})

layer(Service.layer)("a search", (it) => {
  it.effect("asks for the rarest words of a long query", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      const common = indexes(60).map((index) => `word${String.fromCharCode(97 + (index % 26))}${index}`)
      for (const _ of indexes(3)) yield* agent.note(common.join(" "))
      const wanted = yield* agent.note("ostrich")
      const { output } = yield* agent.call("memory_search", { query: `${common.join(" ")} ostrich` })
      assert.include(
        output.entries.map(({ id }: { id: string }) => id),
        wanted.id
      )
    })
  )

  it.effect("that takes longer than a second is cancelled with a code", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      yield* agent.note("walrus")
      const { services } = yield* Service
      const locked = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const holder = yield* Context.get(services, Database)
        .dedicated(
          SqlClient.SqlClient.use((sql) =>
            sql.withTransaction(
              Effect.gen(function* () {
                yield* sql`lock table memory_posting in access exclusive mode`
                yield* Deferred.succeed(locked, undefined)
                yield* Deferred.await(done)
              })
            )
          )
        )
        .pipe(Effect.forkChild)
      yield* Deferred.await(locked)
      const fiber = yield* Effect.forkChild(agent.call("memory_search", { query: "walrus" }))
      yield* waitingForLock
      yield* TestClock.adjust("1 second")
      const { code } = yield* Fiber.join(fiber)
      assert.strictEqual(code, "search_too_broad")
      const [waiting] = yield* SqlClient.SqlClient.use(
        (sql) => sql<{ n: number }>`
          select count(*)::int as n from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like '%memory_posting%'`
      )
      assert.strictEqual(waiting!.n, 0)
      yield* Deferred.succeed(done, undefined)
      yield* Fiber.join(holder)
    })
  )

  it.effect("that waits for a connection is not cancelled meanwhile", () =>
    Effect.gen(function* () {
      const agent = yield* agentWith({})
      const { id } = yield* agent.note("walrus")
      const { services } = yield* Service
      const release = yield* takeAllConnections
      const search = Context.get(services, Memory).search(agent, { query: "walrus" })
      const searching = yield* Effect.forkChild(search, { startImmediately: true })
      yield* TestClock.adjust("3 seconds")
      yield* release
      const { entries } = yield* Fiber.join(searching)
      assert.strictEqual(entries[0]!.id, id)
    })
  )

  it.effect("that takes longer than a second while the database answers nobody is not the query's fault", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const release = yield* takeAllConnections
      const limited = withinLimit(Context.get(services, SqlClient.SqlClient)`select 1`)
      const searching = yield* Effect.forkChild(Effect.flip(limited(Effect.never)), { startImmediately: true })
      yield* TestClock.adjust("1250 millis")
      assert.strictEqual((yield* Fiber.join(searching))._tag, "bridge_persistence_error")
      yield* release
    })
  )

  it.effect("whose answer arrived while the process stood still for over a second is not cancelled", () =>
    Effect.gen(function* () {
      const answer = Effect.callback<string>((resume) =>
        readFile("package.json", () => resume(Effect.succeed("found")))
      )
      const stall = Effect.sync(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1100))
      const limited = withinLimit(Effect.void)
      const [found] = yield* TestClock.withLive(Effect.all([limited(answer), stall], { concurrency: 2 }))
      assert.strictEqual(found, "found")
    })
  )
})
