/** The sweeps of OAuth delete what has ended, and nothing else (decisions.md, Retention). */
import { assert, layer } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { sweeps } from "../../../src/signin/Wing.ts"
import {
  authorizeQuery,
  Browser,
  makeClient,
  makeToken,
  obtainCode,
  refresh,
  signIn
} from "../../support/agents/Agent.ts"
import { environment, Service } from "../../support/service/Service.ts"

const settings = Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))))
const sweep = Effect.provide(sweepOnce(sweeps), Layer.merge(DatabaseClock.layerLocal, settings))

const count = Effect.fnUntraced(function* (table: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql.unsafe<{ n: number }>(`select count(*)::int as n from ${table}`)
  return row!.n
})

layer(Service.layer)("the sweeper", (it) => {
  it.effect("deletes undecided requests an hour after they expire", () =>
    Effect.gen(function* () {
      const service = yield* Service
      yield* new Browser(service.url).authorize(authorizeQuery({ client_id: yield* makeClient(service) }))
      yield* TestClock.adjust(Duration.minutes(69))
      yield* sweep
      assert.strictEqual(yield* count("oauth_request"), 1)
      yield* TestClock.adjust(Duration.minutes(2))
      yield* sweep
      assert.strictEqual(yield* count("oauth_request"), 0)
    })
  )

  it.effect("deletes a grant and its rows 30 days after its end, and no grant in force", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      yield* obtainCode(service, { token })
      yield* signIn(service, { token })
      const used = yield* signIn(service, { token })
      let { refresh_token } = used
      for (let month = 0; month < 4; month++) {
        yield* TestClock.adjust(Duration.days(29))
        const next = yield* refresh(service, { client_id: used.client_id, refresh_token })
        refresh_token = next.body.refresh_token ?? refresh_token
        yield* sweep
      }
      // The grant whose code was never exchanged is gone; the other two ended after 90 days.
      assert.strictEqual(yield* count("oauth_grant"), 2)
      yield* TestClock.adjust(Duration.days(5))
      yield* sweep
      for (const table of ["oauth_grant", "oauth_code", "oauth_access_token", "oauth_refresh_token", "oauth_request"]) {
        assert.strictEqual(yield* count(table), 0, table)
      }
    })
  )

  it.effect("deletes document clients without grants, and keeps disabled ones", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { services } = yield* Service
      const clients = Context.get(services, Clients)
      yield* clients.disable("https://client.example/disabled")
      yield* sql`
        insert into oauth_client (client_id, kind, name, redirect_uris, grant_types, scopes, created_at)
        select 'https://client.example/idle', kind, name, redirect_uris, grant_types, scopes, created_at
          from oauth_client
         where client_id = 'https://client.example/disabled'`
      yield* TestClock.adjust(Duration.days(31))
      yield* sweep
      const left = yield* sql`select client_id from oauth_client where kind = 'document'`
      assert.deepStrictEqual(left, [{ client_id: "https://client.example/disabled" }])
    })
  )

  it.effect("deletes self-registered clients without grants", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const clients = Context.get(service.services, Clients)
      const before = yield* count("oauth_client")
      yield* clients.register({ redirect_uris: ["http://localhost/"] })
      yield* makeClient(service)
      yield* TestClock.adjust(Duration.days(31))
      yield* sweep
      assert.strictEqual(yield* count("oauth_client"), before + 1)
    })
  )
})

layer(Service.layer)("a sweep", (it) => {
  it.effect(
    "deletes the salt of a used refresh token when the grace period is over; before the sweep it is not used",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const salts = count("oauth_refresh_token where successor_salt is not null")
        const { client_id, refresh_token } = yield* signIn(service)
        const other = yield* signIn(service)
        yield* refresh(service, { client_id, refresh_token })
        yield* refresh(service, { client_id: other.client_id, refresh_token: other.refresh_token })
        yield* TestClock.adjust(Duration.millis(9_999))
        yield* sweep
        assert.strictEqual(yield* salts, 2)
        yield* TestClock.adjust(Duration.millis(1))
        const late = yield* refresh(service, { client_id, refresh_token })
        assert.strictEqual(late.body.error, "invalid_grant")
        yield* sweep
        assert.strictEqual(yield* salts, 0)
      })
  )
})
