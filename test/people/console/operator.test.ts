/** The operator's pages of the console, and the actions on them. */
import { actionNames } from "../../../src/people/console/Actions.ts"
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { Samples } from "../../../src/people/operator/Samples.ts"
import { csrfOf, makeEquippedProject, makeOperator, Person } from "../../support/people/Console.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { Service } from "../../support/service/Service.ts"

const signedIn = Effect.fnUntraced(function* () {
  const service = yield* Service
  const { code, person } = yield* makeOperator(service)
  yield* person.post("/console/enter", { code })
  return { person, csrf: csrfOf(yield* person.get("/console/projects")) }
})

const newest = (action: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ actor: string; outcome: string; code: string | null }>`
      select actor, outcome, code from audit_event where action = ${action} order by at desc, event_id desc limit 1`
    return row
  })

type Made = Effect.Success<ReturnType<typeof makeEquippedProject>>

/** By command: the page, the fields, the audit row, and what the page shows afterwards. */
const cases: ReadonlyArray<
  readonly [
    command: string,
    page: (made: Made) => string,
    fields: (made: Made) => Record<string, string>,
    recorded: string,
    shows: RegExp
  ]
> = [
  [
    "revoke-bridge",
    ({ project_id }) => `/console/${project_id}/bridges`,
    ({ project_id }) => ({ project: project_id, bridge: "bridge-pier" }),
    "bridge.revoked",
    /bridge-pier<\/span><\/span>\s*<span><span class="mark bad">revoked/
  ],
  [
    "approve-account-reference",
    ({ project_id }) => `/console/${project_id}/bridges`,
    ({ project_id }) => ({ project: project_id, reference: "gitlab:o'neill $(x)", label: "" }),
    "account_reference.approved",
    /--reference<\/span> <span>&#39;gitlab:o&#39;\\&#39;&#39;neill<\/span> <span>\$\(x\)&#39;/
  ],
  [
    "withdraw-account-reference",
    ({ project_id }) => `/console/${project_id}/bridges`,
    ({ project_id }) => ({ project: project_id, reference: "gitlab:o'neill $(x)" }),
    "account_reference.withdrawn",
    /gitlab:o&#39;neill \$\(x\)<\/b>\s*<span><span class="mark ">withdrawn/
  ],
  [
    "create-project",
    () => "/console/projects",
    () => ({ name: "A new <b>dawn</b>", asked: "7" }),
    "project.created",
    /A new &lt;b&gt;dawn&lt;\/b&gt;<\/a>/
  ],
  [
    "revoke-bridge-enrollment-credential",
    () => "/console/bridges",
    ({ credential_id }) => ({ credential: credential_id }),
    "bridge_credential.revoked",
    /The credential is revoked/
  ],
  [
    "unpin-document",
    ({ project_id }) => `/console/${project_id}/documents`,
    ({ document_id }) => ({ document: document_id }),
    "document.unpinned",
    /No document is pinned/
  ],
  [
    "retry-push-dead-letters",
    () => "/console/push",
    () => ({}),
    "push.dead_letters_retried",
    /No notification was given up/
  ],
  [
    "revoke-device",
    ({ project_id }) => `/console/${project_id}/phones`,
    ({ device_id }) => ({ device: device_id }),
    "mobile_device.revoked",
    /<span class="mark ">ended<\/span>/
  ],
  [
    "revoke-channel",
    ({ project_id }) => `/console/${project_id}/phones`,
    ({ channel_id }) => ({ channel: channel_id }),
    "channel.revoked",
    /The channel has ended/
  ],
  [
    "revoke-oauth-grant",
    () => "/console/access",
    ({ grant_id }) => ({ grant: grant_id }),
    "oauth_grant.revoked",
    /revoked by operator/
  ],
  [
    "disable-oauth-client",
    () => "/console/access",
    ({ client_id }) => ({ client: client_id }),
    "oauth_client.disabled",
    /<span class="mark bad">disabled/
  ],
  [
    "set-project-limits",
    ({ project_id }) => `/console/${project_id}/limits`,
    ({ project_id }) => ({ project: project_id, tasks: "77", entries: "" }),
    "project.limits_set",
    /4 of 77/
  ],
  [
    "revoke-project-token",
    ({ project_id }) => `/console/${project_id}/agents`,
    ({ token_id }) => ({ token: token_id }),
    "project_token.revoked",
    /<span class="mark ">ended<\/span>/
  ],
  [
    "disable-project",
    () => "/console/projects",
    ({ project_id }) => ({ project: project_id }),
    "project.disabled",
    /<span class="mark bad">disabled/
  ],
  [
    "enable-project",
    () => "/console/projects",
    ({ project_id }) => ({ project: project_id }),
    "project.enabled",
    /The project is enabled/
  ]
]

layer(Service.layer)("an operator at the console", (it) => {
  it.effect("does what the commands do, in their own name, and is led back to the page", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const made = yield* makeEquippedProject(service)
      const { csrf, person } = yield* signedIn()
      for (const [command, pageOf, fieldsOf, recorded, shows] of cases) {
        const path = pageOf(made)
        const fields = fieldsOf(made)
        assert.include((yield* person.get(path)).text, `value="${command}"`, command)
        const answer = yield* person.post(path, { csrf, action: command, ...fields })
        assert.deepEqual([answer.status, answer.headers.get("location")], [303, `${path}?done=${command}`], command)
        const after = yield* person.get(`${path}?done=${command}`)
        assert.match(after.text, shows, command)
        assert.deepEqual(yield* newest(recorded), { actor: "operator:ada@desk", outcome: "done", code: null }, command)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("signs a browser out", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service, { label: "Grace" })
      const browser = new Person(service.url)
      yield* browser.signIn(token)
      const { csrf, person } = yield* signedIn()
      const listed = (yield* person.get("/console/access")).text
      const session = /Grace<\/b>[\s\S]*?name="session" value="([^"]+)"/.exec(listed)![1]!
      const path = "/console/access"
      assert.strictEqual((yield* person.post(path, { csrf, action: "end-console-session", session })).status, 303)
      assert.strictEqual((yield* browser.get(`/console/${project_id}`)).status, 303)
    })
  )

  it.effect("creates a project once, however often the form is sent, and another one for another name", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { csrf, person } = yield* signedIn()
      const create = (fields: Record<string, string>) =>
        Effect.map(
          person.post("/console/projects", { csrf, action: "create-project", ...fields }),
          ({ status }) => status
        )
      const asked = /name="asked" value="([^"]+)"/.exec((yield* person.get("/console/projects")).text)![1]!
      for (let time = 0; time < 3; time++) assert.strictEqual(yield* create({ name: "Twice sent", asked }), 303)
      assert.strictEqual(yield* create({ name: "Twice sent?", asked }), 303)
      const made = yield* sql`
        select p.project_id
          from project p
          join audit_event e on e.project_id = p.project_id and e.action = 'project.created'
         where p.name like 'Twice sent%'`
      assert.strictEqual(made.length, 2)
      const { token } = yield* makeToken(yield* Service)
      for (const name of ["", "x".repeat(121), "a\u202eb", `My ${token}`]) {
        assert.strictEqual(yield* create({ name, asked }), 422, name)
      }
      assert.strictEqual(yield* create({ name: "x", asked: "soon" }), 422)
    })
  )

  it.effect("restores the default of a limit, and is told of a value that is none", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id } = yield* makeToken(service)
      const limits = Context.get(service.services, Limits)
      yield* limits.set(project_id, { tasks: 5 })
      const { csrf, person } = yield* signedIn()
      const path = `/console/${project_id}/limits`
      const set = (tasks: string) =>
        person.post(path, { csrf, action: "set-project-limits", project: project_id, tasks })
      const tasks = Effect.map(limits.list(project_id), (all) => all.find(({ limit }) => limit === "tasks")?.maximum)
      for (const wrong of ["0", "-1", "1.5", "many", "1".repeat(16)]) {
        assert.strictEqual((yield* set(wrong)).status, 422, wrong)
      }
      assert.strictEqual(yield* tasks, 5)
      assert.strictEqual((yield* set("default")).status, 303)
      assert.strictEqual(yield* tasks, 50_000)
    })
  )

  it.effect("leaves a limit as it is whose field is empty", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id } = yield* makeToken(service)
      const limits = Context.get(service.services, Limits)
      yield* limits.set(project_id, { tasks: 5, entries: 6 })
      const { csrf, person } = yield* signedIn()
      const form = { csrf, action: "set-project-limits", project: project_id, tasks: "7", entries: "", receipts: "" }
      assert.strictEqual((yield* person.post(`/console/${project_id}/limits`, form)).status, 303)
      assert.deepStrictEqual(yield* limits.own(project_id), { tasks: 7, entries: 6 })
    })
  )

  it.effect("changes nothing with a form of another page, of another session, or about what is not there", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const made = yield* makeEquippedProject(service)
      const { csrf, person } = yield* signedIn()
      const other = yield* signedIn()
      const unknown = "01990000-0000-7000-8000-000000000001"
      const post = (fields: Record<string, string>, headers?: Record<string, string>) =>
        Effect.map(person.post("/console/access", fields, headers), ({ status }) => status)
      const end = { action: "revoke-oauth-grant", grant: made.grant_id }
      assert.strictEqual(yield* post({ csrf, ...end }, {}), 403)
      assert.strictEqual(yield* post({ csrf, ...end }, { origin: "https://evil.example" }), 403)
      assert.strictEqual(yield* post({ csrf: other.csrf, ...end }), 403)
      assert.strictEqual(yield* post(end), 403)
      assert.strictEqual(yield* post({ csrf, ...end, grant: unknown }), 404)
      assert.strictEqual(yield* post({ csrf, ...end, grant: "x" }), 422)
      assert.strictEqual(yield* post({ csrf, ...end, action: "create-project-token" }), 422)
      assert.strictEqual(yield* post({ csrf, ...end, action: "constructor" }), 422)
      assert.strictEqual(yield* post({ csrf }), 422)
      assert.include((yield* person.get("/console/access")).text, `value="${made.grant_id}"`)
    }).pipe(Effect.scoped)
  )

  it.effect("is the only one who may: a project token's session sees no action, and is refused with an audit row", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const made = yield* makeEquippedProject(service)
      const person = new Person(service.url)
      yield* person.signIn(made.token)
      const home = `/console/${made.project_id}`
      for (const path of ["bridges", "agents", "phones", "documents"]) {
        const { text } = yield* person.get(`${home}/${path}`)
        for (const command of actionNames) assert.notInclude(text, `value="${command}"`, path)
      }
      const csrf = csrfOf(yield* person.get(home))
      for (const [command, pageOf, fieldsOf] of cases) {
        const { status } = yield* person.post(pageOf(made), { csrf, action: command, ...fieldsOf(made) })
        assert.strictEqual(status, 403, command)
      }
      assert.deepEqual(yield* newest("console_session.refused"), {
        actor: `project_token:${made.token_id}`,
        outcome: "refused",
        code: "operator_only"
      })
      for (const page of ["projects", "bridges", "access", "push", "health", "activity"]) {
        assert.strictEqual((yield* person.get(`/console/${page}`)).status, 404, page)
      }
      assert.strictEqual((yield* person.get(`${home}/limits`)).status, 404)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "sees every project: Bridges by their end, credentials, sign-ins, dead letters, limits and the audit log",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const made = yield* makeEquippedProject(service, "", { project: "Lighthouse" })
        yield* Context.get(service.services, Limits).set(made.project_id, { tasks: 5 })
        const { person } = yield* signedIn()
        const shows = Effect.fnUntraced(function* (path: string, ...texts: ReadonlyArray<string>) {
          const { status, text } = yield* person.get(`/console/${path}`)
          assert.strictEqual(status, 200, path)
          for (const expected of texts) assert.include(text, expected, path)
          assert.isBelow(text.length, 100_000, path)
        })
        const project = `href="/console/${made.project_id}`
        yield* shows("bridges", `${project}/bridges`, "bridge-lighthouse", made.credential_id, "Lighthouse")
        yield* shows("access", `${project}/agents`, "Companion", made.client_id, "operator ada@desk", "this one")
        yield* shows("push", `${project}/phones`, "TooManyRequests", "can be retried")
        yield* shows("activity", project, "registered a phone", "127.0.0.1")
        const { take } = Context.get(service.services, Samples)
        for (let count = 0; count < 4; count += 1) {
          yield* TestClock.adjust("15 seconds")
          yield* take
        }
        yield* shows(
          "health",
          `${project}/limits`,
          "4 of 5",
          "Requests a second: now",
          "Notifications due: now 0, highest 0"
        )
        yield* shows(`${made.project_id}/agents`, "Companion", "Ada", "1 sign-in")
        yield* shows(`${made.project_id}/phones`, "com.example.app", "last seen")
        yield* shows(`${made.project_id}/documents`, "acme/shop", "docs/guide.md", "read first")
        const wrong = [
          "bridges?bridges=x",
          "bridges?credentials=x",
          "access?signins=x",
          "access?clients=%00",
          "push?after=x",
          "activity?after=x"
        ]
        for (const path of wrong) assert.strictEqual((yield* person.get(`/console/${path}`)).status, 404, path)
      }).pipe(Effect.scoped)
  )
})
