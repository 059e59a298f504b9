/** The activity page: who did what, found by kind, by actor or subject, and by day. */
import { assert, it as plain, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { filterForm, filterOf } from "../../../src/people/console/activity/ActivityFilter.ts"
import { sentences } from "../../../src/people/console/activity/Sentences.ts"
import { Channels } from "../../../src/people/channels/Channels.ts"
import { makeBusyProject, Person, signedInOperator } from "../../support/people/Console.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { Service } from "../../support/service/Service.ts"

/** What the page's rows say. */
const rowsOf = (text: string) =>
  [...text.matchAll(/<b class="name">([^<]*)<\/b>(?:<\/a>)? ([^<]*)(?:<a class="name"[^>]*>([^<]*)<\/a>)?/g)].map(
    ([, who, did, what]) => `${who} ${did}${what ?? ""}`.trim()
  )

const signedIn = Effect.gen(function* () {
  const service = yield* Service
  const made = yield* makeBusyProject(service)
  const person = new Person(service.url)
  yield* person.signIn(made.token)
  const path = `/console/${made.project_id}/activity`
  const rows = (query = "") => Effect.map(person.get(`${path}?${query}`), ({ text }) => rowsOf(text))
  return { made, path, person, rows }
})

plain("every action of the audit log is of one kind of the filter, unless it is of no project", () => {
  const options = filterForm(new URLSearchParams(), true).text.matchAll(/<option value="(\w+)"/g)
  const kinds = [...options].flatMap(([, kind]) => filterOf(new URLSearchParams({ kind: kind! }), true)!.actions ?? [])
  const ofService = ["operator_token", "audit_log", "database"]
  const ofProject = Object.keys(sentences).filter((action) => !ofService.includes(action.split(".")[0]!))
  assert.deepStrictEqual(kinds.toSorted(), ofProject.toSorted())
})

layer(Service.layer)("the activity page", (it) => {
  it.effect("names tasks and entries by their titles, for a token that may see them", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { made, rows } = yield* signedIn
      const seen = yield* rows()
      assert.include(seen.join("\n"), "created a task: Choose the invoice format")
      assert.include(seen.join("\n"), "added to memory: Deploys happen any day")
      const { token } = yield* makeToken(service, { project_id: made.project_id, scopes: ["context:read"] })
      const blind = new Person(service.url)
      yield* blind.signIn(token)
      const { status, text } = yield* blind.get(`/console/${made.project_id}/activity`)
      assert.strictEqual(status, 200)
      assert.notInclude(text, "Choose the invoice format")
      assert.notInclude(text, made.task_id)
    })
  )

  it.effect("names a task by its title in the project of the event", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      // Imports keep ids.
      const [id, day] = [randomUUID(), "1961-05-01"]
      const at = `${day}T12:00:00Z`
      for (const title of ["Ours", "Theirs"]) {
        const { project_id } = yield* makeToken(service)
        yield* sql`
          insert into task (
            project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
          values (${project_id}::uuid, ${id}::uuid, ${title}, '', 'open', 2, '{}', 1, 'operator', ${at}::timestamptz,
                  ${at}::timestamptz)`
        yield* sql`
          insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
          values (${randomUUID()}::uuid, ${at}::timestamptz, ${project_id}::uuid, ${`operator:${title}`}, 'task.created',
                  'done', jsonb_build_object('task_id', ${id}::text), '', '')`
      }
      const operator = yield* signedInOperator(service)
      const { text } = yield* operator.get(`/console/activity?from=${day}&until=${day}`)
      assert.sameMembers(rowsOf(text), ["Operator Ours created a task: Ours", "Operator Theirs created a task: Theirs"])
    })
  )

  it.effect("shows one kind", () =>
    Effect.gen(function* () {
      const { rows } = yield* signedIn
      const memory = yield* rows("kind=memory")
      assert.strictEqual(memory.length, 2)
      for (const row of memory) assert.include(row, "added to memory")
      for (const row of yield* rows("kind=tasks")) assert.match(row, /task/)
      for (const row of yield* rows("kind=bridges")) assert.match(row, /Bridge|Operator|enroll/)
      assert.deepEqual(yield* rows("kind=phones"), [])
      assert.isAbove((yield* rows("kind=")).length, memory.length)
    })
  )

  it.effect("shows what one actor did, and what happened to one subject", () =>
    Effect.gen(function* () {
      const { made, person, path, rows } = yield* signedIn
      const task = yield* rows(`about=${made.task_id}`)
      assert.strictEqual(task.length, 3)
      for (const row of task) assert.include(row, "Choose the invoice format")
      const [opened, issued, ...more] = yield* rows(`about=${made.token_id}`)
      assert.deepEqual([opened, more], ["Ada signed in to the console", []])
      assert.match(issued!, /^Operator .* issued a project token$/)
      for (const row of yield* rows("about=bridge-pier")) assert.match(row, /^Bridge bridge-pier/)
      assert.strictEqual((yield* rows(`about=${made.task_id}&kind=tasks`)).length, 3)
      assert.deepEqual(yield* rows(`about=${made.task_id}&kind=memory`), [])
      assert.deepEqual(yield* rows(`about=${randomUUID()}`), [])
      // Each name leads to what its bearer did.
      const link = new RegExp(`href="([^"]+about=${made.token_id})"`).exec((yield* person.get(path)).text)![1]!
      assert.deepEqual(rowsOf((yield* person.get(link)).text), [opened, issued])
    })
  )

  it.effect("shows what happened to a channel", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const { made, rows } = yield* signedIn
      const channels = Context.get(services, Channels)
      const { project_id } = made
      const target = { project_id, kind: "ntfy", secret: undefined, titles: false } as const
      const { channel_id } = yield* channels.create({ ...target, url: "https://ntfy.example.com/one" })
      yield* channels.create({ ...target, url: "https://ntfy.example.com/other" })
      const [created, ...more] = yield* rows(`about=${channel_id}`)
      assert.match(created!, /^Operator .*created a channel$/)
      assert.deepEqual(more, [])
    })
  )

  it.effect("shows what was refused only", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { made, path, person, rows } = yield* signedIn
      const csrf = /name="csrf" value="([^"]+)"/.exec((yield* person.get(path)).text)![1]!
      for (let time = 0; time < 2; time++) {
        yield* person.post(`/console/${made.project_id}/documents`, { csrf, action: "unpin-document" })
      }
      assert.match((yield* person.get(path)).text, /<code>operator_only<\/code> <span>2 times</)
      const refused = ["Ada tried in the console what only an operator may do"]
      assert.deepEqual(yield* rows("kind=refused"), refused)
      assert.deepEqual(yield* rows(`kind=refused&about=${made.token_id}`), refused)
      assert.deepEqual(yield* rows("kind=refused&about=bridge-pier"), [])
      const operator = yield* signedInOperator(service)
      assert.include(rowsOf((yield* operator.get("/console/activity?kind=refused")).text), refused[0]!)
    })
  )

  it.effect("shows the days that were asked for, both of them included", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { made, rows } = yield* signedIn
      for (const day of [
        "1960-02-28T23:59:59.999Z",
        "1960-02-29T00:00:00Z",
        "1960-03-01T23:59:59.999Z",
        "1960-03-02T00:00:00Z"
      ]) {
        yield* sql`
          insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
          values (${randomUUID()}::uuid, ${day}::timestamptz, ${made.project_id}::uuid, ${`operator:${day}`},
                  'document.pinned', 'done', '{}', '', '')`
      }
      const days = ["1960-03-01T23:59:59.999Z", "1960-02-29T00:00:00Z"]
      const pinned = days.map((day) => `Operator ${day} pinned a document`)
      assert.deepEqual(yield* rows("from=1960-02-29&until=1960-03-01"), pinned)
      assert.deepEqual(yield* rows("from=1960-02-29&until=1960-03-01&kind=documents"), pinned)
      assert.strictEqual((yield* rows("until=1960-03-01")).length, 3)
      assert.deepEqual(yield* rows("from=2999-01-01"), [])
    })
  )

  it.effect("shows the addresses of callers to operators only", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { made, path, person } = yield* signedIn
      yield* sql`
        insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
        values (${randomUUID()}::uuid, now(), ${made.project_id}::uuid, ${`project_token:${randomUUID()}`},
                'task.created', 'done', '{}', '203.0.113.7', '')`
      const operator = yield* signedInOperator(service)
      assert.include((yield* operator.get(path)).text, "203.0.113.7")
      const { status, text } = yield* person.get(path)
      assert.strictEqual(status, 200)
      assert.include(text, "created a task")
      assert.notInclude(text, "203.0.113.7")
      assert.notInclude(text, "127.0.0.1")
    })
  )

  it.effect("says that an unknown kind or day is none, and shows nothing", () =>
    Effect.gen(function* () {
      const { path, person } = yield* signedIn
      for (const query of [
        "kind=zzz",
        "kind=constructor",
        "from=2020-13-01",
        "from=yesterday",
        "until=1",
        "about=%00"
      ]) {
        const { status, text } = yield* person.get(`${path}?${query}`)
        assert.strictEqual(status, 200, query)
        assert.include(text, "No activity matches.", query)
        assert.include(text, 'role="alert"', query)
      }
    })
  )

  it.effect("keeps the filter on the next page, and shows each event once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { made, person, path } = yield* signedIn
      yield* sql`
        insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
        select gen_random_uuid(), clock_timestamp() - (i / 3) * interval '1 second', ${made.project_id}::uuid,
               'operator:' || i, 'document.pinned', 'done', jsonb_build_object('document_id', 'one'), '', ''
          from generate_series(1, 120) i`
      for (const query of ["kind=documents", "about=one", "about=one&kind=documents"]) {
        const seen: Array<string> = []
        let next: string | undefined = `${path}?${query}`
        while (next !== undefined) {
          const { text }: { readonly text: string } = yield* person.get(next)
          seen.push(...rowsOf(text))
          next = /href="([^"]+)">Next page/.exec(text)?.[1]?.replaceAll("&amp;", "&")
        }
        assert.strictEqual(seen.length, 120, query)
        assert.strictEqual(new Set(seen).size, 120, query)
      }
    })
  )

  it.effect("shows nothing of another project, whatever is asked for", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { made } = yield* signedIn
      const { project_id, token } = yield* makeToken(service)
      const stranger = new Person(service.url)
      yield* stranger.signIn(token)
      for (const query of [`about=${made.task_id}`, `about=${made.token_id}`, "about=bridge-pier", "kind=bridges"]) {
        assert.deepEqual(rowsOf((yield* stranger.get(`/console/${project_id}/activity?${query}`)).text), [], query)
      }
    })
  )
})
