/** The apps that a person let in: who sees them, who ends one, and what a form must carry. */
import { assert, it as plain, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { grantRow } from "../../../../src/people/console/access/AppsPage.ts"
import type { Grant } from "../../../../src/signin/oauth/grants/Grants.ts"
import type { Session } from "../../../../src/signin/sessions/Sessions.ts"
import { makeToken, post } from "../../../support/agents/Agent.ts"
import { csrfOf, Person, signedInOperator } from "../../../support/people/Console.ts"
import { makeApp, signIn } from "../../../support/people/SignIn.ts"
import { send } from "../../../support/network/Http.ts"
import { Service } from "../../../support/service/Service.ts"

const path = "/console/apps"

/** A person who is signed in to the console, and let an app in. */
const signedIn = Effect.fnUntraced(function* (given: Parameters<typeof makeToken>[1] = {}) {
  const on = yield* Service
  const { project_id, token, token_id } = yield* makeToken(on, given)
  const client_id = yield* makeApp(on)
  const tokens = yield* signIn(on, { client_id, token: Redacted.make(token), label: "Blue phone" })
  const person = new Person(on.url)
  yield* person.signIn(token)
  const page = person.get(path)
  const csrf = csrfOf(yield* page)
  const grant = (yield* grantsOf(token_id))[0]!.grant_id
  return { on, project_id, token_id, client_id, tokens, person, page, csrf, grant }
})

const grantsOf = (token_id: string) =>
  SqlClient.SqlClient.use(
    (sql) => sql<{ grant_id: string; revoked_at: Date | null; end_reason: string | null }>`
      select grant_id, revoked_at, end_reason from oauth_grant where project_token_id = ${token_id}::uuid`
  )

const recorded = (grant_id: string) =>
  SqlClient.SqlClient.use(
    (sql) => sql`
      select actor, outcome from audit_event
       where action = 'oauth_grant.revoked' and subject ->> 'grant_id' = ${grant_id}`
  )

plain.each([
  ["waiting", "signing in", "ends <time"],
  ["active", "active", "ends <time"],
  ["expired", "expired", undefined],
  ["revoked", "ended", "revoked by person"]
] as const)("a sign-in that is %s is marked: %s", (status, marked, ends) => {
  const now = new Date()
  const grant: Grant = {
    grant_id: "grant-1",
    project_id: "project-1",
    client_id: "client-1",
    client_name: "Companion",
    label: null,
    project_token_id: "token-1",
    scopes: [],
    status,
    created_at: now,
    expires_at: now,
    last_used_at: null,
    revoked_at: null,
    end_reason: status === "revoked" ? "revoked_by_person" : null
  }
  const session = { token: { token_id: "token-1" } } as unknown as Session
  const { text } = grantRow(grant, session, now)
  assert.strictEqual(/class="mark \w*">([^<]+)/.exec(text)![1], marked)
  assert.strictEqual(/ends <time|revoked by person/.exec(text)?.[0], ends)
  assert.strictEqual(text.includes("<button"), ends === "ends <time")
  assert.include(text, "never used")
})

layer(Service.layer)("the apps that a person let in", (it) => {
  it.effect.each(["reader", "contributor"] as const)(
    "are shown to them, with the role %s, and one ends with its tokens at once",
    (role) =>
      Effect.gen(function* () {
        const { client_id, csrf, grant, on, page, person, project_id, token_id, tokens } = yield* signedIn({ role })
        const { text } = yield* page
        for (const shown of [
          "Companion",
          client_id,
          "Blue phone",
          `href="/console/${project_id}">Harbour`,
          "tasks:read mobile:devices",
          "last used <time",
          "signed in <time",
          "ends <time"
        ]) {
          assert.include(text, shown)
        }
        const device = send(`${on.url}/bridge/v1/mobile/devices/${grant}`, {
          method: "GET",
          bearer: Redacted.value(tokens.access_token)
        })
        assert.strictEqual((yield* device).status, 404, "the token opens the API")
        for (const time of ["first", "again"]) {
          const ended = yield* person.post(path, { csrf, grant })
          assert.deepEqual([ended.status, ended.headers.get("location")], [303, `${path}?done=end`], time)
        }
        assert.strictEqual((yield* device).status, 401)
        const fields = { grant_type: "refresh_token", client_id, refresh_token: Redacted.value(tokens.refresh_token!) }
        assert.strictEqual((yield* post(`${on.url}/token`, fields)).body.error, "invalid_grant")
        assert.deepEqual(yield* recorded(grant), [{ actor: `project_token:${token_id}`, outcome: "done" }])
        assert.strictEqual((yield* grantsOf(token_id))[0]!.end_reason, "revoked_by_person")
        const after = yield* person.get(`${path}?done=end`)
        assert.include(after.text, "The sign-in has ended.")
        assert.include(after.text, "No app is signed in with your token.")
      })
  )

  it.effect("are neither shown to nor ended by another person, of the same project or of another", () =>
    Effect.gen(function* () {
      const mine = yield* signedIn()
      const neighbour = yield* signedIn({ project_id: mine.project_id })
      const stranger = yield* signedIn()
      for (const { csrf, grant, page, person } of [neighbour, stranger]) {
        const { text } = yield* page
        assert.include(text, grant)
        assert.notInclude(text, mine.grant)
        assert.strictEqual((yield* person.post(path, { csrf, grant: mine.grant })).status, 404)
      }
      const agents = (yield* neighbour.person.get(`/console/${mine.project_id}/agents`)).text
      assert.deepEqual([agents.includes(neighbour.grant), agents.includes(mine.grant)], [true, false], "buttons")
      assert.isNull((yield* grantsOf(mine.token_id))[0]!.revoked_at)
      assert.deepEqual(yield* recorded(mine.grant), [])
    })
  )

  it.effect("stay with a form of another site, another session or another page, or about what is not there", () =>
    Effect.gen(function* () {
      const { csrf, grant, person, token_id } = yield* signedIn()
      const other = yield* signedIn()
      const statusOf = (fields: Record<string, string>, headers?: Record<string, string>) =>
        Effect.map(person.post(path, fields, headers), ({ status }) => status)
      assert.strictEqual(yield* statusOf({ csrf, grant }, {}), 403)
      assert.strictEqual(yield* statusOf({ csrf, grant }, { origin: "https://evil.example" }), 403)
      assert.strictEqual(yield* statusOf({ csrf: other.csrf, grant }), 403)
      assert.strictEqual(yield* statusOf({ grant }), 403)
      for (const unknown of ["", "x", "01990000-0000-7000-8000-000000000001"]) {
        assert.strictEqual(yield* statusOf({ csrf, grant: unknown }), 404)
      }
      yield* person.post("/console/sign-out", { csrf })
      assert.strictEqual(yield* statusOf({ csrf, grant }), 401, "a page from before the session ended")
      assert.isNull((yield* grantsOf(token_id))[0]!.revoked_at)
    })
  )

  it.effect("are none of an operator's, who ends anybody's with the command's action", () =>
    Effect.gen(function* () {
      const { grant, on, token_id } = yield* signedIn()
      const person = yield* signedInOperator(on)
      assert.strictEqual((yield* person.get(path)).status, 404)
      const csrf = csrfOf(yield* person.get("/console/access"))
      assert.strictEqual((yield* person.post(path, { csrf, grant })).status, 404)
      assert.isNull((yield* grantsOf(token_id))[0]!.revoked_at)
    })
  )

  it.effect("are listed page by page, the newest first", () =>
    Effect.gen(function* () {
      const { grant, person } = yield* signedIn()
      yield* SqlClient.SqlClient.use(
        (sql) => sql`
          insert into oauth_grant
          select (jsonb_populate_record(g, jsonb_build_object('grant_id', 'ffffffff-0000-7000-8000-' || lpad(n::text, 12, '0')))).*
            from oauth_grant g, generate_series(1, 15) n
           where grant_id = ${grant}::uuid`
      )
      const first = (yield* person.get(path)).text
      assert.notInclude(first, `value="${grant}"`)
      const next = /href="(\/console\/apps\?after=[^"]+)">Next page/.exec(first)![1]!
      const second = (yield* person.get(next)).text
      assert.include(second, `value="${grant}"`)
      assert.notInclude(second, "Next page")
      assert.strictEqual((yield* person.get(`${path}?after=x`)).status, 404)
    })
  )
})
