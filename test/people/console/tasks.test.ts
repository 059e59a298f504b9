/** The tasks of a project as people see them: the board, what waits for what, and notes. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { csrfOf, makeBusyProject, Person, signedInOperator } from "../../support/people/Console.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { Service } from "../../support/service/Service.ts"

const signedIn = Effect.gen(function* () {
  const service = yield* Service
  const made = yield* makeBusyProject(service)
  const person = new Person(service.url)
  yield* person.signIn(made.token)
  return { made, person, tasks: `/console/${made.project_id}/tasks` }
})

/** The texts between two headings. */
const between = (text: string, from: string, to: string) => text.slice(text.indexOf(from)).split(to)[0]!

layer(Service.layer)("the tasks of a project", (it) => {
  it.effect("are on a board, each in the column of its state", () =>
    Effect.gen(function* () {
      const { person, tasks } = yield* signedIn
      const { status, text } = yield* person.get(`${tasks}?view=board`)
      assert.strictEqual(status, 200)
      const columns = text.split("<section>").slice(1)
      const held = columns.map((column) =>
        [...column.matchAll(/<a class="name"[^>]*>([^<]*)</g)].map(([, title]) => title)
      )
      assert.deepEqual(held, [
        ["Write the guide"],
        ["Move orders to the new queue"],
        ["Choose the invoice format"],
        ["Remove the old endpoint"]
      ])
      assert.include((yield* person.get(tasks)).text, `href="${tasks}?view=board"`)
    })
  )

  it.effect("stand on the board by their priority, and those that are closed by their last change", () =>
    Effect.gen(function* () {
      const { made, person, tasks } = yield* signedIn
      for (const [title, priority] of [
        ["Some day", 4],
        ["At once", 0]
      ] as const) {
        yield* made.agent.task(title, { priority })
      }
      const dropped = yield* made.agent.task("Forget it", { priority: 4 })
      yield* made.agent.update(dropped, { status: "cancelled" })
      const { text } = yield* person.get(`${tasks}?view=board`)
      const titles = (column: string) =>
        [...between(text, `<h2>${column} `, "</section>").matchAll(/<a class="name"[^>]*>([^<]*)</g)].map(
          ([, of]) => of
        )
      assert.deepEqual(titles("Open"), ["At once", "Write the guide", "Some day"])
      assert.deepEqual(titles("Closed lately"), ["Forget it", "Remove the old endpoint"])
    })
  )

  it.effect("of a column that is long are cut, and the list has the rest", () =>
    Effect.gen(function* () {
      const { made, person, tasks } = yield* signedIn
      for (let count = 0; count < 20; count++) yield* made.agent.write("task_create", { title: `Task ${count}` })
      const { text } = yield* person.get(`${tasks}?view=board`)
      const open = between(text, "Open <span", "</section>")
      assert.strictEqual(open.match(/<li>/g)!.length, 20)
      const rest = /href="([^"]+)">All of them/.exec(open)![1]!
      assert.strictEqual((yield* person.get(rest)).text.match(/<li>/g)!.length, 21)
    })
  )

  it.effect("are drawn between those that they wait for and those that wait for them", () =>
    Effect.gen(function* () {
      const { made, person, tasks } = yield* signedIn
      const dependent = (yield* person.get(`${tasks}/${made.dependent_id}`)).text
      assert.include(between(dependent, 'class="before"', "This task"), `href="${tasks}/${made.finished_id}"`)
      assert.notInclude(dependent, 'class="after"')
      const finished = (yield* person.get(`${tasks}/${made.finished_id}`)).text
      assert.include(between(finished, 'class="after"', "</section>"), `href="${tasks}/${made.dependent_id}"`)
      assert.notInclude((yield* person.get(`${tasks}/${made.task_id}`)).text, 'class="graph"')
    })
  )

  it.effect("say where what belongs to them is cut", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { made, person, tasks } = yield* signedIn
      const of = sql`${made.project_id}::uuid, gen_random_uuid(), ${made.task_id}::uuid`
      yield* sql`
        with waiting as (
          insert into task (
            project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
          select project_id, gen_random_uuid(), 'Waits', '', 'open', 2, '{}', 1, created_by, created_at, created_at
            from task, generate_series(1, 10)
           where project_id = ${made.project_id}::uuid
             and id = ${made.task_id}::uuid
          returning project_id, id
        )
        insert into task_dependency (project_id, task_id, depends_on)
        select project_id, id, ${made.task_id}::uuid from waiting`
      yield* sql`
        insert into task_note (project_id, id, task_id, text, actor, created_at)
        select ${of}, 'A note', 'operator', now() from generate_series(1, 6)`
      yield* sql`
        insert into receipt (
          project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls, git_checkpoint,
          task_version_after, task_status_after, actor, created_at)
        select ${of}, 'session ' || n, 'me', 'handoff', 'Half.', '{}', '{}',
               jsonb_build_object('repository', 'acme/shop', 'branch', 'main', 'commit_sha', repeat('b', 40),
                                  'dirty', false, 'pushed', false),
               1, 'open', 'operator', now()
          from generate_series(1, 10) n`
      const found = (yield* made.agent.call("task_get", { id: made.task_id })).output
      assert.deepStrictEqual([found.receipts.length, found.notes.length, found.blocks.length], [5, 5, 10])
      const first = yield* person.get(`${tasks}/${made.task_id}`)
      const count = (text: string, part: RegExp) => [...text.matchAll(part)].length
      assert.include(first.text, "The first that wait for it")
      assert.strictEqual(count(between(first.text, 'class="after"', "</section>"), /<li>/g), 10)
      assert.strictEqual(count(between(first.text, "The newest five.", "<h2>"), /A note/g), 5)
      assert.strictEqual(count(first.text, />handed over</g), 10)
      assert.include(first.text, "not pushed")
      assert.notInclude(first.text, "changes not committed")
      const next = /href="([^"]+)">Next page/.exec(first.text)![1]!
      const second = (yield* person.get(next)).text
      assert.deepStrictEqual([count(second, />handed over</g), count(second, /Read the code/g)], [0, 1])
      assert.notInclude(second, "Next page")
    })
  )

  it.effect("have one budget for the Markdown of a page, of which the receipts get what the other texts leave", () =>
    Effect.gen(function* () {
      const { made, person, tasks } = yield* signedIn
      const task = yield* made.agent.task("Costly", { body: `*body*\n\n${"a\n\n".repeat(5000)}` })
      for (let count = 0; count < 5; count++) {
        yield* made.agent.write("task_note", { id: task.id, text: "a\n\n".repeat(1300) })
      }
      const receipt = { session_ref: "session", worker: "me", outcome: "blocked", summary: "*receipt*" }
      const question = { status: "blocked", blocked_kind: "decision", blocked_reason: "*question*" }
      yield* made.agent.update(task, { ...question, receipt })
      const { text } = yield* person.get(`${tasks}/${task.id}`)
      for (const shown of ["<em>question</em>", "<em>body</em>", '<p class="text">*receipt*</p>']) {
        assert.include(text, shown)
      }
    })
  )

  it.effect("show the notes of agents and people, and take one from whoever may write", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { made, person, tasks } = yield* signedIn
      const path = `${tasks}/${made.task_id}`
      yield* made.agent.write("task_note", { id: made.task_id, text: "Legal says *either* is fine." })
      const before = yield* person.get(path)
      assert.include(before.text, "Legal says <em>either</em> is fine.")
      const note = { csrf: csrfOf(before), action: "note", note: "Then it is PDF.\r\n\r\nNot UBL.", period: "1" }
      for (let time = 0; time < 2; time++) assert.strictEqual((yield* person.post(path, note)).status, 303)
      const { text } = yield* person.get(path)
      assert.strictEqual(text.match(/Then it is PDF\./g)!.length, 1, "sent twice, it is one note")
      const { notes } = (yield* made.agent.call("task_get", { id: made.task_id })).output
      assert.include(
        notes.map(({ text }: { text: string }) => text),
        "Then it is PDF.\n\nNot UBL."
      )
      assert.include((yield* person.get(`/console/${made.project_id}/activity`)).text, "left a note on a task")

      const empty = yield* person.post(path, { ...note, note: "  " })
      assert.strictEqual(empty.status, 422)
      assert.include(empty.text, "Note: ")
      const { token } = yield* makeToken(service, { project_id: made.project_id, role: "reader" })
      const reader = new Person(service.url)
      yield* reader.signIn(token)
      const read = yield* reader.get(path)
      assert.include(read.text, "Then it is PDF.")
      assert.notInclude(read.text, "Add a note")
      assert.strictEqual((yield* reader.post(path, { ...note, csrf: csrfOf(read), note: "No." })).status, 403)

      const operator = yield* signedInOperator(service)
      const sent = { ...note, csrf: csrfOf(yield* operator.get(path)), note: "Ship it." }
      assert.strictEqual((yield* operator.post(path, sent)).status, 303)
      assert.include((yield* operator.get(path)).text, "operator ada@desk")
    })
  )
})
