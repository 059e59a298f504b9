/** What people write at the console: answers, tasks and memory, as an agent would, and nothing that is typed is lost. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Sessions } from "../../../src/signin/sessions/Sessions.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { answer, ask, choices, person as otherPerson } from "../../support/agents/Answers.ts"
import { csrfOf, makeBusyProject, Person, signedInOperator } from "../../support/people/Console.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import type { Answer } from "../../support/network/Http.ts"
import { Service } from "../../support/service/Service.ts"

const hostile = `</textarea></p><script>alert(1)</script>"'><img src=x onerror=alert(1)>`
const escaped = "&lt;/textarea&gt;&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&gt;&lt;img"

const statusAndPlace = ({ headers, status }: Answer) => [status, headers.get("location")]
const placeOf = ({ headers }: Answer) => headers.get("location")!
const idOf = (answer: Answer) => placeOf(answer).split("/").at(-1)!

layer(Service.layer)("the console", (it) => {
  /** A project with an agent, and a person who is signed in with a token of their own. */
  const project = Effect.fnUntraced(function* (token: Parameters<typeof makeToken>[1] = {}) {
    const service = yield* Service
    const agent = yield* Agent.make(service)
    const { project_id } = agent
    const issued = yield* makeToken(service, { project_id, label: "Ada", ...token })
    const person = new Person(service.url)
    yield* person.signIn(issued.token)
    const home = `/console/${project_id}`
    const csrf = csrfOf(yield* person.get(home))
    /** Sends a form of the page. */
    const send = (
      path: string,
      fields: Readonly<Record<string, string>>,
      more: Readonly<Record<string, string>> = {}
    ) => person.post(home + path, { csrf, ...fields }, { origin: person.origin, ...more })
    return { ...issued, service, agent, person, home, csrf, send }
  })
  const operator = Effect.fnUntraced(function* () {
    const { services, url } = yield* Service
    const link = yield* Context.get(services, Sessions).makeLink("operator:grace@host", undefined)
    const person = new Person(url)
    yield* person.post("/console/enter", { code: new URL(Redacted.value(link.url)).searchParams.get("code")! })
    return { person, csrf: csrfOf(yield* person.get("/console/projects")) }
  })
  const taskOf = (agent: Agent, id: string) => Effect.map(agent.call("task_get", { id }), ({ output }) => output.task)
  const events = (project_id: string, action: string) =>
    SqlClient.SqlClient.use(
      (sql) => sql<{ actor: string; outcome: string; code: string | null }>`
        select actor, outcome, code from audit_event where project_id = ${project_id}::uuid and action = ${action}`
    )

  it.effect("answers a question with one of its choices, as the person's token", () =>
    Effect.gen(function* () {
      const { agent, home, person, project_id, send, token_id } = yield* project()
      const task = yield* ask(agent)
      const page = yield* person.get(`${home}/tasks/${task.id}`)
      for (const text of ["Should invoices be PDF or UBL?", ...choices, 'name="text"']) assert.include(page.text, text)
      const form = { action: "answer", version: String(task.version), choice: "UBL", text: "" }
      const path = `/tasks/${task.id}`
      assert.deepEqual(statusAndPlace(yield* send(path, form)), [303, home + path])
      const answered = yield* taskOf(agent, task.id)
      assert.deepInclude(answered, { status: "in_progress", version: task.version + 1 })
      assert.deepInclude(answered.answer, {
        text: "UBL",
        by: { kind: "token", id: token_id, label: "Ada" },
        same_credential: false
      })
      assert.deepEqual(yield* events(project_id, "task.answered"), [
        { actor: `project_token:${token_id}`, outcome: "done", code: null }
      ])
      const { text } = yield* person.get(home + path)
      assert.match(text, /Decided[^]*UBL[^]*by <span class="name">Ada/)
      assert.notInclude(text, 'value="answer"')
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "UBL it is." }
      assert.isUndefined((yield* agent.update(answered, { receipt })).code)
      const last = `href="${home}/memory/${answered.answer.entry_id}">The last decision about this task`
      assert.include((yield* person.get(home + path)).text, last)
      const entry = yield* person.get(`${home}/memory/${answered.answer.entry_id}`)
      assert.include(entry.text, "UBL\n\nShould invoices be PDF or UBL?")
      assert.include((yield* person.get(`${home}/activity`)).text, "answered the question of a task")
    })
  )

  it.effect("answers in the person's own words, alone or added to a choice", () =>
    Effect.gen(function* () {
      const { agent, send } = yield* project()
      const free = yield* ask(agent, { choices: undefined })
      yield* send(`/tasks/${free.id}`, {
        action: "answer",
        version: String(free.version),
        text: "Ask\r\nLegal first. "
      })
      assert.strictEqual((yield* taskOf(agent, free.id)).answer.text, "Ask\nLegal first.")
      const both = yield* ask(agent)
      const form = { action: "answer", version: String(both.version), choice: "UBL", text: "From March on." }
      yield* send(`/tasks/${both.id}`, form)
      assert.strictEqual((yield* taskOf(agent, both.id)).answer.text, "UBL\nFrom March on.")
    })
  )

  it.effect("takes a form that is sent twice once", () =>
    Effect.gen(function* () {
      const { agent, home, project_id, send, service, token } = yield* project()
      const task = yield* ask(agent)
      const form = { action: "answer", version: String(task.version), choice: "UBL", text: "" }
      const both = yield* Effect.all([send(`/tasks/${task.id}`, form), send(`/tasks/${task.id}`, form)], {
        concurrency: 2
      })
      for (const one of both) assert.deepEqual(statusAndPlace(one), [303, `${home}/tasks/${task.id}`])
      assert.lengthOf(yield* events(project_id, "task.answered"), 1)

      const created = { action: "create", title: "Twice", period: "1" }
      assert.strictEqual(placeOf(yield* send("/tasks", created)), placeOf(yield* send("/tasks", created)))
      const later = yield* send("/tasks", { ...created, period: "2" })
      assert.notStrictEqual(placeOf(later), placeOf(yield* send("/tasks", created)))
      const added = { action: "add", kind: "note", body: "Twice", period: "1" }
      assert.strictEqual(placeOf(yield* send("/memory", added)), placeOf(yield* send("/memory", added)))
      const elsewhere = new Person(service.url)
      yield* elsewhere.signIn(token)
      const csrf = csrfOf(yield* elsewhere.get(home))
      const again = yield* elsewhere.post(`${home}/tasks`, { csrf, ...created })
      assert.notStrictEqual(placeOf(again), placeOf(yield* send("/tasks", created)), "from another browser")
    })
  )

  it.effect("takes the same form for two tasks as two changes", () =>
    Effect.gen(function* () {
      const { agent, home, send } = yield* project()
      for (const task of [yield* ask(agent), yield* ask(agent)]) {
        const form = { action: "answer", version: String(task.version), choice: "UBL", text: "" }
        const path = `/tasks/${task.id}`
        assert.deepEqual(statusAndPlace(yield* send(path, form)), [303, home + path])
        assert.strictEqual((yield* taskOf(agent, task.id)).answer.text, "UBL")
      }
    })
  )

  it.effect("tells a person that somebody was first, and keeps what they typed", () =>
    Effect.gen(function* () {
      const { agent, person, home, project_id, send, service } = yield* project()
      const task = yield* ask(agent)
      const page = yield* person.get(`${home}/tasks/${task.id}`)
      const version = /name="version" value="(\d+)"/.exec(page.text)![1]!
      yield* answer(service, otherPerson(project_id), task, "PDF, as ever")
      const late = yield* send(`/tasks/${task.id}`, {
        action: "answer",
        version,
        choice: "UBL",
        text: `Mine ${hostile}`
      })
      assert.strictEqual(late.status, 409)
      for (const text of ["Somebody was first", "PDF, as ever", "What you typed", `UBL\nMine ${escaped}`])
        assert.include(late.text, text)
      assert.notInclude(late.text, "<script>alert")
      assert.strictEqual((yield* taskOf(agent, task.id)).answer.text, "PDF, as ever")

      const changed = yield* ask(agent)
      yield* agent.update(changed, { blocked_reason: "Another question?" })
      const stale = { action: "answer", version: String(changed.version), choice: "UBL", text: "Mine" }
      const again = yield* send(`/tasks/${changed.id}`, stale)
      assert.strictEqual(again.status, 409)
      assert.include(again.text, "Another question?")
      assert.match(again.text, /value="UBL" checked/)
      assert.match(again.text, /<textarea[^>]*>\nMine</)
      const now = /name="version" value="(\d+)"/.exec(again.text)![1]!
      assert.strictEqual((yield* send(`/tasks/${changed.id}`, { ...stale, version: now })).status, 303)
    })
  )

  it.effect("creates a task, and changes what the form changed", () =>
    Effect.gen(function* () {
      const { agent, home, person, project_id, send, token_id } = yield* project()
      const fields = {
        action: "create",
        title: " Paint ",
        body: "Red\r\nor blue\r\n\r\nSoon",
        priority: "0",
        tags: "api, web api"
      }
      const created = yield* send("/tasks", fields)
      const id = idOf(created)
      assert.deepEqual(statusAndPlace(created), [303, `${home}/tasks/${id}`])
      const task = yield* taskOf(agent, id)
      const by = `project_token:${token_id}`
      const expected = {
        title: "Paint",
        body: "Red\nor blue\n\nSoon",
        priority: 0,
        tags: ["api", "web"],
        created_by: by
      }
      assert.deepInclude(task, expected)

      const form = { ...fields, action: "change", title: "Paint", tags: "api web", version: "1", assignee: "" }
      const same = yield* send(`/tasks/${id}`, { ...form, status: "open" })
      assert.deepEqual(statusAndPlace(same), [303, `${home}/tasks/${id}`])
      assert.strictEqual((yield* taskOf(agent, id)).version, 1)
      yield* send(`/tasks/${id}`, { ...form, status: "in_progress", assignee: "ada" })
      assert.deepInclude(yield* taskOf(agent, id), {
        version: 2,
        status: "in_progress",
        assignee: "ada",
        updated_by: by
      })
      const blocked = { ...form, version: "2", assignee: "ada", status: "blocked", blocked_kind: "external" }
      const blocked_reason = "No paint\r\nNo brush\r\nNo time"
      yield* send(`/tasks/${id}`, { ...blocked, blocked_reason })
      assert.deepInclude(yield* taskOf(agent, id), {
        version: 3,
        blocked_kind: "external",
        blocked_reason: "No paint\nNo brush\nNo time"
      })
      const waiting = (yield* person.get(`${home}/tasks/${id}`)).text
      assert.match(waiting, /It is blocked<\/h2>[^]*?No paint/)
      assert.notInclude(waiting, 'value="answer"')
      yield* send(`/tasks/${id}`, { ...blocked, blocked_reason, version: "3", assignee: "" })
      assert.deepInclude(yield* taskOf(agent, id), { version: 4, status: "blocked", assignee: null })
      assert.lengthOf(yield* events(project_id, "task.updated"), 3)
    })
  )

  it.effect("shows both versions when two people change a task, and lets the second decide", () =>
    Effect.gen(function* () {
      const { agent, send } = yield* project()
      const task = yield* agent.task("Paint", { body: "Red" })
      yield* agent.update(task, { title: "Paint the gate" })
      const form = { action: "change", version: "1", title: "Paint it", body: "Red", status: "open", priority: "1" }
      const late = yield* send(`/tasks/${task.id}`, { ...form, tags: "", assignee: "" })
      assert.strictEqual(late.status, 409)
      assert.include(late.text, "The task has changed since you opened it")
      assert.include(late.text, 'value="Paint it"')
      assert.match(late.text, /Now: <span class="name">Paint the gate/)
      assert.include(late.text, 'name="version" value="2"')
      assert.match(late.text, /<details class="folded" open/)
      assert.strictEqual((yield* taskOf(agent, task.id)).title, "Paint the gate")
      yield* send(`/tasks/${task.id}`, { ...form, tags: "", assignee: "", version: "2" })
      assert.deepInclude(yield* taskOf(agent, task.id), { title: "Paint it", priority: 1, version: 3 })
    })
  )

  it.effect("says why a task cannot be changed so", () =>
    Effect.gen(function* () {
      const { agent, send } = yield* project()
      const first = yield* agent.task("First")
      const task = yield* agent.task("Second", { depends_on: [first.id] })
      const form = { action: "change", title: "Second", priority: "2", tags: "", assignee: "", body: "" }
      const waiting = yield* send(`/tasks/${task.id}`, { ...form, version: "1", status: "in_progress" })
      assert.strictEqual(waiting.status, 409)
      assert.include(waiting.text, "The task waits for others")
      yield* agent.update(task, { status: "done" })
      const closed = yield* send(`/tasks/${task.id}`, { ...form, version: "2", status: "blocked" })
      assert.strictEqual(closed.status, 409)
      assert.include(closed.text, "The task cannot go from its status to that one.")
    })
  )

  it.effect("adds to memory, and supersedes an entry once", () =>
    Effect.gen(function* () {
      const { agent, home, send, token_id } = yield* project()
      const fields = { kind: "decision", title: "", body: "Tuesdays only\r\nBy hand\r\nIn pairs", tags: "deploy" }
      const added = yield* send("/memory", { ...fields, action: "add" })
      const id = idOf(added)
      assert.deepEqual(statusAndPlace(added), [303, `${home}/memory/${id}`])
      const { entry } = (yield* agent.call("memory_get", { id })).output
      assert.deepInclude(entry, { kind: "decision", title: "Tuesdays only", body: "Tuesdays only\nBy hand\nIn pairs" })
      assert.deepInclude(entry.provenance, { actor: `project_token:${token_id}`, role: "contributor" })

      const successor = { ...fields, action: "supersede", body: "Any day" }
      const next = idOf(yield* send(`/memory/${id}`, successor))
      assert.strictEqual((yield* agent.call("memory_get", { id })).output.entry.superseded_by, next)
      const late = yield* send(`/memory/${id}`, { ...successor, body: "Mondays" })
      assert.strictEqual(late.status, 409)
      assert.include(late.text, "nothing was saved")
      assert.include(late.text, `${home}/memory/${next}`)
      assert.match(late.text, /<textarea[^>]*>\nMondays</)
    })
  )

  it.effect("archives an entry, after saying what that means", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { entry_id, project_id, token, token_id } = yield* makeBusyProject(service)
      const person = new Person(service.url)
      yield* person.signIn(token)
      const path = `/console/${project_id}/memory/${entry_id}`
      const page = yield* person.get(path)
      assert.include(page.text, "Agents no longer find it, in searches or in their context.")
      assert.notInclude(page.text, "archive-memory")
      const archive = { csrf: csrfOf(page), action: "archive" }
      for (let time = 0; time < 2; time++) assert.strictEqual((yield* person.post(path, archive)).status, 303)
      const after = yield* person.get(path)
      assert.include(after.text, "This entry was archived; agents no longer find it.")
      assert.notInclude(after.text, "Archive this entry")
      assert.notInclude((yield* person.get(`/console/${project_id}/memory`)).text, entry_id)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`
        select actor from audit_event where action = 'memory.archived' and project_id = ${project_id}::uuid`
      assert.deepEqual(rows, [{ actor: `project_token:${token_id}` }])

      const other = yield* makeBusyProject(service)
      const operator = yield* signedInOperator(service)
      const theirs = `/console/${other.project_id}/memory/${other.entry_id}`
      const shown = yield* operator.get(theirs)
      assert.include(shown.text, "archive-memory")
      assert.strictEqual((yield* operator.post(theirs, { csrf: csrfOf(shown), action: "archive" })).status, 303)
      const [row] = yield* sql`
        select actor from audit_event where action = 'memory.archived' and project_id = ${other.project_id}::uuid`
      assert.deepEqual(row, { actor: "operator:ada@desk" })
    })
  )

  it.effect("names what an operator writes as the operator's", () =>
    Effect.gen(function* () {
      const { agent, home, project_id } = yield* project()
      const { csrf, person } = yield* operator()
      const task = yield* ask(agent)
      const form = { csrf, action: "answer", version: String(task.version), choice: "PDF", text: "" }
      assert.strictEqual((yield* person.post(`${home}/tasks/${task.id}`, form)).status, 303)
      const answered = yield* taskOf(agent, task.id)
      assert.deepInclude(answered.answer.by, { kind: "operator", id: "grace@host", label: null })
      assert.strictEqual(answered.answered_by, "operator:grace@host")
      const { entry } = (yield* agent.call("memory_get", { id: answered.answer.entry_id })).output
      assert.deepInclude(entry.provenance, { actor: "operator:grace@host", role: "operator" })
      assert.include((yield* person.get(`${home}/tasks/${task.id}`)).text, "by operator")
      yield* person.post(`${home}/tasks`, { csrf, action: "create", title: "By the operator" })
      assert.deepInclude((yield* events(project_id, "task.created")).at(-1), { actor: "operator:grace@host" })

      const { services } = yield* Service
      yield* Context.get(services, Projects).disable(project_id)
      const refused = yield* person.post(`${home}/tasks`, { csrf, action: "create", title: "Too late" })
      assert.strictEqual(refused.status, 409)
      assert.include(refused.text, "This project is disabled.")
      assert.notInclude((yield* person.get(`${home}/tasks`)).text, 'name="action"')
    })
  )

  const forms = (task_id: string, entry_id: string, version = "2") =>
    [
      [`/tasks/${task_id}`, { action: "answer", version, text: "Mine" }],
      [`/tasks/${task_id}`, { action: "change", version, title: "Mine", status: "blocked", priority: "2" }],
      ["/tasks", { action: "create", title: "Mine" }],
      ["/memory", { action: "add", kind: "note", body: "Mine" }],
      [`/memory/${entry_id}`, { action: "supersede", kind: "note", body: "Mine" }]
    ] as ReadonlyArray<readonly [string, Readonly<Record<string, string>>]>
  /** A question and an entry of the project, and whether they are as they were. */
  const subjects = Effect.fnUntraced(function* (agent: Agent) {
    const task = yield* ask(agent)
    const entry = yield* agent.note("An entry")
    const untouched = Effect.gen(function* () {
      assert.strictEqual((yield* taskOf(agent, task.id)).version, task.version)
      assert.isTrue((yield* agent.call("memory_get", { id: entry.id })).output.entry.active)
      assert.lengthOf((yield* agent.call("task_list")).output.tasks, 1)
      assert.lengthOf((yield* agent.call("memory_search")).output.entries, 1)
    })
    return { all: forms(task.id, entry.id, String(task.version)), task, entry, untouched }
  })

  it.effect("shows a reader no form and takes none, with an audit row", () =>
    Effect.gen(function* () {
      const { agent, home, person, project_id, send, token_id } = yield* project({ role: "reader" })
      const { all, entry, task, untouched } = yield* subjects(agent)
      for (const path of ["", "/tasks", `/tasks/${task.id}`, "/memory", `/memory/${entry.id}`]) {
        const { text } = yield* person.get(home + path)
        assert.notInclude(text, 'name="action"', path)
      }
      for (const [path, fields] of all) {
        const { status, text } = yield* send(path, fields)
        assert.strictEqual(status, 403)
        assert.include(text, "does not include the scope")
      }
      yield* untouched
      assert.deepEqual(yield* events(project_id, "console.write"), [
        { actor: `project_token:${token_id}`, outcome: "refused", code: "insufficient_scope" }
      ])
      assert.include((yield* person.get(`${home}/activity`)).text, "tried to write at the console")
    })
  )

  it.effect("takes only what the scopes of the token allow", () =>
    Effect.gen(function* () {
      const { send } = yield* project({ scopes: ["context:read", "memory:write"] })
      assert.strictEqual((yield* send("/memory", { action: "add", kind: "note", body: "Mine" })).status, 303)
      assert.strictEqual((yield* send("/tasks", { action: "create", title: "Mine" })).status, 403)
    })
  )

  it.effect("takes no form of another page, another session, another project, or an ended token", () =>
    Effect.gen(function* () {
      const { agent, csrf, person, home, send, service, token_id } = yield* project()
      const { all, untouched } = yield* subjects(agent)
      const other = yield* project()
      for (const [path, fields] of all) {
        const fromElsewhere = yield* person.post(home + path, { csrf, ...fields }, { origin: "http://evil.example" })
        const withoutOrigin = yield* person.post(home + path, { csrf, ...fields }, {})
        const foreignCsrf = yield* person.post(home + path, { csrf: other.csrf, ...fields })
        const withoutCsrf = yield* person.post(home + path, fields)
        for (const { status, text } of [fromElsewhere, withoutOrigin, foreignCsrf, withoutCsrf]) {
          assert.strictEqual(status, 403, path)
          assert.include(text, "Nothing was changed")
        }
        const theirProject = yield* other.person.post(home + path, { csrf: other.csrf, ...fields })
        assert.strictEqual(theirProject.status, 404, path)
        const isOne = path.split("/").length > 2
        if (isOne) assert.strictEqual((yield* other.send(path, fields)).status, 404, path)
        const signedOut = yield* new Person(service.url).post(home + path, { csrf, ...fields })
        assert.strictEqual(signedOut.status, 401)
      }
      yield* Context.get(service.services, ProjectTokens).revoke(token_id)
      for (const [path, fields] of all) assert.strictEqual((yield* send(path, fields)).status, 401)
      yield* untouched
    })
  )

  it.effect("refuses a mistake, names the field, and keeps every text", () =>
    Effect.gen(function* () {
      const { agent, send, token } = yield* project()
      const { all, task, untouched } = yield* subjects(agent)
      const path = `/tasks/${task.id}`
      const version = String(task.version)
      const wrong: ReadonlyArray<readonly [string, Readonly<Record<string, string>>, number, string]> = [
        [path, { action: "answer", version, text: " " }, 422, "Answer: "],
        [path, { action: "answer", version: "x", text: "Mine" }, 422, "The form: "],
        [path, { action: "answer", text: "Mine" }, 422, "The form: "],
        [path, { action: "answer", version, text: `${token} Mine` }, 422, "contains a project token"],
        [path, { action: "answer", version, text: "Mine\u202e" }, 422, "U+202E"],
        [path, { action: "answer", version, text: `Mine ${"ü".repeat(2000)}` }, 422, "Answer: "],
        [path, { action: "change", version, title: "Mine", status: "gone" }, 422, "Status: "],
        ["/tasks", { action: "create", title: "", body: "Mine" }, 422, "Title: "],
        ["/tasks", { action: "create", title: "Mine", priority: "9" }, 422, "Priority: "],
        ["/tasks", { action: "create", title: "Mine", tags: "!!!" }, 422, "Tags: "],
        ["/memory", { action: "add", body: "", title: "Mine" }, 422, "Text: "],
        ["/memory", { action: "add", kind: "poem", body: "Mine" }, 422, "Kind: "]
      ]
      for (const [where, fields, status, problem] of wrong) {
        const answered = yield* send(where, fields)
        assert.strictEqual(answered.status, status, JSON.stringify(fields))
        assert.include(answered.text, problem, JSON.stringify(fields))
        if (JSON.stringify(fields).includes("Mine")) assert.include(answered.text, "Mine")
      }
      for (const action of ["", "delete", "constructor", "__proto__"]) {
        assert.strictEqual((yield* send(path, { ...all[0]![1], action })).status, 404)
      }
      assert.strictEqual((yield* send("/tasks/x", { action: "answer", version, text: "Mine" })).status, 404)
      assert.strictEqual((yield* send("/memory/x", { action: "archive" })).status, 404)
      yield* untouched
    })
  )

  it.effect("shows every text of a form as text", () =>
    Effect.gen(function* () {
      const { agent, person, home, send } = yield* project()
      const task = yield* ask(agent, { blocked_reason: hostile, choices: [hostile, "UBL"] })
      const version = String(task.version)
      const texts = { title: hostile, body: hostile, tags: hostile, assignee: hostile, blocked_reason: hostile }
      const answers = [
        yield* person.get(`${home}/tasks/${task.id}`),
        yield* send(`/tasks/${task.id}`, { action: "answer", version: "1", choice: hostile, text: hostile }),
        yield* send(`/tasks/${task.id}`, {
          ...texts,
          action: "change",
          version: "1",
          status: hostile,
          priority: hostile
        }),
        yield* send("/tasks", { ...texts, action: "create", priority: hostile }),
        yield* send("/memory", { ...texts, action: "add", kind: hostile }),
        yield* send(`/tasks/${task.id}`, { action: "answer", version, choice: hostile, text: hostile }),
        yield* person.get(`${home}/tasks/${task.id}`)
      ]
      for (const { text } of answers) {
        assert.notInclude(text, "<script>alert")
        assert.notInclude(text, "<img")
      }
      assert.include(answers.at(-1)!.text, escaped)
    })
  )

  it.effect("says that a limit is reached, and keeps what was typed", () =>
    Effect.gen(function* () {
      const { project_id, send, service } = yield* project()
      yield* Context.get(service.services, Limits).set(project_id, { tasks: 0 })
      const { status, text } = yield* send("/tasks", { action: "create", title: "One too many" })
      assert.strictEqual(status, 429)
      assert.include(text, "of at most 0 tasks")
      assert.include(text, 'value="One too many"')
    })
  )

  it.effect("takes the longest text that an agent may write", () =>
    Effect.gen(function* () {
      const { agent, send } = yield* project()
      const body = "ü".repeat(8192)
      const id = idOf(yield* send("/memory", { action: "add", kind: "note", body }))
      assert.strictEqual((yield* agent.call("memory_get", { id })).output.entry.body, body)
      assert.strictEqual((yield* send("/memory", { action: "add", body: "x".repeat(200_000) })).status, 400)
    })
  )

  it.effect("marks an answer by the credential that asked", () =>
    Effect.gen(function* () {
      const { home, person, send, service, project_id, token } = yield* project()
      const self = yield* Agent.connect({ url: service.url, token, project_id })
      const task = yield* ask(self)
      yield* send(`/tasks/${task.id}`, { action: "answer", version: String(task.version), choice: "UBL", text: "" })
      assert.isTrue((yield* taskOf(self, task.id)).answer.same_credential)
      assert.include((yield* person.get(`${home}/tasks/${task.id}`)).text, "by the credential that asked")
    })
  )
})
