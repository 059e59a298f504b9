/** The operator's pages of the console, and the actions on them. */
import { actionNames } from "../../../src/people/console/Actions.ts"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import type { Watched } from "../../../src/bridges/identity/Bridges.ts"
import { bridgeRow } from "../../../src/people/console/bridges/BridgesPage.ts"
import { life } from "../../../src/people/console/bridges/Life.ts"
import { size, time } from "../../../src/people/console/Parts.ts"
import { channelList } from "../../../src/people/console/phones/ChannelList.ts"
import { chart } from "../../../src/people/console/service/Chart.ts"
import { lastBackup } from "../../../src/people/console/service/HealthPage.ts"
import { bar } from "../../../src/people/console/service/LimitsPage.ts"
import { statusMark } from "../../../src/people/console/tasks/StatusMark.ts"
import { remember, type Sample, Samples } from "../../../src/people/operator/Samples.ts"
import { Backups } from "../../../src/platform/backups/Backups.ts"
import { html } from "../../../src/platform/html/Html.ts"
import { Workers } from "../../../src/platform/workers/Workers.ts"
import type { Session } from "../../../src/signin/sessions/Sessions.ts"
import { csrfOf, makeEquippedProject, makeOperator, Person } from "../../support/people/Console.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { Bridge, issueCredential } from "../../support/bridges/Bridge.ts"
import { endDevice } from "../../support/statements/OneOfEach.ts"
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

describe("on the pages of an operator", () => {
  it.each([
    [true, "ready"],
    [false, "waits for other tasks"],
    [undefined, "open"]
  ] as const)("an open task of which ready is %s is marked: %s", (ready, marked) => {
    const { text } = statusMark({ status: "open", ...(ready !== undefined && { ready }) })
    assert.include(text, `>${marked}<`)
  })

  it.each([
    ["blocked", "decision", "warn", "waits for a decision"],
    ["blocked", "external", "warn", "blocked"],
    ["in_progress", null, "info", "in progress"],
    ["done", null, "", "done"],
    ["cancelled", null, "", "cancelled"]
  ] as const)("a task that is %s for %s is marked %s: %s", (status, blocked_kind, tone, marked) => {
    assert.strictEqual(statusMark({ status, blocked_kind }).text, `<span class="mark ${tone}">${marked}</span>`)
  })

  it("a chart has a gap where a sample has no value", () => {
    const { text } = chart("Time", [4, 2, undefined, 4], (value) => `${value} ms`)
    assert.include(text, 'd="M0.0 3.0L80.0 29.0M240.0 3.0"')
    assert.include(text, "Time: now 4 ms, highest 4 ms")
  })

  it("a bar is full at its limit and beyond", () => {
    const widths = [0.5, 1, 1.5].map((share) => /class="used" width="([^"]+)"/.exec(bar(share).text)![1])
    assert.deepStrictEqual(widths, ["50.0", "100.0", "100.0"])
    assert.deepStrictEqual(
      [0.79, 0.8].map((share) => bar(share).text.includes("late")),
      [false, true]
    )
  })

  it.each([
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [10_240, "10 KiB"],
    [1_048_576, "1.0 MiB"],
    [1_073_741_824, "1.0 GiB"]
  ])("%s bytes are %s", (bytes, said) => {
    assert.strictEqual(size(bytes), said)
  })

  it("the samples of an hour are kept", () => {
    const samples: Array<Sample> = []
    for (let cpu = 0; cpu <= 240; cpu++) remember(samples, { cpu } as Sample)
    assert.deepStrictEqual([samples.length, samples[0]!.cpu], [240, 1])
  })

  const now = new Date("2026-06-01T12:00:00Z")
  const minutesAgo = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
  it.each([
    [null, "none"],
    [minutesAgo(120), undefined],
    [minutesAgo(121), "late"]
  ] as const)("the last backup of those of each hour, at %s, is marked %s", (last_good_at, marked) => {
    const { text } = lastBackup({ every_seconds: 3600, last_good_at }, now)
    assert.strictEqual(/class="mark warn">([^<]+)/.exec(text)?.[1], marked)
  })

  it.each([
    [0, "just now"],
    [59_999, "just now"],
    [60_000, "1 minute ago"],
    [3_599_999, "59 minutes ago"],
    [3_600_000, "1 hour ago"],
    [86_399_999, "23 hours ago"],
    [172_800_000, "2 days ago"],
    [-1, "in less than a minute"],
    [-86_400_000, "in 1 day"]
  ])("what was %s ms ago is said to be: %s", (milliseconds, said) => {
    assert.include(time(new Date(now.getTime() - milliseconds), now).text, `>${said}</time>`)
  })

  const bridge: Watched = {
    identity_id: "identity-1",
    project_id: "project-1",
    bridge_id: "bridge-1",
    display_name: "Bridge",
    device_id: "device-1",
    status: "active",
    enrolled_at: null,
    revoked_at: null,
    token_started_at: null,
    token_expires_at: null,
    rotation_expires_at: null,
    access_role: null
  }
  it.each([
    [1, true],
    [-1, false]
  ] as const)("a Bridge whose rotation ends in %s minutes is rotating: %s", (minutes, isRotating) => {
    const rotating = { ...bridge, rotation_expires_at: minutesAgo(-minutes) }
    assert.strictEqual(bridgeRow(rotating, {} as Session, now).text.includes("rotating"), isRotating)
  })

  const token = (begun: number, left: number) => ({
    token_started_at: minutesAgo(begun),
    token_expires_at: minutesAgo(-left)
  })
  it.each<[does: string, marked: string, given: Partial<Watched>]>([
    ["has not proved its key", "enrolling", { status: "pending" }],
    ["has no token", "no valid token", {}],
    ["has a token that ends now", "no valid token", token(9, 0)],
    ["has used 79 % of its token", "active", token(79, 21)],
    ["has used 80 % of its token", "should have rotated", token(80, 20)],
    ["is revoked", "revoked", { status: "revoked", ...token(1, 9) }]
  ])("a Bridge that %s is marked: %s", (_, marked, given) => {
    const { text } = bridgeRow({ ...bridge, ...given }, {} as Session, now)
    assert.strictEqual(/class="mark \w*">([^<]+)/.exec(text)![1], marked)
    assert.strictEqual(text.includes('value="revoke-bridge"'), marked !== "revoked")
  })

  it("a Bridge has rotated if its token began after it enrolled", () => {
    const shown = [9, 8].map((begun) => {
      const { text } = bridgeRow({ ...bridge, enrolled_at: minutesAgo(9), ...token(begun, 9) }, {} as Session, now)
      return /no rotation since|last rotation/.exec(text)![0]
    })
    assert.deepStrictEqual(shown, ["no rotation since", "last rotation"])
  })

  it("the life of a token is drawn against now, with the window between 60 and 80 %", () => {
    const { text } = life(minutesAgo(30), minutesAgo(-30), now)
    assert.include(text, '<rect class="window" x="192.0" y="8" width="64.0"')
    assert.include(text, '<rect class="lived" x="0" y="12" width="160.0"')
    assert.include(text, '<rect class="now" x="160.0"')
    assert.match(text, /aria-label="50 % of [^"]*, 30 minutes left"/)
    assert.include(life(minutesAgo(90), minutesAgo(30), now).text, 'y="12" width="320.0"')
  })

  const channel: Parameters<typeof channelList>[1][number] = {
    channel_id: "channel-1",
    kind: "webhook",
    host: "hooks.example.com",
    titles: true,
    state: "active",
    state_reason: null,
    resting_until: null,
    last_state: "dead",
    last_status: null,
    last_reason: "refused",
    created_at: now,
    ended_at: null
  }
  it.each([
    ["active", "good", "active", true],
    ["inactive", "warn", "gone", false],
    ["revoked", "", "ended", false]
  ] as const)("a channel that is %s is marked %s: %s, and has buttons: %s", (state, tone, marked, hasButtons) => {
    const { text } = html`${channelList({} as Session, [{ ...channel, state }], now)}`
    assert.include(text, `<span class="mark ${tone}">${marked}</span>`)
    assert.strictEqual(text.includes('value="test-channel"'), hasButtons)
    assert.strictEqual(text.includes('value="revoke-channel"'), hasButtons)
    assert.include(text, "with titles of tasks")
    assert.include(text, "last notification: dead, refused")
  })
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
    ({ project_id }) => ({ project: project_id, reference: "gitlab:o'neill $(x)", label: "Pat O'Neill" }),
    "account_reference.approved",
    /Pat O&#39;Neill[^]*--reference<\/span> <span>&#39;gitlab:o&#39;\\&#39;&#39;neill<\/span> <span>\$\(x\)&#39;/
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
    /<span class="mark ">ended<\/span>(?![^]*value="revoke-device")/
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
    /4 of 77\s*<span class="soft small">default 50,000</
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
      const path = `/console/access?browsers=${session}`
      const answer = yield* person.post(path, { csrf, action: "end-console-session", session })
      assert.deepEqual([answer.status, answer.headers.get("location")], [303, `${path}&done=end-console-session`])
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
          "Time to answer: now unknown, highest 0 ms",
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

  it.effect("sees what is under way, what is over, and what was refused", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { delivery_id, device_id, document_id, grant_id, project_id } = yield* makeEquippedProject(service)
      const claimed = yield* Bridge.make(service, { project_id, bridge_id: "bridge-new" })
      yield* claimed.askChallenge(service)
      const again = yield* issueCredential(service, project_id, { reenroll: "bridge-pier" })
      yield* sql`update pinned_document set bootstrap = false where document_id = ${document_id}::uuid`
      yield* sql.unsafe(`
        ${endDevice("inactive")}, environment = 'development', state_reason = 'token_unregistered'
         where device_id = '${device_id}'`)
      yield* sql`
        update push_outbox
           set expires_at = settled_at, attempts = 1, last_status = null, last_reason = 'unreachable'
         where delivery_id = ${delivery_id}::uuid`
      yield* sql`
        insert into push_provider_state (provider, environment, paused_until, reason, failures)
        select 'apns', 'development', created_at, 'Busy', 1
          from oauth_grant
         where grant_id = ${grant_id}::uuid`
      yield* sql`
        insert into audit_event (event_id, at, project_id, actor, action, outcome, code, subject, address, user_agent)
        select gen_random_uuid(), created_at, project_id, 'operator', 'mcp.write', 'refused', 'of_a_test', '{}', '', ''
          from oauth_grant
         where grant_id = ${grant_id}::uuid`

      const { person } = yield* signedIn()
      const marked = (id: string, ...marks: ReadonlyArray<string>) =>
        new RegExp([`${id}</span>`, "<span>", ...marks.map((mark) => `<span class="mark ${mark}</span>`)].join("\\s*"))
      const shown: ReadonlyArray<readonly [path: string, ...shows: ReadonlyArray<RegExp>]> = [
        [
          "bridges",
          marked(claimed.credential_id, 'info">enrolling'),
          /claimed <time[^>]*>just now<\/time> by <span class="name">bridge-new</,
          marked(again.credential_id, '">replaces a key', '">unused'),
          /re-enrolls <span class="name">bridge-pier</
        ],
        [`${project_id}/documents`, /Guide<\/b>\s*<span><\/span>/],
        [`${project_id}/phones`, />development<\/span> <span class="mark warn">gone</, />token unregistered</],
        ["push", />expired<\/span> <time/, />1 attempt</, />unreachable</, />tries again<\/span>/, />failed once</],
        ["health", /of_a_test<\/code> who tried to write without saying where<\/span>[^]*?>once, <time/]
      ]
      for (const [path, ...shows] of shown) {
        const { text } = yield* person.get(`/console/${path}`)
        for (const expected of shows) assert.match(text, expected, path)
      }
      yield* sql`delete from push_provider_state`
    }).pipe(Effect.scoped)
  )

  it.effect("is shown milliseconds for each answer, requests of a second, and the share of a processor", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const load = { pid: 1, memory: 10, cpu: 0, requests: 0, answers: 0, seconds: 0 }
      const loads = [
        [load],
        [
          { ...load, cpu: 3_000_000, requests: 40, answers: 30, seconds: 0.6 },
          { ...load, pid: 2, memory: 20, cpu: 750_000, requests: 5 }
        ]
      ]
      const alone = Context.get(yield* Layer.build(Layer.fresh(Workers.layer)), Workers)
      const workers = Context.make(Workers, { ...alone, askAll: () => Effect.sync(() => loads.shift()!) })
      const backups = Context.make(Backups, { state: Effect.succeed(Option.none()) } as unknown as Backups["Service"])
      const built = yield* Effect.provideContext(
        Layer.build(Layer.fresh(Samples.layer)),
        Context.mergeAll(services, backups, workers)
      )
      const { read, take } = Context.get(built, Samples)
      yield* TestClock.adjust("15 seconds")
      yield* take
      assert.deepInclude((yield* read)[0], { requests: 3, answer: 20, cpu: 0.25, memory_bytes: 30 })
    })
  )

  it.effect("sees each row of a long list once, page by page", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const made = yield* makeEquippedProject(service)
      const { credential_id, delivery_id, device_id, document_id, project_id } = made
      const home = `/console/${project_id}`
      const { person } = yield* signedIn()
      const lists = [
        ["/console/projects", "project", "project_id", project_id, ""],
        [`${home}/documents`, "pinned_document", "document_id", document_id, "'path', copy"],
        [`${home}/phones`, "mobile_device", "device_id", device_id, "'token_lookup', sha256(copy::bytea)"],
        ["/console/push", "push_outbox", "delivery_id", delivery_id, "'event_id', copy, 'last_reason', copy"],
        [`${home}/bridges`, "approved_account_reference", "reference", "github:octo", ""],
        // Behind an unknown Bridge comes none, so the only next page is one of credentials.
        [
          `/console/bridges?bridges=${project_id}`,
          "bridge_enrollment_credential",
          "credential_id",
          credential_id,
          "'credential_hash', sha256(copy::bytea)"
        ]
      ] as const
      for (const [path, table, key, original, unique] of lists) {
        yield* sql.unsafe(`
          insert into ${table}
          select (jsonb_populate_record(t, jsonb_build_object('${key}', copy) || jsonb_build_object(${unique}))).*
            from ${table} t, generate_series(1, 41) n, format('ffffffff-0000-7000-8000-%s', lpad(n::text, 12, '0')) copy
           where ${key} = '${original}'`)
        const seen: Array<string> = []
        let next: string | undefined = path
        while (next !== undefined) {
          const { text }: { readonly text: string } = yield* person.get(next)
          seen.push(...new Set(text.match(/ffffffff-0000-7000-8000-\d{12}(?=<|")(?!">Next)/g)))
          next = /href="([^"]+)">Next page/.exec(text)?.[1]?.replaceAll("&amp;", "&")
        }
        assert.deepStrictEqual([seen.length, new Set(seen).size], [41, 41], path)
      }
    }).pipe(Effect.scoped)
  )

  /** Leaves so many more notifications in a state. */
  const leave = Effect.fnUntraced(function* (state: "pending" | "delivered" | "dead", amount: number) {
    const sql = yield* SqlClient.SqlClient
    const { delivery_id } = yield* makeEquippedProject(yield* Service)
    yield* sql`
      insert into push_outbox
      select (jsonb_populate_record(
               o, jsonb_build_object('delivery_id', copy, 'event_id', copy, 'state', ${state}::text,
                                     'settled_at', case when ${state}::text <> 'pending' then now() end))).*
        from push_outbox o, generate_series(1, ${amount}::int) n, md5(${state}::text || n) copy
       where delivery_id = ${delivery_id}::uuid`
  })

  it.effect("is told that more notifications were delivered than are counted", () =>
    Effect.gen(function* () {
      yield* leave("delivered", 10_000)
      const { person } = yield* signedIn()
      const { text } = yield* person.get("/console/push")
      assert.match(text, /Delivered<[^]{0,40}>10,000 or more</)
      assert.match(text, /Waiting<[^]{0,40}>\d+</)
    }).pipe(Effect.scoped)
  )

  it.effect("is told that more notifications wait, and were given up, than are counted", () =>
    Effect.gen(function* () {
      for (const state of ["pending", "dead"] as const) yield* leave(state, 10_001)
      const { person } = yield* signedIn()
      const { text } = yield* person.get("/console/health")
      assert.match(text, /Notifications waiting<[^]{0,80}>10,000 or more</)
      assert.match(text, /Notifications given up<[^]{0,80}>10,000 or more</)
    }).pipe(Effect.scoped)
  )
})
