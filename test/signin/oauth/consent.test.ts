/**
 * What a person decides at consent, besides yes or no: whether the app may write, and what the sign-in is called; and the
 * console session that may stand for the project token there.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Contents } from "../../../src/people/operator/Contents.ts"
import { Losses } from "../../../src/people/operator/Losses.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Sessions } from "../../../src/signin/sessions/Sessions.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { ofRole } from "../../../src/wire/Scopes.ts"
import {
  answerOf,
  authorizeQuery,
  Browser,
  exchange,
  makeClient,
  makeToken,
  obtainCode,
  pkce
} from "../../support/agents/Agent.ts"
import { send } from "../../support/network/Http.ts"
import { firstPage } from "../../support/database/Page.ts"
import { instance, Service } from "../../support/service/Service.ts"

const reads = ofRole("reader").join(" ")
const writes = ofRole("contributor").join(" ")

/** Opens the consent page of a request for these scopes, with a token entered. */
const opened = Effect.fnUntraced(function* (
  scope: string | undefined = writes,
  options: Parameters<typeof makeToken>[1] = {},
  at: ReturnType<typeof instance> | typeof Service = Service
) {
  const service = yield* at
  const issued = yield* makeToken(service, options)
  const client_id = yield* makeClient(service)
  const { challenge, verifier } = pkce()
  const browser = new Browser(service.url)
  const query = authorizeQuery({ client_id, code_challenge: challenge, scope })
  const page = yield* browser.submit(yield* browser.authorize(query), { project_token: issued.token })
  const decide = (fields: Readonly<Record<string, string>>) => browser.submit(page, { decision: "allow", ...fields })
  const scopeOf = (answer: Effect.Success<ReturnType<typeof decide>>) =>
    Effect.map(
      exchange(service, { client_id, code: answerOf(answer)["code"]!, code_verifier: verifier }),
      ({ body }) => body.scope as string
    )
  const { services } = yield* Service
  const grants = Context.get(services, Grants).list(issued.project_id, { limit: 10 } as never)
  return { ...issued, client_id, page, decide, scopeOf, grants, service }
})

layer(Service.layer)("a sign-in", (it) => {
  it.effect("asks for what a contributor may have, because challenge and metadata name it", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const metadata = yield* send(`${url}/.well-known/oauth-protected-resource/mcp`, { method: "GET" })
      assert.strictEqual(metadata.body.scopes_supported.join(" "), writes)
      const challenge = (yield* send(`${url}/mcp`, { body: "{}" })).headers.get("www-authenticate")
      assert.include(challenge, `scope="${writes}"`)
    })
  )

  it.effect("is told what it can do, in which role, and when it ends", () =>
    Effect.gen(function* () {
      const { page } = yield* opened(writes, { ttl: Option.some(Duration.days(10)) })
      const text = page.text.replaceAll(/\s+/g, " ")
      assert.include(text, "Contributor: can read and change")
      assert.include(text, "<li>Read tasks</li>")
      assert.match(text, /<li>Create and update tasks <span class="mark">can change<\/span> ?<\/li>/)
      const now = yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis)
      const until = new Date(now + 10 * 86_400_000).toLocaleDateString("en-GB", {
        day: "numeric",
        month: "long",
        year: "numeric",
        timeZone: "UTC"
      })
      assert.include(text, `It ends 30 days after its last use, and on ${until} at the latest.`)
    })
  )

  it.effect("is told where it can be ended: in the console, unless there is none", () =>
    Effect.gen(function* () {
      const at = "http://127.0.0.1:8787/console/apps"
      assert.include((yield* opened()).page.text, at)
      const { page } = yield* opened(writes, {}, instance({ SERVICE_CONSOLE: "off" }))
      assert.notInclude(page.text, at)
      assert.include(page.text, "Your operator can end it")
    })
  )

  /** A client that has signed in once with a project token, and copies of that grant, each used a second later. */
  const withGrants = Effect.fnUntraced(function* (copies: number) {
    const service = yield* Service
    const sql = yield* SqlClient.SqlClient
    const issued = yield* makeToken(service)
    const client_id = yield* makeClient(service)
    const signIn = Effect.fnUntraced(function* (token = issued.token) {
      const { code, verifier } = yield* obtainCode(service, { client_id, token })
      assert.strictEqual((yield* exchange(service, { client_id, code, code_verifier: verifier })).status, 200)
    })
    yield* signIn()
    const [first] = yield* sql<{ readonly grant_id: string }>`
      select grant_id from oauth_grant where project_token_id = ${issued.token_id}::uuid`
    yield* sql`
      insert into oauth_grant (
        grant_id, client_id, project_id, project_token_id, scopes, resource, instance_id, redirect_uri, created_at,
        activated_at, expires_at, last_used_at)
      select gen_random_uuid(), client_id, project_id, project_token_id, scopes, resource, instance_id, redirect_uri,
             created_at, activated_at, expires_at, last_used_at + n * interval '1 second'
        from oauth_grant
       cross join generate_series(1, ${copies}::int) n
       where grant_id = ${first!.grant_id}::uuid`
    return { ...issued, client_id, first: first!.grant_id, service, signIn, sql }
  })

  it.effect("beyond 200 of its project token ends the one that was used least recently, with an audit row", () =>
    Effect.gen(function* () {
      const { first, project_id, service, signIn, sql, token_id } = yield* withGrants(199)
      const other = yield* makeToken(service, { project_id })
      yield* signIn(other.token)
      yield* TestClock.adjust("1 hour")
      const ended = sql<{ readonly grant_id: string; readonly end_reason: string; readonly actor: string }>`
        select g.grant_id, g.end_reason, e.actor
          from oauth_grant g
          join audit_event e on e.subject ->> 'grant_id' = g.grant_id::text and e.action = 'oauth_grant.revoked'
         where g.project_id = ${project_id}::uuid`
      assert.deepStrictEqual(yield* ended, [])
      yield* signIn()
      const actor = `project_token:${token_id}`
      assert.deepStrictEqual(yield* ended, [{ grant_id: first, end_reason: "too_many_grants", actor }])
      yield* signIn(other.token)
      assert.lengthOf(yield* ended, 1)
    })
  )

  it.effect("counts in the lists of tokens and clients, and for the operator's commands, up to a thousand", () =>
    Effect.gen(function* () {
      const { client_id, project_id, service, sql, token_id } = yield* withGrants(1100)
      const [token] = yield* Context.get(service.services, ProjectTokens).list(project_id, firstPage)
      assert.strictEqual(token!.live_grants, 1000)
      const clients = yield* Context.get(service.services, Clients).list({ after: undefined, limit: 1000 })
      assert.strictEqual(clients.find((client) => client.client_id === client_id)!.live_grants, 1000)
      yield* sql`update project_token set label = 'Ada' where token_id = ${token_id}::uuid`
      const losses = Context.get(service.services, Losses)
      const counted = yield* Effect.all([
        losses.projectToken(token_id),
        losses.client(client_id),
        losses.project(project_id),
        losses.subject(project_id, "Ada")
      ])
      for (const loss of counted) assert.deepInclude(Option.getOrThrow(loss), { sign_ins: 1000 })
      const project = yield* Context.get(service.services, Contents).project(project_id)
      assert.strictEqual(project.agents, 1000)
    })
  )

  it.effect("can write if it asked to and the person leaves the choice as it is", () =>
    Effect.gen(function* () {
      const { decide, page, scopeOf } = yield* opened()
      assert.match(page.text, /name="access" value="write" checked/)
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "write" })), writes)
    })
  )

  it.effect("can only read if the person takes writing away", () =>
    Effect.gen(function* () {
      const { decide, scopeOf } = yield* opened()
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "read" })), reads)
    })
  )

  it.effect("offers no choice if nothing was asked that a person could take away", () =>
    Effect.gen(function* () {
      const { decide, page, scopeOf } = yield* opened(reads)
      assert.notInclude(page.text, 'name="access"')
      assert.strictEqual(
        yield* scopeOf(yield* decide({ access: "write" })),
        reads,
        "nor can a form add to what was asked"
      )
    })
  )

  it.effect("with a reader's token can only read, whatever it asked", () =>
    Effect.gen(function* () {
      const { decide, page, scopeOf } = yield* opened(writes, { role: "reader" })
      assert.notInclude(page.text, 'name="access"')
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "write" })), reads)
    })
  )

  it.effect("holds what the last press of Allow chose", () =>
    Effect.gen(function* () {
      const { decide, grants, scopeOf } = yield* opened()
      yield* decide({ access: "write", label: "laptop" })
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "read", label: "tablet" })), reads)
      const [grant, ...more] = yield* grants
      assert.deepEqual([grant!.label, grant!.scopes.join(" "), more], ["tablet", reads, []])
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ action: string }>`
        select action from audit_event where subject ->> 'grant_id' = ${grant!.grant_id} order by at, event_id`
      assert.deepEqual(
        rows.map(({ action }) => action),
        ["oauth_grant.created", "oauth_grant.revised", "oauth_grant.code_exchanged"]
      )
    })
  )

  it.effect("is changed as often as its project token may be entered: each change is an audit row", () =>
    Effect.gen(function* () {
      const { decide } = yield* opened(writes, {}, instance({ SERVICE_RATE_LIMITS: "on" }))
      // Entering the token was the first of 150.
      for (let n = 0; n < 150; n++) assert.strictEqual((yield* decide({ label: `laptop ${n}` })).status, 303)
      assert.strictEqual((yield* decide({ label: "laptop 149" })).status, 303)
      const busy = yield* decide({ label: "laptop 150" })
      assert.deepStrictEqual([busy.status, busy.headers.get("retry-after")], [429, "6"])
    })
  )

  it.effect("is a use of its project token", () =>
    Effect.gen(function* () {
      const { decide, project_id, service } = yield* opened()
      const lastUse = Effect.map(
        Context.get(service.services, ProjectTokens).list(project_id, firstPage),
        ([only]) => only!.last_used_at
      )
      assert.isNull(yield* lastUse)
      yield* decide({})
      assert.isNotNull(yield* lastUse)
    })
  )

  it.effect("keeps what it holds once its code was exchanged", () =>
    Effect.gen(function* () {
      const { decide, grants, scopeOf } = yield* opened()
      yield* scopeOf(yield* decide({ access: "read", label: "laptop" }))
      assert.strictEqual((yield* decide({ access: "write", label: "other" })).status, 410)
      const [grant] = yield* grants
      assert.deepEqual([grant!.label, grant!.scopes.join(" ")], ["laptop", reads])
    })
  )

  it.effect("carries the name that the person gave it, in lists and wherever its actions are shown", () =>
    Effect.gen(function* () {
      const { decide, grants, project_id, service } = yield* opened()
      yield* decide({ label: "  Ada's\u202e laptop\n" })
      const [grant] = yield* grants
      assert.strictEqual(grant!.label, "Ada's laptop")
      const actor = `oauth_grant:${grant!.grant_id}`
      const { names } = Context.get(service.services, ProjectTokens)
      assert.strictEqual((yield* names(project_id, [actor])).get(actor), "Lighthouse (Ada's laptop)")
      const { project_id: elsewhere } = yield* makeToken(service)
      assert.strictEqual((yield* names(elsewhere, [actor])).size, 0)
    })
  )

  it.effect("without a name is called after its app", () =>
    Effect.gen(function* () {
      const { decide, grants, project_id, service } = yield* opened()
      yield* decide({ label: " " })
      const [grant] = yield* grants
      assert.isNull(grant!.label)
      const actor = `oauth_grant:${grant!.grant_id}`
      assert.strictEqual(
        (yield* Context.get(service.services, ProjectTokens).names(project_id, [actor])).get(actor),
        "Lighthouse"
      )
    })
  )

  it.effect("keeps no token that was entered as its name, and keeps the choice beside it", () =>
    Effect.gen(function* () {
      const { decide, grants, token } = yield* opened()
      const again = yield* decide({ access: "read", label: `mine ${token}` })
      assert.strictEqual(again.status, 422)
      assert.include(again.text, "This is a token, not a name.")
      assert.match(again.text, /name="access" value="read" checked/)
      assert.notInclude(again.text, token)
      assert.deepEqual(yield* grants, [])
      const sql = yield* SqlClient.SqlClient
      assert.deepEqual(yield* sql`select 1 from oauth_grant where label like '%spt\\_%'`, [])
    })
  )
})

const offer = "Continue with Harbour"

/** A browser that is signed in to the console, at the page that asks for a token. */
const atConsent = Effect.fnUntraced(function* (
  on: Pick<Service["Service"], "url" | "services"> | undefined = undefined
) {
  const service = on ?? (yield* Service)
  const issued = yield* makeToken(service)
  const sessions = Context.get(service.services, Sessions)
  const { secret } = yield* sessions.signIn(Redacted.make(issued.token))
  const browser = new Browser(service.url, [["console_8787", Redacted.value(secret)]])
  const client_id = yield* makeClient(service)
  const { challenge, verifier } = pkce()
  const query = authorizeQuery({ client_id, code_challenge: challenge, scope: writes })
  const page = yield* browser.authorize(query)
  const found = yield* sessions.find(secret)
  const session = found._tag === "Some" ? found.value : undefined!
  const signOut = sessions.signOut(session)
  return { ...issued, browser, client_id, page, query, service, session, signOut, verifier }
})

layer(Service.layer)("a console session", (it) => {
  it.effect("stands for its token: Continue, then Allow", () =>
    Effect.gen(function* () {
      const { browser, client_id, page, service, verifier } = yield* atConsent()
      assert.include(page.text, offer)
      const consent = yield* browser.submit(page, {})
      assert.include(consent.text, "Allow Lighthouse to use Harbour?")
      const allowed = yield* browser.submit(consent, { decision: "allow" })
      const code = answerOf(allowed)["code"]!
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(tokens.body.scope, writes)
    })
  )

  it.effect("is not opened by entering a token at consent", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      const browser = new Browser(service.url)
      const query = authorizeQuery({ client_id: yield* makeClient(service) })
      yield* browser.submit(yield* browser.authorize(query), { project_token: token })
      assert.notInclude(browser.cookie, "console")
      assert.notInclude((yield* browser.authorize(query)).text, offer)
    })
  )

  it.effect("that has ended is refused, at each step", () =>
    Effect.gen(function* () {
      const early = yield* atConsent()
      yield* early.signOut
      const refused = yield* early.browser.submit(early.page, {})
      assert.strictEqual(refused.status, 422)
      assert.include(refused.text, "You are no longer signed in to the console.")
      assert.notInclude(refused.text, offer)
      const entered = yield* early.browser.submit(refused, { project_token: early.token })
      assert.include(entered.text, "Allow Lighthouse to use Harbour?", "the person goes on with the token")

      const late = yield* atConsent()
      const consent = yield* late.browser.submit(late.page, {})
      yield* late.signOut
      assert.strictEqual((yield* late.browser.submit(consent, { decision: "allow" })).status, 410)
    })
  )

  it.effect("of a token that was revoked is refused", () =>
    Effect.gen(function* () {
      const { browser, page, service, token_id } = yield* atConsent()
      const consent = yield* browser.submit(page, {})
      yield* Context.get(service.services, ProjectTokens).revoke(token_id)
      assert.strictEqual((yield* browser.submit(consent, { decision: "allow" })).status, 410)
    })
  )

  it.effect("counts no more once a token was entered for the same request", () =>
    Effect.gen(function* () {
      const { browser, page, signOut, token } = yield* atConsent()
      const consent = yield* browser.submit(page, {})
      const again = yield* browser.get(
        `/oauth/consent?request=${/name="request" value="([^"]+)"/.exec(consent.text)![1]}&other=1`
      )
      const own = yield* browser.submit(
        { ...again, text: again.text.replace(/name="session"/, 'name="unused"') },
        { project_token: token }
      )
      yield* signOut
      assert.strictEqual((yield* browser.submit(own, { decision: "allow" })).status, 303)
    })
  )

  it.effect("is the one that the page named, not one that the browser got meanwhile", () =>
    Effect.gen(function* () {
      const { browser, page, service } = yield* atConsent()
      const other = yield* makeToken(service)
      const opened = yield* Context.get(service.services, Sessions).signIn(Redacted.make(other.token))
      browser.cookies.set("console_8787", Redacted.value(opened.secret))
      assert.strictEqual((yield* browser.submit(page, {})).status, 422)
    })
  )

  it.effect("is worth nothing to another browser, nor in a form of another site", () =>
    Effect.gen(function* () {
      const { browser, page, query, service } = yield* atConsent()
      assert.strictEqual((yield* browser.submit(page, {}, { origin: "https://evil.example" })).status, 403)
      const other = new Browser(service.url)
      yield* other.authorize(query)
      assert.strictEqual((yield* other.submit(page, {})).status, 403)
      const planted = new Browser(
        service.url,
        [...browser.cookies].filter(([name]) => !name.startsWith("console"))
      )
      assert.strictEqual((yield* planted.submit(page, {})).status, 422, "the session's id alone is not the session")
    })
  )

  it.effect("of an operator is not offered", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sessions = Context.get(service.services, Sessions)
      const { url } = yield* sessions.makeLink("operator", undefined)
      const code = new URL(Redacted.value(url)).searchParams.get("code")!
      const { secret } = yield* sessions.enter(Redacted.make(code))
      const browser = new Browser(service.url, [["console_8787", Redacted.value(secret)]])
      const page = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(service) }))
      assert.notInclude(page.text, 'name="session"')
    })
  )

  it.effect("is not offered, nor accepted, where the issuer has another address or the console is off", () =>
    Effect.gen(function* () {
      for (const settings of [{ SERVICE_AUTH_URL: "http://127.0.0.1:8788" }, { SERVICE_CONSOLE: "off" }]) {
        const { browser, page, session } = yield* atConsent(yield* instance(settings))
        assert.strictEqual(page.status, 200)
        assert.notInclude(page.text, 'name="session"')
        assert.strictEqual((yield* browser.submit(page, { session: session.session_id })).status, 422)
      }
    })
  )
})
