/** The link of a notification: /console/open leads to what its `r` is about, and says nothing to anyone else. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { makeToken } from "../../../support/agents/Agent.ts"
import { Person, signedInOperator } from "../../../support/people/Console.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { makePerson } from "../../../support/people/SignIn.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { makeRegisteredPhone } from "../../../support/phones/Phone.ts"
import { Service } from "../../../support/service/Service.ts"

const unknown = "01990000-0000-7000-8000-000000000001"

layer(Service.layer)("the link of a notification", (it) => {
  /** A task, a Bridge, a sign-in and a phone of one project, and where each leads. */
  const subjects = Effect.gen(function* () {
    const service = yield* Service
    const sql = yield* SqlClient.SqlClient
    const owner = yield* makePerson(service)
    const { project_id } = owner
    const { device_id } = yield* makeRegisteredPhone(service, owner)
    const task = yield* (yield* Agent.make(service, { project_id })).task("Paint the gate")
    yield* (yield* Bridge.make(service, { project_id })).enroll(service)
    const [bridge] = yield* sql<{ id: string }>`
      select identity_id::text as id from bridge_identity where project_id = ${project_id}::uuid`
    const [grant] = yield* sql<{ id: string }>`
      select grant_id::text as id from oauth_grant where project_id = ${project_id}::uuid`
    const home = `/console/${project_id}`
    return {
      project_id,
      all: [
        [task.id as string, `${home}/tasks/${task.id}`],
        [bridge!.id, `${home}/bridges`],
        [grant!.id, `${home}/agents`],
        [device_id, `${home}/phones`]
      ] as const
    }
  })
  const signedIn = Effect.fnUntraced(function* (project_id?: string) {
    const service = yield* Service
    const { token } = yield* makeToken(service, project_id === undefined ? {} : { project_id })
    const person = new Person(service.url)
    yield* person.signIn(token)
    return person
  })

  it.effect("leads the people of the project and the operator to a page that exists", () =>
    Effect.gen(function* () {
      const { all, project_id } = yield* subjects
      for (const person of [yield* signedIn(project_id), yield* signedInOperator(yield* Service)]) {
        for (const [id, place] of all) {
          const { headers, status } = yield* person.get(`/console/open/${id}`)
          assert.deepStrictEqual([status, headers.get("location")], [303, place])
          assert.strictEqual((yield* person.get(place)).status, 200)
        }
      }
    })
  )

  it.effect("leads a person who is signed out to the sign-in page and then on", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { all, project_id } = yield* subjects
      const [[id]] = all
      const person = new Person(service.url)
      const path = `/console/open/${id}`
      const asked = yield* person.get(path)
      assert.strictEqual(asked.headers.get("location"), `/console/sign-in?to=${encodeURIComponent(path)}`)
      const { token } = yield* makeToken(service, { project_id })
      assert.strictEqual((yield* person.signIn(token, path)).headers.get("location"), path)
    })
  )

  it.effect("answers one 404 for another project's ids, unknown ones and malformed ones", () =>
    Effect.gen(function* () {
      const { all } = yield* subjects
      const person = yield* signedIn()
      const answers = yield* Effect.forEach([...all.map(([id]) => id), unknown, "x"], (id) =>
        person.get(`/console/open/${id}`)
      )
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [404])
      assert.strictEqual(new Set(answers.map(({ text }) => text)).size, 1)
    })
  )
})
