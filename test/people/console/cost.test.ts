/** What the pages of a project may cost the service (decisions.md, Budgets of a project). */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { connect } from "node:net"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import type { LimitName } from "../../../src/operator/limits/LimitNames.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Database } from "../../../src/platform/database/Database.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { waitingForLock } from "../../support/database/Locks.ts"
import { csrfOf, Person } from "../../support/people/Console.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { instance, Service } from "../../support/service/Service.ts"

/** A limited instance that believes X-Forwarded-For, and a person who is signed in to a project of it. */
const limited = Effect.fnUntraced(function* (maxima: Readonly<Partial<Record<LimitName, number>>> = {}) {
  const on = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_TRUSTED_PROXIES: "127.0.0.1" })
  return { on, ...(yield* signedIn(on, maxima)) }
})

const signedIn = Effect.fnUntraced(function* (
  on: typeof Service.Service,
  maxima: Readonly<Partial<Record<LimitName, number>>> = {},
  of: { readonly project_id?: string } = {}
) {
  const { project_id, token } = yield* makeToken(on, of)
  yield* Context.get(on.services, Limits).set(project_id, maxima)
  const person = new Person(on.url)
  yield* person.signIn(token)
  const agent = yield* Agent.make(on, { project_id })
  return { agent, home: `/console/${project_id}`, person, project_id, token }
})

const from = (host: number) => ({ "x-forwarded-for": `198.51.${host >> 8}.${host & 255}` })
const indexes = (count: number) => Array.from({ length: count }, (_, index) => index)
const soon = Effect.promise(() => new Promise((resume) => setTimeout(resume, 5)))

/** Moves the test clock on until the fiber ends: its page waits for a turn by that clock. */
const inTestTime = <A, E>(fiber: Fiber.Fiber<A, E>) =>
  Effect.gen(function* () {
    while (fiber.pollUnsafe() === undefined) yield* Effect.andThen(TestClock.adjust("100 millis"), soon)
    return yield* Fiber.join(fiber)
  })

layer(Service.layer, { timeout: "1 minute" })("a page of the console", (it) => {
  it.effect("that comes back with a form counts as a write of its project, and beyond its limit is a small one", () =>
    Effect.gen(function* () {
      const { agent, home, person } = yield* limited({ writes_per_minute: 3 })
      const task = yield* agent.task("Task", { body: "pelican ".repeat(1000) })
      const page = yield* person.get(`${home}/tasks/${task.id}`)
      const stale = { action: "change", csrf: csrfOf(page), version: "99", title: "Late" }
      const send = person.post(`${home}/tasks/${task.id}`, stale, { origin: "http://127.0.0.1:8787" })
      const answers = yield* Effect.forEach(indexes(3), () => send)
      assert.deepStrictEqual(
        answers.map(({ status, text }) => [status, text.includes("pelican")]),
        [
          [409, true],
          [409, true],
          [429, false]
        ]
      )
    })
  )

  it.effect("that changes phones is granted to one project token half as often as to its project", () =>
    Effect.gen(function* () {
      // One of eight processes grants an eighth of a hundred changes.
      const on = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_PROCESSES: "8" })
      const { home, person, project_id } = yield* signedIn(on)
      const { person: colleague } = yield* signedIn(on, {}, { project_id })
      const granted = Effect.fnUntraced(function* (by: Person) {
        const csrf = csrfOf(yield* by.get(`${home}/phones`))
        const end = by.post(`${home}/phones`, { action: "end-own-device", csrf, device: randomUUID() })
        const answers = yield* Effect.replicateEffect(end, 7)
        return answers.filter(({ status }) => status !== 429).length
      })
      assert.deepStrictEqual([yield* granted(person), yield* granted(colleague)], [6, 6])
    })
  )

  it.effect("that searches counts as a search of its project", () =>
    Effect.gen(function* () {
      const { agent, home, person } = yield* limited({ searches_per_minute: 2 })
      const search = person.get(`${home}/memory?query=walrus`)
      const answers = yield* Effect.forEach(indexes(3), () => search)
      assert.deepStrictEqual(
        answers.map(({ headers, status }) => [status, headers.get("retry-after")]),
        [
          [200, null],
          [200, null],
          [429, "30"]
        ]
      )
      assert.strictEqual((yield* agent.call("memory_search", { query: "walrus" })).code, "limit_exceeded")
      assert.strictEqual((yield* person.get(`${home}/tasks`)).status, 200)
    })
  )

  it.effect("waits a second for a turn of its project, and for no other project's", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const { agent, home, person } = yield* signedIn(on, { concurrent_calls: 1 })
      const neighbour = yield* signedIn(on, { concurrent_calls: 1 })
      const task = yield* agent.task("Task")
      const locked = yield* Deferred.make<void>()
      const done = yield* Deferred.make<void>()
      const holder = yield* Context.get(on.services, Database)
        .dedicated(
          SqlClient.SqlClient.use((sql) =>
            sql.withTransaction(
              sql`select 1 from task where id = ${task.id}::uuid for update`.pipe(
                Effect.andThen(Deferred.succeed(locked, undefined)),
                Effect.andThen(Deferred.await(done))
              )
            )
          )
        )
        .pipe(Effect.forkChild)
      yield* Deferred.await(locked)
      yield* Effect.gen(function* () {
        const update = yield* Effect.forkChild(agent.update(task, { title: "changed" }))
        yield* waitingForLock
        const page = yield* Effect.forkChild(person.get(`${home}/tasks`))
        assert.strictEqual((yield* neighbour.person.get(`${neighbour.home}/tasks`)).status, 200)
        const { headers, status } = yield* inTestTime(page)
        assert.deepStrictEqual([status, headers.get("retry-after")], [429, "1"])
        yield* Effect.forkChild(Fiber.join(update))
      }).pipe(Effect.ensuring(Effect.andThen(Deferred.succeed(done, undefined), Effect.ignore(Fiber.join(holder)))))
    })
  )

  it.effect("counts for its session, whatever address it is asked from", () =>
    Effect.gen(function* () {
      const { home, on, person, token } = yield* limited()
      const pages = yield* Effect.forEach(indexes(201), (index) => person.get(`${home}/nothing`, from(index)))
      assert.deepStrictEqual(
        [...new Set(pages.slice(0, 200).map(({ status }) => status)), pages[200]!.status],
        [404, 429]
      )
      const other = new Person(on.url)
      yield* other.signIn(token)
      assert.strictEqual((yield* other.get(`${home}/tasks`)).status, 200)
    })
  )

  it.effect("that nobody reads counts as memory of its token until it was sent, and keeps no colleague out", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const { agent, home, person, project_id } = yield* signedIn(on)
      const colleague = yield* signedIn(on, {}, { project_id })
      const neighbour = yield* signedIn(on)
      const quotes = '"'.repeat(500)
      let task: any = yield* agent.task("Task")
      for (const index of indexes(10)) {
        const receipt = {
          session_ref: `session-${index}`,
          worker: "agent",
          outcome: "progress",
          summary: quotes.repeat(8),
          next_steps: indexes(10).map(() => quotes),
          pitfalls: indexes(10).map(() => quotes)
        }
        const { output } = yield* agent.update(task, { receipt })
        task = output.task
      }
      const path = `${home}/tasks/${task.id}`
      const page = yield* person.get(path)
      assert.isAbove(page.text.length, 700_000)
      const { hostname, port } = new URL(on.url)
      const sockets = indexes(8).map(() => connect(Number(port), hostname).pause())
      for (const socket of sockets) socket.on("error", () => {})
      // The kernel takes the first megabytes of each connection.
      const askUnread = Effect.sync(() => {
        for (const socket of sockets) {
          socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: ${person.cookie}\r\n\r\n`)
        }
      })
      const refused = Effect.andThen(askUnread, person.get(path)).pipe(
        Effect.repeat({ until: ({ status }) => status !== 200 })
      )
      const { headers, status } = yield* inTestTime(yield* Effect.forkChild(refused))
      assert.deepStrictEqual([status, headers.get("retry-after")], [429, "1"])
      const untilShown = (viewer: Person) =>
        Effect.flatMap(
          Effect.forkChild(
            Effect.repeat(Effect.tap(viewer.get(path), soon), { until: ({ status }) => status === 200, times: 50 })
          ),
          inTestTime
        )
      assert.strictEqual((yield* untilShown(colleague.person)).status, 200)
      assert.strictEqual((yield* neighbour.person.get(`${neighbour.home}/tasks`)).status, 200)
      for (const socket of sockets) socket.destroy()
      assert.strictEqual((yield* untilShown(person)).status, 200)
    })
  )
})

layer(Service.layer, { timeout: "1 minute" })("signing in", (it) => {
  it.effect("with one token works 60 times at once and then once a minute, from whatever address", () =>
    Effect.gen(function* () {
      const { on } = yield* limited()
      const { project_id, token } = yield* makeToken(on)
      const other = yield* makeToken(on)
      let host = 0
      const signIn = (project_token: string) =>
        new Person(on.url).post(
          "/console/sign-in",
          { project_token, to: "" },
          { origin: "http://127.0.0.1:8787", ...from((host += 1)) }
        )
      // One that fails counts for nobody.
      const projects = Context.get(on.services, Projects)
      yield* projects.disable(project_id)
      assert.strictEqual((yield* signIn(token)).status, 422)
      yield* projects.enable(project_id)
      const answers = yield* Effect.forEach(indexes(61), () => signIn(token))
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [...indexes(60).map(() => 303), 429]
      )
      assert.strictEqual(answers[60]!.headers.get("retry-after"), "60")
      assert.strictEqual((yield* signIn(other.token)).status, 303)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* signIn(token)).status, 303)
      assert.strictEqual((yield* signIn(token)).status, 429)
    })
  )
})
