/** What an open authorization request costs and keeps (decisions.md, Open authorization requests). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
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
         where network = ${network}`,
      ([row]) => row!
    )
  )

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
      const answers = yield* flood(() => "203.0.113.7", 1500)
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
