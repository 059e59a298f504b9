/** The console over HTTP: who gets in, whose pages are shown, and which forms are accepted. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { SqlClient } from "effect/sql"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { sentences } from "../../../src/people/console/activity/Sentences.ts"
import { endPage, type Frame, framed } from "../../../src/people/console/frame/Frame.ts"
import { html } from "../../../src/platform/html/Html.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { type Session, Sessions } from "../../../src/signin/sessions/Sessions.ts"
import { ofRole, type Scope } from "../../../src/wire/Scopes.ts"
import { authorizeQuery, Browser, makeClient, makeToken } from "../../support/agents/Agent.ts"
import { csrfOf, makeBusyProject, origin, Person } from "../../support/people/Console.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { send } from "../../support/network/Http.ts"
import { read, rows, sections } from "../../support/run/Markdown.ts"
import { instance, Service } from "../../support/service/Service.ts"

const locationOf = ({ headers, status }: { readonly headers: Headers; readonly status: number }) => [
  status,
  headers.get("location")
]

const signedIn = (options: Parameters<typeof makeToken>[1] = {}) =>
  Effect.gen(function* () {
    const service = yield* Service
    const made = yield* makeToken(service, options)
    const person = new Person(service.url)
    yield* person.signIn(made.token)
    return { ...made, person, home: `/console/${made.project_id}` }
  })

const operator = Effect.fnUntraced(function* (project_id?: string) {
  const { services, url } = yield* Service
  const link = yield* Context.get(services, Sessions).makeLink("operator", project_id)
  const address = new URL(Redacted.value(link.url))
  return {
    code: address.searchParams.get("code")!,
    path: `${address.pathname}${address.search}`,
    person: new Person(url)
  }
})

describe("the frame of a page", () => {
  const project = { project_id: "harbour", name: "Harbour", disabled: false }
  const sessionOf = (scopes: ReadonlyArray<Scope> | undefined, person_key_id: string | null = null) =>
    ({ person_key_id, token: scopes && { label: "Ada", scopes: new Set(scopes) } }) as unknown as Session
  const pageOf = (frame: Frame) => framed(frame, { title: "Tasks", body: html`` })
  const home = "/console/harbour"
  const parts = ["tasks", "memory", "documents", "bridges", "agents", "phones", "activity"].map((of) => `${home}/${of}`)

  it.each<[who: string, scopes: ReadonlyArray<Scope> | undefined, links: ReadonlyArray<string>]>([
    ["who may read memory alone", ["memory:read"], [`${home}/memory`]],
    ["who reads", ofRole("reader"), [home, ...parts]],
    ["who is an operator", undefined, ["/console/projects", home, ...parts, `${home}/limits`]]
  ])("leads a person %s to the pages that they may see, and marks the one they are on", (_, scopes, links) => {
    const page = pageOf({ session: sessionOf(scopes), project, section: "memory" })
    const [navigation] = page.split('<nav class="sections"')[1]!.split("</nav>")
    const found = [...navigation!.matchAll(/<a href="([^"]+)"( aria-current="page")?>/g)]
    assert.deepStrictEqual(
      found.map(([, href]) => href!),
      [...links]
    )
    assert.deepStrictEqual(
      found.flatMap(([, href, current]) => (current === undefined ? [] : [href])),
      [`${home}/memory`]
    )
  })

  it("says that a project is disabled, and by what a person is signed in", () => {
    const session = sessionOf(ofRole("reader"))
    const notes = [false, true].map((disabled) => pageOf({ session, project: { ...project, disabled } }))
    assert.deepStrictEqual(
      notes.map((page) => page.includes("This project is disabled")),
      [false, true]
    )
    const passkeys = [session, sessionOf(ofRole("reader"), "key-1")].map((session) => pageOf({ session, project }))
    assert.deepStrictEqual(
      passkeys.map((page) => /signed in with (a passkey of )?the project token/.exec(page)?.[1]),
      [undefined, "a passkey of "]
    )
  })

  it("is none where a request ended otherwise, each with its status", () => {
    const reasons = ["link_used", "foreign_form", "signed_out", "malformed", "busy", "failed"] as const
    assert.deepStrictEqual(
      reasons.map((reason) => endPage(reason).status),
      [410, 403, 401, 400, 429, 503]
    )
  })
})

layer(Service.layer)("the console", (it) => {
  it.effect("does not count a page that refreshes itself as a use of the session", () =>
    Effect.gen(function* () {
      const { home, person, project_id } = yield* signedIn()
      const sql = yield* SqlClient.SqlClient
      const lastUse = sql`select last_used_at from console_session where project_id = ${project_id}::uuid`
      const before = yield* lastUse
      yield* TestClock.adjust("10 minutes")
      yield* person.get(home, { "console-refresh": "1" })
      assert.deepStrictEqual(yield* lastUse, before)
      yield* person.get(home)
      assert.notDeepEqual(yield* lastUse, before)
    })
  )

  it.effect("leads a signed-out person to the sign-in page and back to the page asked for", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service)
      const person = new Person(service.url)
      const wanted = `/console/${project_id}/tasks?status=done`
      const asked = yield* person.get(wanted)
      assert.deepEqual(locationOf(asked), [303, `/console/sign-in?to=${encodeURIComponent(wanted)}`])
      assert.deepEqual(locationOf(yield* person.signIn(token, wanted)), [303, wanted])
      assert.strictEqual((yield* person.get(wanted)).status, 200)
      assert.deepEqual(locationOf(yield* person.get("/console")), [303, `/console/${project_id}`])
    })
  )

  it.effect("never leads to another place after signing in", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      const places = [
        "https://evil.example/console/x",
        "//evil.example/console/x",
        "/\\evil.example/console/x",
        "\\\\evil.example/console/x",
        "/\t/evil.example/console/x",
        "javascript:alert(1)//console/",
        "http://127.0.0.1:8787@evil.example/console/x",
        "http://127.0.0.1:8788/console/x",
        "/console/../authorize",
        "/console/%2e%2e/authorize",
        "/consoles/x",
        "http:/console",
        "http://[",
        ""
      ]
      for (const to of places) {
        const person = new Person(service.url)
        assert.include(
          (yield* person.get(`/console/sign-in?to=${encodeURIComponent(to)}`)).text,
          'name="to" value="/console"',
          to
        )
        assert.deepEqual(locationOf(yield* person.signIn(token, to)), [303, "/console"], to)
      }
      const own = yield* new Person(service.url).signIn(token, `${origin}/console/x?y=1`)
      assert.deepEqual(locationOf(own), [303, "/console/x?y=1"])
    })
  )

  it.effect("sets a cookie that no script reads, with a new secret at each sign-in, and ends the former session", () =>
    Effect.gen(function* () {
      const { home, person, token } = yield* signedIn()
      const former = person.cookie
      assert.match(former, /^console_8787=scs_\w{49}$/)
      const answer = yield* person.signIn(token)
      assert.match(
        answer.headers.get("set-cookie")!,
        /^console_8787=scs_\w{49}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=604800$/
      )
      assert.notStrictEqual(person.cookie, former)
      const planted = new Person(person.url)
      planted.cookie = former
      assert.strictEqual((yield* planted.get(home)).status, 303)
    })
  )

  it.effect("sets the cookie of its host alone where it is served with https", () =>
    Effect.gen(function* () {
      const secure = yield* instance({ SERVICE_BASE_URL: "https://bridge.example" })
      const { token } = yield* makeToken(secure)
      const person = new Person(secure.url, "https://bridge.example")
      const answer = yield* person.signIn(token)
      assert.match(
        answer.headers.get("set-cookie")!,
        /^__Host-console=scs_\w{49}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=604800$/
      )
    })
  )

  it.effect("accepts a form only from its own pages: a missing or foreign Origin changes nothing", () =>
    Effect.gen(function* () {
      const { home, person, token } = yield* signedIn()
      const csrf = csrfOf(yield* person.get(home))
      const link = yield* operator()
      const foreign: ReadonlyArray<Readonly<Record<string, string>>> = [
        {},
        { origin: "null" },
        { origin: "http://evil.example" },
        { origin: "http://localhost:8787" },
        { origin, "sec-fetch-site": "cross-site" },
        { origin, "sec-fetch-site": "same-site" }
      ]
      for (const headers of foreign) {
        const tries = [
          yield* person.post("/console/sign-out", { csrf, everywhere: "1" }, headers),
          yield* new Person(person.url).post("/console/sign-in", { project_token: token }, headers),
          yield* link.person.post("/console/enter", { code: link.code }, headers)
        ]
        for (const { headers: answered, status } of tries) {
          assert.deepEqual([status, answered.get("set-cookie")], [403, null], JSON.stringify(headers))
        }
      }
      assert.strictEqual((yield* person.get(home)).status, 200)
      assert.strictEqual((yield* link.person.post("/console/enter", { code: link.code })).status, 303)
    })
  )

  it.effect("signs out with the session's own form only, here or everywhere", () =>
    Effect.gen(function* () {
      const one = yield* signedIn()
      const other = yield* signedIn()
      const foreign = csrfOf(yield* other.person.get(other.home))
      for (const csrf of ["", foreign]) {
        assert.strictEqual((yield* one.person.post("/console/sign-out", { csrf })).status, 403)
      }
      const second = new Person(one.person.url)
      yield* second.signIn(one.token)
      const csrf = csrfOf(yield* one.person.get(one.home))
      const answer = yield* one.person.post("/console/sign-out", { csrf, everywhere: "1" })
      assert.deepEqual(locationOf(answer), [303, "/console/sign-in"])
      assert.include(answer.headers.get("set-cookie")!, "console_8787=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0")
      for (const { home, person } of [{ ...one, person: second }, one]) {
        assert.strictEqual((yield* person.get(home)).status, 303)
      }
      assert.strictEqual((yield* other.person.get(other.home)).status, 200)
    })
  )

  it.effect("answers one 404 for unknown ids, malformed ones, and those of another project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const theirs = yield* makeBusyProject(service)
      const { home, person } = yield* signedIn()
      const unknown = "01990000-0000-7000-8000-000000000001"
      const own = [theirs.task_id, unknown, "x"].flatMap((id) => [`${home}/tasks/${id}`, `${home}/memory/${id}`])
      const framedPaths = [...own, `${home}/tasks?after=x`, `${home}/activity?after=x`, `${home}/bridges?after=%00`]
      const paths = [
        ...["", "/tasks", `/tasks/${theirs.task_id}`, "/memory", "/bridges", "/activity"].map(
          (path) => `/console/${theirs.project_id}${path}`
        ),
        `/console/${unknown}`,
        "/console/projects",
        "/console/x/y/z"
      ]
      const bodies = new Set<string>()
      for (const path of [...framedPaths, ...paths]) {
        const { status, text } = yield* person.get(path)
        assert.strictEqual(status, 404, path)
        assert.notInclude(text, "invoice")
        if (paths.includes(path)) bodies.add(text)
      }
      assert.strictEqual(bodies.size, 1)
      const [event] =
        (yield* person.get(`${home}/activity?after=${theirs.task_id}`)).text.match(/No earlier activity/) ?? []
      assert.isDefined(event)
    })
  )

  it.effect("shows a project's questions, tasks, memory, Bridges and activity", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { entry_id, project_id, task_id, token } = yield* makeBusyProject(service)
      const person = new Person(service.url)
      yield* person.signIn(token)
      const shows = Effect.fnUntraced(function* (path: string, ...texts: ReadonlyArray<string>) {
        const { headers, status, text } = yield* person.get(`/console/${project_id}${path}`)
        assert.strictEqual(status, 200, path)
        assert.strictEqual(headers.get("cache-control"), "no-store")
        for (const expected of texts) assert.include(text, expected, path)
        assert.isBelow(text.length, 100_000)
      })
      yield* shows(
        "",
        "Should invoices be PDF or UBL?<br />Both work",
        "Move orders to the new queue",
        "bridge-lighthouse",
        "should have rotated"
      )
      yield* shows("/tasks", "Choose the invoice format", "waits for a decision")
      yield* shows("/tasks?status=done", "Remove the old endpoint")
      yield* shows("/tasks?tag=No+tag", "No task matches")
      yield* shows("/tasks?assignee=nobody", "No task matches")
      yield* shows("/tasks?status=cancelled", "No task matches")
      yield* shows("/memory?tag=No+tag", "Nothing in memory matches")
      yield* shows("/memory?kind=note", "Nothing in memory matches")
      yield* shows(`/tasks/${task_id}`, "A decision is needed", "Read the code", "acme/shop", "changes not committed")
      yield* shows("/memory?query=pipeline", "Deploys happen any day", "Found by its words")
      yield* shows(`/memory/${entry_id}`, "It superseded", "Never on Fridays.")
      yield* Context.get(service.services, Bridges).grantAccess(project_id, "bridge-pier", "reader")
      yield* shows(
        "/bridges",
        "bridge-pier",
        "60 %",
        "of the token&#39;s life has passed",
        "memory and tasks as reader"
      )
      yield* shows("/activity", "Ada</b></a> signed in to the console", "Bridge bridge-pier</b></a> enrolled")
      // For somebody who was never here.
      yield* TestClock.adjust("10 hours")
      yield* person.signIn((yield* makeToken(service, { project_id })).token)
      yield* shows("", "In the last 24 hours", "Nothing has changed.")
    })
  )

  it.effect("begins with what is new since the last visit, the newest first, and leads on where it is cut", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const agent = yield* Agent.make(service)
      const { project_id } = agent
      const home = `/console/${project_id}`
      const person = new Person(service.url)
      yield* agent.task("Before")
      yield* TestClock.adjust("1 minute")
      yield* person.signIn((yield* makeToken(service, { project_id })).token)
      yield* TestClock.adjust("1 hour")
      const { id } = yield* agent.task("First")
      yield* TestClock.adjust("1 minute")
      yield* agent.note("Second")
      yield* TestClock.adjust("1 minute")
      yield* agent.task("Third")
      const { text } = yield* person.get(home)
      const [before, changed] = text.split("Since your last visit")
      const titles = [...changed!.matchAll(/<a class="name"[^>]*>([^<]*)</g)].map(([, title]) => title)
      assert.deepStrictEqual(titles, ["Third", "Second", "First"])
      assert.include(before!, "Nothing waits for a person.")
      const narrow = new Person(service.url)
      yield* narrow.signIn((yield* makeToken(service, { project_id, scopes: ["context:read", "tasks:read"] })).token)
      const shown = (yield* narrow.get(home)).text.split("In the last 24 hours")[1]!
      assert.deepStrictEqual([shown.includes("Third"), shown.includes("Second")], [true, false])

      yield* sql`
        insert into task (
          project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at,
          blocked_kind)
        select project_id, gen_random_uuid(), 'Task ' || n, '', state, 2, '{}', 1, 'operator', created_at, created_at,
               case state when 'blocked' then 'decision' end
          from task, generate_series(1, 11) n, unnest(array['blocked', 'in_progress']) state
         where id = ${id}::uuid`
      const cut = (yield* person.get(home)).text
      for (const link of [
        `${home}/tasks?status=blocked">All blocked tasks`,
        `${home}/tasks?status=in_progress">All tasks in progress`,
        `${home}/activity">All activity`
      ]) {
        assert.include(cut, link)
        assert.notInclude(text, link)
      }
    })
  )

  it.effect("shows a reader the pages, and a token with fewer scopes only those that its scopes name", () =>
    Effect.gen(function* () {
      const reader = yield* signedIn({ role: "reader" })
      for (const path of ["", "/tasks", "/memory", "/bridges", "/activity"]) {
        assert.strictEqual((yield* reader.person.get(reader.home + path)).status, 200, path)
      }
      const narrow = yield* signedIn({ scopes: ["memory:read"] })
      const statuses = yield* Effect.forEach(["", "/tasks", "/memory", "/bridges", "/activity"], (path) =>
        Effect.map(narrow.person.get(narrow.home + path), ({ status }) => status)
      )
      assert.deepEqual(statuses, [403, 403, 200, 403, 403])
      assert.deepEqual(locationOf(yield* narrow.person.get("/console")), [303, `${narrow.home}/memory`])
      const service = yield* Service
      const { project_id } = narrow
      const agent = yield* Agent.make(service, { project_id })
      const { id: task_id } = yield* agent.task("Task")
      const { id } = yield* agent.note("Of the task", { task_id })
      const whole = new Person(service.url)
      yield* whole.signIn((yield* makeToken(service, { project_id })).token)
      const link = `/tasks/${task_id}`
      assert.include((yield* whole.get(`${narrow.home}/memory/${id}`)).text, link)
      assert.notInclude((yield* narrow.person.get(`${narrow.home}/memory/${id}`)).text, link)
    })
  )

  it.effect("does not open with a token for agents only, and neither does consent; each leaves an audit row", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service, { opens_console: false })
      const entered = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ count: number }>`
          select coalesce(sum(c.count), 0)::int as count
            from audit_event e
            join audit_refusal_count c using (event_id)
           where e.project_id = ${project_id}::uuid
             and e.action = 'project_token.entered'
             and e.code = 'agents_only'`
        return row!.count
      })
      assert.strictEqual((yield* new Person(service.url).signIn(token)).status, 422)
      assert.strictEqual(yield* entered, 1)
      const client_id = yield* makeClient(service)
      const browser = new Browser(service.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id }))
      assert.strictEqual((yield* browser.submit(page, { project_token: token })).status, 422)
      assert.strictEqual(yield* entered, 2)
    })
  )

  it.effect("ends with its token at once", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const { home, person, token_id } = yield* signedIn()
      yield* Context.get(services, ProjectTokens).revoke(token_id)
      assert.strictEqual((yield* person.get(home)).status, 303)
    })
  )

  it.effect("lets an operator in by the button of the link, once, and shows every project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, task_id } = yield* makeBusyProject(service, "", { project: "Lighthouse" })
      const { code, path, person } = yield* operator(project_id)
      for (let again = 0; again < 2; again += 1) assert.strictEqual((yield* person.get(path)).status, 200)
      assert.deepEqual(locationOf(yield* person.post("/console/enter", { code })), [303, `/console/${project_id}`])
      assert.include((yield* person.get("/console/projects")).text, "Lighthouse")
      for (const part of ["", "/tasks", `/tasks/${task_id}`, "/memory", "/bridges"]) {
        assert.strictEqual((yield* person.get(`/console/${project_id}${part}`)).status, 200)
      }
      const activity = yield* person.get(`/console/${project_id}/activity`)
      assert.include(activity.text, "127.0.0.1")
      assert.strictEqual((yield* new Person(service.url).post("/console/enter", { code })).status, 410)
      const sql = yield* SqlClient.SqlClient
      const returned = yield* sql<{ code: string }>`
        select code from audit_event where project_id = ${project_id}::uuid and action = 'console_link.returned'`
      assert.deepEqual(returned, [{ code: "link_used" }])
    })
  )

  it.effect("limits wrong tokens per address, and lets valid ones be entered as often as wanted", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { token } = yield* makeToken(limited)
      for (let count = 0; count < 25; count += 1) {
        assert.strictEqual((yield* new Person(limited.url).signIn(token)).status, 303)
      }
      for (let count = 0; count < 20; count += 1) {
        assert.strictEqual((yield* new Person(limited.url).signIn("spt_wrong")).status, 422)
      }
      const refused = yield* new Person(limited.url).signIn("spt_wrong")
      assert.deepEqual([refused.status, refused.headers.get("retry-after")], [429, "3"])
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual((yield* new Person(limited.url).signIn("spt_wrong")).status, 422)
    })
  )

  it.effect("lets a valid token, or a link, in beside a neighbour who tries two wrong ones a second", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { token } = yield* makeToken(limited)
      const link = yield* Context.get(limited.services, Sessions).makeLink("operator", undefined)
      const code = new URL(Redacted.value(link.url)).searchParams.get("code")!
      const signIn = (given: string) => Effect.map(new Person(limited.url).signIn(given), ({ status }) => status)
      yield* Effect.replicateEffect(signIn("spt_wrong"), 30)
      for (let second = 0; second < 2; second += 1) {
        yield* TestClock.adjust("1 second")
        const statuses = [yield* signIn("spt_wrong"), yield* signIn("spt_wrong"), yield* signIn(token)]
        assert.deepStrictEqual(statuses, [429, 429, 303])
      }
      const enter = (given: string) => new Person(limited.url).post("/console/enter", { code: given })
      assert.deepStrictEqual([(yield* enter("sco_wrong")).status, (yield* enter(code)).status], [429, 303])
    })
  )

  it.effect("counts a page of memory as a search of its project, and no page of an operator", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { project_id, token } = yield* makeToken(limited)
      yield* Context.get(limited.services, Limits).set(project_id, { searches_per_minute: 1 })
      const answers = (by: Person) =>
        Effect.forEach(["/tasks", "/memory", "/tasks", "/memory?query=x", "/activity"], (path) =>
          Effect.map(by.get(`/console/${project_id}${path}`), ({ headers, status }) => [
            status,
            headers.get("retry-after")
          ])
        )
      const person = new Person(limited.url)
      yield* person.signIn(token)
      const shown = [200, null]
      assert.deepStrictEqual(yield* answers(person), [shown, shown, shown, [429, "60"], shown])
      const link = yield* Context.get(limited.services, Sessions).makeLink("operator", undefined)
      const whoever = new Person(limited.url)
      const code = new URL(Redacted.value(link.url)).searchParams.get("code")!
      yield* whoever.post("/console/enter", { code })
      assert.deepStrictEqual(yield* answers(whoever), [shown, shown, shown, shown, shown])
    })
  )

  it.effect("does not exist when it is switched off", () =>
    Effect.gen(function* () {
      const off = yield* instance({ SERVICE_CONSOLE: "off" })
      for (const path of ["/console", "/console/sign-in", "/console/enter", "/console/x/tasks"]) {
        for (const method of ["GET", "POST"]) {
          const { code, status } = yield* send(`${off.url}${path}`, { method })
          assert.deepEqual([status, code], [404, "not_found"], `${method} ${path}`)
        }
      }
    })
  )

  it("has a sentence for exactly the documented audit actions", () => {
    const documented = rows(sections(read("docs/reference.md"), 2).get("Audit actions")!).map(({ Action }) => Action!)
    assert.sameMembers(Object.keys(sentences), [...new Set(documented)])
  })
})
