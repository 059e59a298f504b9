/** The console against those who are not its people: strangers, readers, ended tokens, framed pages, hostile texts. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Projects } from "../../../../src/operator/projects/Projects.ts"
import { ProjectTokens } from "../../../../src/signin/access/ProjectTokens.ts"
import { makeToken } from "../../../support/agents/Agent.ts"
import { ask } from "../../../support/agents/Answers.ts"
import { csrfOf, makeEquippedProject, makeOperator, Person, signedInOperator } from "../../../support/people/Console.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { send } from "../../../support/network/Http.ts"
import { Service } from "../../../support/service/Service.ts"

type Made = Effect.Success<ReturnType<typeof makeEquippedProject>>

/** Every page of a project. */
const pagesOf = ({ entry_id, project_id, task_id }: Made) =>
  [
    "",
    "/tasks",
    "/tasks?view=board",
    `/tasks/${task_id}`,
    "/memory",
    "/memory?query=deploys",
    `/memory/${entry_id}`,
    "/documents",
    "/bridges",
    "/agents",
    "/phones",
    "/activity",
    `/activity?about=${task_id}`,
    "/limits"
  ].map((path) => `/console/${project_id}${path}`)
const servicePages = ["projects", "bridges", "access", "push", "health", "activity"].map((path) => `/console/${path}`)

/** Every form of a project's people, complete. */
const formsOf = ({ entry_id, project_id, task_id }: Made): ReadonlyArray<readonly [string, Record<string, string>]> => {
  const home = `/console/${project_id}`
  return [
    [`${home}/tasks`, { action: "create", title: "Mine", body: "", priority: "2", tags: "", period: "1" }],
    [`${home}/tasks/${task_id}`, { action: "answer", version: "3", choice: "PDF", text: "" }],
    [`${home}/tasks/${task_id}`, { action: "change", version: "3", title: "Mine", body: "", status: "open", tags: "" }],
    [`${home}/tasks/${task_id}`, { action: "note", note: "Mine", period: "1" }],
    [`${home}/memory`, { action: "add", kind: "note", title: "Mine", body: "Mine", tags: "", period: "1" }],
    [`${home}/memory/${entry_id}`, { action: "supersede", kind: "note", title: "Mine", body: "Mine", tags: "" }],
    [`${home}/memory/${entry_id}`, { action: "archive" }]
  ]
}

/** Every form of the operator, complete. */
const actionsOf = (made: Made): ReadonlyArray<readonly [string, Record<string, string>]> => {
  const { channel_id, client_id, credential_id, device_id, document_id, grant_id, key_id, project_id, token_id } = made
  const home = `/console/${project_id}`
  return [
    [`${home}/bridges`, { action: "revoke-bridge", project: project_id, bridge: "bridge-pier" }],
    [`${home}/bridges`, { action: "approve-account-reference", project: project_id, reference: "x:mine", label: "" }],
    [`${home}/bridges`, { action: "withdraw-account-reference", project: project_id, reference: "github:octo" }],
    [`${home}/documents`, { action: "unpin-document", document: document_id }],
    [`${home}/phones`, { action: "revoke-device", device: device_id }],
    [`${home}/phones`, { action: "test-channel", channel: channel_id }],
    [`${home}/phones`, { action: "revoke-channel", channel: channel_id }],
    [`${home}/agents`, { action: "revoke-project-token", token: token_id }],
    [`${home}/agents`, { action: "remove-person-key", key: key_id }],
    [`${home}/limits`, { action: "set-project-limits", project: project_id, tasks: "1" }],
    ["/console/bridges", { action: "revoke-bridge-enrollment-credential", credential: credential_id }],
    ["/console/access", { action: "revoke-oauth-grant", grant: grant_id }],
    ["/console/access", { action: "disable-oauth-client", client: client_id }],
    ["/console/push", { action: "retry-push-dead-letters" }],
    ["/console/projects", { action: "create-project", name: "Mine", asked: "1" }],
    ["/console/projects", { action: "disable-project", project: project_id }]
  ]
}

/** What the database has of a project, but for refusals and who came. */
const stateOf = (project_id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql`
      select (select count(*) from project) as projects,
             (select jsonb_agg(t order by id) from task t where project_id = ${project_id}::uuid) as tasks,
             (select jsonb_agg(e order by id) from memory_entry e where project_id = ${project_id}::uuid) as entries,
             (select count(*) from task_note where project_id = ${project_id}::uuid) as notes,
             (select jsonb_agg(b order by bridge_id) from bridge_identity b where project_id = ${project_id}::uuid) as bridges,
             (select jsonb_agg(r order by reference) from approved_account_reference r
               where project_id = ${project_id}::uuid) as references,
             (select limits from project where project_id = ${project_id}::uuid) as limits,
             (select count(*) from pinned_document where project_id = ${project_id}::uuid) as documents,
             (select jsonb_agg(state) from mobile_device where project_id = ${project_id}::uuid) as phones,
             (select jsonb_agg(revoked_at) from project_token where project_id = ${project_id}::uuid) as tokens,
             (select jsonb_agg(removed_at) from person_key where project_id = ${project_id}::uuid) as passkeys,
             (select jsonb_agg(revoked_at) from oauth_grant where project_id = ${project_id}::uuid) as grants,
             (select jsonb_agg(disabled_at) from oauth_client) as clients,
             (select jsonb_agg(state) from push_outbox where project_id = ${project_id}::uuid) as notifications,
             (select count(*) from audit_event where project_id = ${project_id}::uuid and outcome = 'done'
                 and action <> 'console_session.opened') as events`
  })

layer(Service.layer, { timeout: 60_000 })("the console refuses", (it) => {
  it.effect("a stranger: no page, no form and no id of another project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const theirs = yield* makeEquippedProject(service)
      const mine = yield* makeToken(service)
      const stranger = new Person(service.url)
      yield* stranger.signIn(mine.token)
      const home = `/console/${mine.project_id}`
      const csrf = csrfOf(yield* stranger.get(home))
      const before = yield* stateOf(theirs.project_id)
      for (const path of [...pagesOf(theirs), ...servicePages]) {
        assert.strictEqual((yield* stranger.get(path)).status, 404, path)
      }
      for (const [path, fields] of formsOf(theirs)) {
        assert.strictEqual((yield* stranger.post(path, { csrf, ...fields })).status, 404, `${path} ${fields["action"]}`)
        // The id of theirs at an address of ours.
        const moved = path.replace(theirs.project_id, mine.project_id)
        if (moved.split("/").length < 5) continue
        const answer = yield* stranger.post(moved, { csrf, ...fields })
        assert.strictEqual(answer.status, 404, `${moved} ${fields["action"]}`)
        assert.notInclude(answer.text, "invoice")
      }
      for (const [path, fields] of actionsOf(theirs)) {
        const moved = path.replace(theirs.project_id, mine.project_id)
        for (const place of new Set([path, moved])) {
          const { status } = yield* stranger.post(place, { csrf, ...fields })
          assert.strictEqual(status, 403, `${place} ${fields["action"]}`)
        }
      }
      assert.deepEqual(yield* stateOf(theirs.project_id), before)
    })
  )

  it.effect("a reader who posts, with an audit row for each kind of form", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const made = yield* makeEquippedProject(service)
      const { token } = yield* makeToken(service, { project_id: made.project_id, role: "reader" })
      const reader = new Person(service.url)
      yield* reader.signIn(token)
      const csrf = csrfOf(yield* reader.get(`/console/${made.project_id}`))
      const before = yield* stateOf(made.project_id)
      for (const [path, fields] of [...formsOf(made), ...actionsOf(made)]) {
        assert.strictEqual((yield* reader.post(path, { csrf, ...fields })).status, 403, `${path} ${fields["action"]}`)
      }
      assert.deepEqual(yield* stateOf(made.project_id), before)
      const sql = yield* SqlClient.SqlClient
      const refused = yield* sql<{ action: string }>`
        select distinct action from audit_event
         where project_id = ${made.project_id}::uuid and outcome = 'refused' order by action`
      assert.deepEqual(
        refused.map(({ action }) => action),
        ["console.write", "console_session.refused"]
      )
    })
  )

  it.effect("a session whose token was revoked or whose project was disabled a moment ago, everywhere", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const ends: ReadonlyArray<(made: Made) => Effect.Effect<unknown, unknown>> = [
        ({ token_id }) => Context.get(service.services, ProjectTokens).revoke(token_id),
        ({ project_id }) => Context.get(service.services, Projects).disable(project_id)
      ]
      for (const end of ends) {
        const made = yield* makeEquippedProject(service)
        const person = new Person(service.url)
        yield* person.signIn(made.token)
        const csrf = csrfOf(yield* person.get(`/console/${made.project_id}`))
        const forms = [...formsOf(made), ...actionsOf(made)]
        yield* end(made)
        const before = yield* stateOf(made.project_id)
        for (const path of [...pagesOf(made), ...servicePages]) {
          const { headers, status } = yield* person.get(path)
          assert.strictEqual(status, 303, path)
          assert.match(headers.get("location")!, /^\/console\/sign-in\?to=%2Fconsole%2F/)
        }
        for (const [path, fields] of forms) {
          assert.include(
            [401, 303],
            (yield* person.post(path, { csrf, ...fields })).status,
            `${path} ${fields["action"]}`
          )
        }
        assert.deepEqual(yield* stateOf(made.project_id), before)
      }
    })
  )

  it.effect("a form without its value, of another session, or of another site, whatever it asks for", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const made = yield* makeEquippedProject(service)
      const person = new Person(service.url)
      yield* person.signIn(made.token)
      const operator = yield* signedInOperator(service)
      const own = csrfOf(yield* operator.get("/console/projects"))
      const foreign = csrfOf(yield* person.get(`/console/${made.project_id}`))
      const before = yield* stateOf(made.project_id)
      for (const [path, fields] of [...formsOf(made), ...actionsOf(made)]) {
        const name = `${path} ${fields["action"]}`
        for (const csrf of ["", foreign]) {
          assert.strictEqual((yield* operator.post(path, { csrf, ...fields })).status, 403, name)
        }
        for (const headers of [{}, { origin: "null" }, { origin: "http://evil.example" }]) {
          assert.strictEqual((yield* operator.post(path, { csrf: own, ...fields }, headers)).status, 403, name)
        }
      }
      assert.deepEqual(yield* stateOf(made.project_id), before)
    })
  )

  it.effect("to be framed, cached, sniffed or named to other sites, on every page", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const made = yield* makeEquippedProject(service)
      const { code, person: operator } = yield* makeOperator(service)
      const opened = yield* operator.post("/console/enter", { code })
      const answers = [
        opened,
        ...(yield* Effect.forEach(
          [
            ...pagesOf(made),
            ...servicePages,
            "/console",
            "/console/nowhere",
            "/console/sign-in",
            "/console/enter?code=x"
          ],
          (path) => operator.get(path)
        )),
        yield* new Person(service.url).get("/console/sign-in"),
        yield* operator.post("/console/projects", {}, {}),
        yield* operator.post("/console/projects", { action: "zzz" })
      ]
      for (const { headers, status, text } of answers) {
        assert.strictEqual(headers.get("cache-control"), "no-store", `${status} ${text.slice(0, 200)}`)
        assert.strictEqual(headers.get("referrer-policy"), "same-origin")
        assert.strictEqual(headers.get("x-frame-options"), "DENY")
        assert.strictEqual(headers.get("x-content-type-options"), "nosniff")
        assert.match(headers.get("content-security-policy")!, /^default-src 'none';.*frame-ancestors 'none'/)
        assert.notMatch(headers.get("content-security-policy")!, /unsafe|https?:|\*|data:/)
        assert.isNull(headers.get("access-control-allow-origin"))
      }
    })
  )

  it.effect("to show a text of others as markup, whatever field it is in", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const hostile = `"'></p></textarea><script>document.title="owned"</script><img src=x onerror=alert(1)>`
      const made = yield* makeEquippedProject(service, hostile, {
        label: `A"><img src=x onerror=alert(1)><script>x</script>`
      })
      const { agent, project_id, task_id } = made
      yield* agent.write("task_note", { id: task_id, text: `A note.${hostile}` })
      yield* Context.get(service.services, Projects).approveReference(
        project_id,
        `a${hostile}`,
        Option.some(`l${hostile}`)
      )
      const asked = yield* ask(agent)
      const person = new Person(service.url)
      yield* person.signIn(made.token)
      const path = `/console/${project_id}/tasks/${asked.id}`
      const answer = { action: "answer", version: String(asked.version), text: `Yes.${hostile}` }
      const csrf = csrfOf(yield* person.get(path))
      assert.strictEqual((yield* person.post(path, { csrf, ...answer })).status, 303)
      // What is not accepted is shown again.
      const shownAgain = yield* person.post(path, { csrf, ...answer, text: `No.${hostile}` })
      assert.strictEqual(shownAgain.status, 409)
      const operator = yield* signedInOperator(service)
      const search = encodeURIComponent(hostile)
      const given = [
        "tasks?tag=",
        "tasks?assignee=",
        "memory?query=",
        "memory?tag=",
        "activity?about=",
        "activity?from="
      ]
      const answers = yield* Effect.forEach(
        [...pagesOf(made), path, ...servicePages, ...given.map((query) => `/console/${project_id}/${query}${search}`)],
        (page) => operator.get(page)
      )
      for (const { text } of [shownAgain, ...answers]) {
        assert.notInclude(text, '<script>document.title="owned"')
        assert.notInclude(text, "<img")
        assert.notInclude(text, `"'>`)
        assert.strictEqual(text.match(/<script/g)!.length, 1)
      }
      assert.isAbove(answers.filter(({ text }) => text.includes("&lt;script&gt;")).length, 12)
    })
  )

  it.effect("nobody their turn: 50 tabs beside 64 waiting agents, and other projects notice nothing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const agent = yield* Agent.make(service)
      const { project_id } = agent
      const task = yield* ask(agent)
      const wait = { id: task.id, version: task.version, timeout_seconds: 25 }
      const waiting = yield* Effect.forEach(Array.from({ length: 64 }), () =>
        Effect.forkScoped(agent.call("task_wait", wait))
      )
      const tab = new Person(service.url)
      yield* tab.signIn((yield* makeToken(service, { project_id })).token)
      const other = yield* makeToken(service)
      const neighbour = new Person(service.url)
      yield* neighbour.signIn(other.token)
      const open = (person: Person, path: string) =>
        send(`${service.url}${path}`, { method: "GET", headers: { cookie: person.cookie, "console-refresh": "1" } })
      const [tabs, theirs] = yield* Effect.all(
        [
          Effect.forEach(Array.from({ length: 50 }), () => open(tab, `/console/${project_id}`), { concurrency: 50 }),
          Effect.forEach(Array.from({ length: 5 }), () => open(neighbour, `/console/${other.project_id}`))
        ],
        { concurrency: 2 }
      )
      assert.deepEqual([...new Set(tabs.map(({ status }) => status))], [200])
      assert.deepEqual([...new Set(theirs.map(({ status }) => status))], [200])
      assert.isTrue(waiting.every((call) => call.pollUnsafe() === undefined))
      yield* Effect.forEach(waiting, Fiber.interrupt, { concurrency: 64 })
    }).pipe(Effect.scoped)
  )
})
