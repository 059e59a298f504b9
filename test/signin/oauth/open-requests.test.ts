/** What an open authorization request costs and keeps (decisions.md, Open authorization requests). */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { answerOf, authorizeQuery, Browser, makeClient, makeToken } from "../../support/agents/Agent.ts"
import { send } from "../../support/network/Http.ts"
import { instance, Service } from "../../support/service/Service.ts"

/** Believes X-Forwarded-For; limits by time are off, as in every test that does not turn them on. */
const proxied = instance({ SERVICE_TRUSTED_PROXIES: "127.0.0.1" })

const begin = (url: string, query: string, address: string) =>
  send(`${url}/authorize?${query}`, { method: "GET", headers: { "x-forwarded-for": address } })

const openIn = (network: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly n: number; readonly bytes: number }>`
        select count(*)::int as n, coalesce(max(pg_column_size(r.*)), 0)::int as bytes
          from oauth_request r
         where network = ${network}
           and project_token_id is null`,
      ([row]) => row!
    )
  )

/** Requests that others have opened. */
const open = (network: string, site: string, count: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = new Date(yield* Clock.currentTimeMillis)
    yield* sql`
      insert into oauth_request (
        request_id, browser_hash, client_id, network, site, redirect_uri, scopes, code_challenge, created_at, expires_at)
      select gen_random_uuid(), sha256('browser'), 'client', ${network}, ${site}, 'http://127.0.0.1/callback',
             '{memory:read}', repeat('c', 43), ${now}::timestamptz, ${now}::timestamptz + interval '10 minutes'
        from generate_series(1, ${count}::int)`
  })

layer(Service.layer, { timeout: "1 minute" })("open authorization requests", (it) => {
  it.effect("are at most 50 per address, whatever is sent; the oldest go", () =>
    Effect.gen(function* () {
      const on = yield* proxied
      const client_id = yield* makeClient(on)
      const query = authorizeQuery({ client_id, state: "s".repeat(1024) })
      const flood = (address: (n: number) => string, count: number) =>
        Effect.forEach(
          Array.from({ length: count }, (_, n) => n),
          (n) => begin(on.url, query, address(n)),
          { concurrency: 4 }
        )
      yield* flood(() => "203.0.113.8", 3)
      const answers = yield* flood(() => "203.0.113.7", 200)
      assert.isTrue(answers.every(({ status }) => status === 303))
      yield* TestClock.adjust("1 second")
      yield* begin(on.url, query, "203.0.113.7")
      const { bytes, n } = yield* openIn("203.0.113.7")
      assert.strictEqual(n, 50)
      assert.isBelow(bytes, 2048)
      yield* flood((address) => `2001:db8:1:2::${address.toString(16)}`, 60)
      yield* TestClock.adjust("1 second")
      yield* begin(on.url, query, "2001:db8:1:2:ffff::")
      assert.strictEqual((yield* openIn("2001:db8:1:2::/64")).n, 50)
      assert.strictEqual((yield* openIn("203.0.113.8")).n, 3)
    })
  )

  it.effect("of an IPv6 site are at most 400, which its networks divide", () =>
    Effect.gen(function* () {
      const on = yield* proxied
      const sql = yield* SqlClient.SqlClient
      const client_id = yield* makeClient(on)
      yield* open("2001:db8:7:1::/64", "2001:db8:7::/48", 1)
      for (let n = 2; n < 12; n++) yield* open(`2001:db8:7:${n}::/64`, "2001:db8:7::/48", 50)
      yield* begin(on.url, authorizeQuery({ client_id }), "2001:db8:7:ff::1")
      const counts = yield* sql<{ readonly n: number }>`
        select count(*)::int as n
          from oauth_request
         where site = '2001:db8:7::/48'
         group by network
         order by n`
      assert.deepStrictEqual(
        counts.map(({ n }) => n),
        [1, 1, ...Array.from({ length: 2 }, () => 39), ...Array.from({ length: 8 }, () => 40)]
      )
    })
  )

  it.effect("are at most 20,000 of all addresses together: those with the most lose their oldest", () =>
    Effect.gen(function* () {
      const on = yield* proxied
      const sql = yield* SqlClient.SqlClient
      const client_id = yield* makeClient(on)
      const { token } = yield* makeToken(on)
      const early = new Browser(on.url)
      const honest = yield* early.authorize(authorizeQuery({ client_id }))
      yield* TestClock.adjust("1 second")
      for (let n = 0; n < 51; n++) yield* open(`2001:db8:${n}:1::/64`, `2001:db8:${n}::/48`, 400)
      // The first one of a process looks whether all together are too many.
      const late = yield* proxied
      yield* begin(late.url, authorizeQuery({ client_id }), "203.0.113.9")
      const [row] = yield* sql<{ readonly n: number }>`
        select count(*)::int as n from oauth_request where project_token_id is null`
      assert.strictEqual(row!.n, 20_000)
      assert.isString(
        answerOf(yield* early.submit(yield* early.submit(honest, { project_token: token }), { decision: "allow" }))[
          "code"
        ]
      )
    })
  )

  it.effect("are bounded though they are denied, which needs no project token", () =>
    Effect.gen(function* () {
      const on = yield* instance()
      const client_id = yield* makeClient(on)
      for (let n = 0; n < 55; n++) {
        const browser = new Browser(on.url)
        const page = yield* browser.authorize(authorizeQuery({ client_id }))
        assert.strictEqual(answerOf(yield* browser.submit(page, { decision: "deny" }))["error"], "access_denied")
      }
      assert.strictEqual((yield* openIn("127.0.0.1")).n, 50)
    })
  )

  it.effect("take a project token 150 times at once and then ten times a minute, from whatever address", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_RATE_LIMITS: "on", SERVICE_TRUSTED_PROXIES: "127.0.0.1" })
      const client_id = yield* makeClient(on)
      const { token } = yield* makeToken(on)
      const other = yield* makeToken(on)
      const enter = (project_token: string) => {
        const browser = new Browser(on.url)
        return Effect.flatMap(browser.authorize(authorizeQuery({ client_id })), (page) =>
          browser.submit(page, { project_token })
        )
      }
      // Five more in the half minute that this takes.
      for (let n = 0; n < 155; n++) {
        assert.strictEqual((yield* enter(token)).status, 200)
        yield* TestClock.adjust("200 millis")
      }
      const busy = yield* enter(token)
      assert.deepStrictEqual([busy.status, busy.headers.get("retry-after")], [429, "5"])
      assert.strictEqual((yield* enter(other.token)).status, 200)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* enter(token)).status, 200)
      assert.strictEqual((yield* enter(token)).status, 429)
    })
  )

  it.effect("stay once a project token was entered, however many others the address opens", () =>
    Effect.gen(function* () {
      const on = yield* instance()
      const client_id = yield* makeClient(on)
      const { token } = yield* makeToken(on)
      const browser = new Browser(on.url)
      const asked = yield* browser.authorize(authorizeQuery({ client_id }))
      const page = yield* browser.submit(asked, { project_token: token })
      const early = new Browser(on.url)
      const lost = yield* early.authorize(authorizeQuery({ client_id }))
      for (let n = 0; n < 50; n++) {
        yield* TestClock.adjust("1 second")
        yield* new Browser(on.url).get(`/authorize?${authorizeQuery({ client_id })}`)
      }
      assert.strictEqual((yield* early.submit(lost, { project_token: token })).status, 404)
      assert.isString(answerOf(yield* browser.submit(page, { decision: "allow" }))["code"])
    })
  )

  it.effect("have a state of at most 1 KiB; a longer one is an error that does not return it", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const client_id = yield* makeClient(on)
      // Two bytes each.
      const longest = "\u00fc".repeat(512)
      const refused = answerOf(
        yield* new Browser(on.url).authorize(authorizeQuery({ client_id, state: `${longest}s` }))
      )
      assert.deepStrictEqual(refused, {
        error: "invalid_request",
        error_description: "state is longer than 1 KiB.",
        iss: "http://127.0.0.1:8787"
      })
      const { token } = yield* makeToken(on)
      const allowed = yield* new Browser(on.url).consent(authorizeQuery({ client_id, state: longest }), token)
      assert.strictEqual(answerOf(allowed)["state"], longest)
    })
  )

  it.effect("are refused at every step if the client was disabled meanwhile; denying still answers the client", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const client_id = yield* makeClient(on)
      const { token } = yield* makeToken(on)
      const [browser, other] = [new Browser(on.url), new Browser(on.url)]
      const asked = yield* browser.authorize(authorizeQuery({ client_id }))
      const path = `/oauth/consent?request=${/name="request" value="([^"]*)"/.exec(asked.text)![1]}`
      const page = yield* browser.submit(asked, { project_token: token })
      const otherPage = yield* other.authorize(authorizeQuery({ client_id }))
      yield* Context.get(on.services, Clients).disable(client_id)
      const refused = [
        yield* browser.get(path),
        yield* browser.submit(page, { decision: "allow" }),
        yield* other.submit(otherPage, { project_token: token })
      ]
      for (const answer of refused) {
        assert.strictEqual(answer.status, 400)
        assert.include(answer.text, "This app is not known here")
      }
      assert.strictEqual(answerOf(yield* browser.submit(page, { decision: "deny" }))["error"], "access_denied")
    })
  )

  it.effect("of the release before, which copied the client into the request, are decided as before", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const sql = yield* SqlClient.SqlClient
      const client_id = yield* makeClient(on)
      const { token } = yield* makeToken(on)
      const browser = new Browser(on.url)
      const asked = yield* browser.authorize(authorizeQuery({ client_id }))
      yield* sql`
        update oauth_request
           set client = '{"kind": "operator", "name": "Copied"}'::jsonb, network = null
         where client_id = ${client_id}`
      const page = yield* browser.submit(asked, { project_token: token })
      assert.include(page.text, "Lighthouse")
      assert.isString(answerOf(yield* browser.submit(page, { decision: "allow" }))["code"])
    })
  )
})
