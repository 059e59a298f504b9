/** The tasks of a project as people see them: the board, what waits for what, and notes. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
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

  it.effect("show the notes of agents and people, and take one from whoever may write", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { made, person, tasks } = yield* signedIn
      const path = `${tasks}/${made.task_id}`
      yield* made.agent.write("task_note", { id: made.task_id, text: "Legal says *either* is fine." })
      const before = yield* person.get(path)
      assert.include(before.text, "Legal says <em>either</em> is fine.")
      const note = { csrf: csrfOf(before), action: "note", note: "Then it is PDF.", period: "1" }
      for (let time = 0; time < 2; time++) assert.strictEqual((yield* person.post(path, note)).status, 303)
      const { text } = yield* person.get(path)
      assert.strictEqual(text.match(/Then it is PDF\./g)!.length, 1, "sent twice, it is one note")
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
