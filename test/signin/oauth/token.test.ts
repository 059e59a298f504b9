/** The token endpoint: codes and refresh tokens (OAuth 2.1 "Token Endpoint"; spec 4.10, 5.5). */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Metric, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { Access } from "../../../src/signin/access/Access.ts"
import { Overview } from "../../../src/people/operator/Overview.ts"
import { deriveFrom } from "../../../src/platform/crypto/Derivation.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { grantSuspicions } from "../../../src/platform/metrics/Metrics.ts"
import { credentialOf } from "../../../src/platform/edge/BearerCredential.ts"
import {
  authorizeQuery,
  exchange,
  type Instance,
  makeClient,
  makeToken,
  obtainCode,
  post,
  refresh,
  resource,
  signIn
} from "../../support/agents/Agent.ts"
import { send } from "../../support/network/Http.ts"
import { environment, instance, Service } from "../../support/service/Service.ts"

const suspicions = (code: string) =>
  Effect.map(Metric.value(grantSuspicions(code)), (state) => (state as Metric.CounterState<number>).count)

const isAuthorized = (service: Service["Service"], token: string) =>
  Context.get(service.services, Access)
    .authorize(credentialOf(`Bearer ${token}`))
    .pipe(
      Effect.as(true),
      Effect.catchTag("unauthorized", () => Effect.succeed(false))
    )

layer(Service.layer)("a code", (it) => {
  it.effect("is exchanged for an access and a refresh token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service)
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(tokens.status, 200, tokens.text)
      assert.match(tokens.body.access_token, /^sat_[0-9A-Za-z]{49}$/)
      assert.match(tokens.body.refresh_token, /^srt_[0-9A-Za-z]{49}$/)
      assert.strictEqual(tokens.body.token_type, "Bearer")
      assert.strictEqual(tokens.body.expires_in, 3600)
      assert.strictEqual(tokens.body.scope, "context:read memory:read tasks:read documents:read")
      assert.strictEqual(tokens.headers.get("cache-control"), "no-store")
      assert.isTrue(yield* isAuthorized(service, tokens.body.access_token))
    })
  )

  it.effect("works once; a second valid exchange ends the grant", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service)
      const before = yield* suspicions("code_replayed")
      const first = yield* exchange(service, { client_id, code, code_verifier: verifier })
      const second = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(first.status, 200)
      assert.strictEqual(second.status, 400)
      assert.strictEqual(second.body.error, "invalid_grant")
      assert.isFalse(yield* isAuthorized(service, first.body.access_token))
      const later = yield* refresh(service, { client_id, refresh_token: first.body.refresh_token })
      assert.strictEqual(later.body.error, "invalid_grant")
      // Once the grant has ended, a replay tells nothing new.
      yield* exchange(service, { client_id, code, code_verifier: verifier })
      const sql = yield* SqlClient.SqlClient
      const noted = yield* sql`
        select (select count from audit_refusal_count c where c.event_id = e.event_id) as count
          from audit_event e
         where actor = ${`oauth_client:${client_id}`}
           and code = 'code_replayed'`
      assert.deepStrictEqual(noted, [{ count: 1 }])
      assert.strictEqual((yield* suspicions("code_replayed")) - before, 1)
    })
  )

  it.effect("replayed with a wrong verifier changes nothing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service)
      const first = yield* exchange(service, { client_id, code, code_verifier: verifier })
      const other = yield* exchange(service, { client_id, code, code_verifier: "x".repeat(43) })
      assert.strictEqual(other.body.error, "invalid_grant")
      assert.isTrue(yield* isAuthorized(service, first.body.access_token))
    })
  )

  it.effect("is not consumed by a wrong verifier", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service)
      const wrong = yield* exchange(service, { client_id, code, code_verifier: "x".repeat(43) })
      const right = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(wrong.body.error, "invalid_grant")
      assert.strictEqual(right.status, 200, right.text)
    })
  )

  it.effect("expires after a minute", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service)
      yield* TestClock.adjust(Duration.seconds(60))
      const late = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(late.body.error, "invalid_grant")
    })
  )

  it.effect("belongs to its client", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { code, verifier } = yield* obtainCode(service)
      const client_id = yield* makeClient(service)
      const other = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(other.body.error, "invalid_grant")
    })
  )

  it.effect("is exchanged with the redirect_uri of the request, or without one", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service)
      const wrong = { client_id, code, code_verifier: verifier, redirect_uri: "http://127.0.0.1/other" }
      assert.strictEqual((yield* exchange(service, wrong)).body.error, "invalid_grant")
      const right = { ...wrong, redirect_uri: "http://127.0.0.1/callback" }
      assert.strictEqual((yield* exchange(service, right)).status, 200)
    })
  )

  it.effect("stops working when its project token is revoked", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { token, token_id } = yield* makeToken(service)
      const { client_id, code, verifier } = yield* obtainCode(service, { token })
      yield* sql`update project_token set revoked_at = created_at where token_id = ${token_id}::uuid`
      const answer = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.strictEqual(answer.body.error, "invalid_grant")
    })
  )

  it.effect("succeeds in exactly one of 50 concurrent exchanges, and then its grant ends", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      for (let round = 0; round < 3; round++) {
        const { client_id, code, verifier } = yield* obtainCode(service)
        const answers = yield* Effect.forEach(
          Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? service : replica)),
          (on) => exchange(on, { client_id, code, code_verifier: verifier }),
          { concurrency: 50 }
        )
        const good = answers.filter(({ status }) => status === 200)
        assert.strictEqual(good.length, 1)
        assert.deepEqual(
          [...new Set(answers.filter((a) => a.status !== 200).map((a) => a.body.error))],
          ["invalid_grant"]
        )
        assert.isFalse(yield* isAuthorized(service, good[0]!.body.access_token))
      }
    }).pipe(Effect.scoped)
  )
})

layer(Service.layer)("a refresh token", (it) => {
  it.effect("is exchanged for a successor and a new access token; the old access token stays valid", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, client_id, refresh_token, scope } = yield* signIn(service)
      const next = yield* refresh(service, { client_id, refresh_token })
      assert.strictEqual(next.status, 200, next.text)
      assert.notStrictEqual(next.body.refresh_token, refresh_token)
      assert.strictEqual(next.body.scope, scope)
      assert.isTrue(yield* isAuthorized(service, access_token))
      assert.isTrue(yield* isAuthorized(service, next.body.access_token))
    })
  )

  it.effect("returns the same successor to every retry within the grace period", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const first = yield* refresh(service, { client_id, refresh_token })
      yield* TestClock.adjust(Duration.seconds(9))
      const again = yield* refresh(service, { client_id, refresh_token })
      assert.strictEqual(again.status, 200, again.text)
      assert.strictEqual(again.body.refresh_token, first.body.refresh_token)
    })
  )

  it.effect("ends the grant if it is used again after the grace period", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const first = yield* refresh(service, { client_id, refresh_token })
      yield* TestClock.adjust(Duration.seconds(10))
      const before = yield* suspicions("refresh_reused")
      const late = yield* refresh(service, { client_id, refresh_token })
      assert.strictEqual(late.body.error, "invalid_grant")
      assert.strictEqual((yield* suspicions("refresh_reused")) - before, 1)
      assert.isFalse(yield* isAuthorized(service, first.body.access_token))
      const successor = yield* refresh(service, { client_id, refresh_token: first.body.refresh_token })
      assert.strictEqual(successor.body.error, "invalid_grant")
    })
  )

  it.effect("ends the grant if it is used again when it would have expired unused", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      yield* TestClock.adjust(Duration.days(29))
      const first = yield* refresh(service, { client_id, refresh_token })
      yield* TestClock.adjust(Duration.days(2))
      yield* refresh(service, { client_id, refresh_token })
      const successor = yield* refresh(service, { client_id, refresh_token: first.body.refresh_token })
      assert.strictEqual(successor.body.error, "invalid_grant")
    })
  )

  it.effect("ends the grant if it is used again after its successor was used", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const first = yield* refresh(service, { client_id, refresh_token })
      const second = yield* refresh(service, { client_id, refresh_token: first.body.refresh_token })
      const stale = yield* refresh(service, { client_id, refresh_token })
      assert.strictEqual(stale.body.error, "invalid_grant")
      assert.isFalse(yield* isAuthorized(service, second.body.access_token))
    })
  )

  it.effect("returns one and the same successor to 50 concurrent requests at two instances", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance()
      for (let round = 0; round < 3; round++) {
        const { client_id, refresh_token } = yield* signIn(service)
        const answers = yield* Effect.forEach(
          Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? service : replica)),
          (on) => refresh(on, { client_id, refresh_token }),
          { concurrency: 50 }
        )
        assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
        assert.strictEqual(new Set(answers.map(({ body }) => body.refresh_token)).size, 1)
        assert.isTrue(yield* isAuthorized(service, answers[49]!.body.access_token))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is rejected when used again without a grace period", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const strict = yield* instance({ SERVICE_OAUTH_REFRESH_GRACE_SECONDS: "0" })
      const { client_id, refresh_token } = yield* signIn(service)
      yield* refresh(strict, { client_id, refresh_token })
      const again = yield* refresh(strict, { client_id, refresh_token })
      assert.strictEqual(again.body.error, "invalid_grant")
    }).pipe(Effect.scoped)
  )

  it.effect("narrows the access token's scope and never widens it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const narrow = yield* refresh(service, { client_id, refresh_token, scope: "memory:read" })
      assert.strictEqual(narrow.body.scope, "memory:read")
      const next = narrow.body.refresh_token
      const wide = yield* refresh(service, { client_id, refresh_token: next, scope: "memory:write" })
      assert.strictEqual(wide.body.error, "invalid_scope")
      const all = yield* refresh(service, { client_id, refresh_token: next })
      assert.strictEqual(all.body.scope, "context:read memory:read tasks:read documents:read")
    })
  )

  it.effect("is not exchanged for an unknown scope", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const unknown = yield* refresh(service, { client_id, refresh_token, scope: "memory:read openid" })
      assert.deepEqual([unknown.status, unknown.body.error], [400, "invalid_scope"])
      const narrow = yield* refresh(service, { client_id, refresh_token, scope: "memory:read offline_access" })
      assert.strictEqual(narrow.body.scope, "memory:read")
    })
  )

  it.effect("keeps all granted scopes if only offline_access is requested", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const { body } = yield* refresh(service, { client_id, refresh_token, scope: "offline_access" })
      assert.strictEqual(body.scope, "context:read memory:read tasks:read documents:read")
    })
  )

  it.effect("expires after 30 days without use, and 90 days after consent at the latest", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const idle = yield* signIn(service)
      const busy = yield* signIn(service)
      let refresh_token = busy.refresh_token
      for (let month = 0; month < 3; month++) {
        yield* TestClock.adjust(Duration.days(29))
        refresh_token = (yield* refresh(service, { client_id: busy.client_id, refresh_token })).body.refresh_token
      }
      const unused = yield* refresh(service, { client_id: idle.client_id, refresh_token: idle.refresh_token })
      assert.strictEqual(unused.body.error, "invalid_grant")
      yield* TestClock.adjust(Duration.days(3))
      const over = yield* refresh(service, { client_id: busy.client_id, refresh_token })
      assert.strictEqual(over.body.error, "invalid_grant")
    })
  )

  it.effect("never outlives the project token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service, { ttl: Option.some(Duration.minutes(30)) })
      const { client_id, code, verifier } = yield* obtainCode(service, { token })
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier })
      assert.isAtMost(tokens.body.expires_in, 1800)
      yield* TestClock.adjust(Duration.minutes(30))
      const over = yield* refresh(service, { client_id, refresh_token: tokens.body.refresh_token })
      assert.strictEqual(over.body.error, "invalid_grant")
    })
  )

  it.effect("belongs to its client", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token, refresh_token } = yield* signIn(service)
      const other = yield* refresh(service, { client_id: yield* makeClient(service), refresh_token })
      assert.strictEqual(other.body.error, "invalid_grant")
      assert.isTrue(yield* isAuthorized(service, access_token))
    })
  )
})

/** Sends a refresh token from an address and a user agent. */
const refreshFrom = (on: Instance, fields: Readonly<Record<string, string>>, address: string, agent: string) =>
  post(
    `${on.url}/token`,
    { grant_type: "refresh_token", ...fields },
    { "x-forwarded-for": address, "user-agent": agent }
  )

const auditOf = (client_id: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ action: string; address: string }>`
        select action, address from audit_event where actor = ${`oauth_client:${client_id}`} order by at, event_id`,
      (rows) => rows.filter(({ action }) => action !== "oauth_grant.code_exchanged")
    )
  )

const accessTokensOf = (client_id: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ n: number }>`
        select count(*)::int as n from oauth_access_token join oauth_grant using (grant_id) where client_id = ${client_id}`,
      ([row]) => row!.n
    )
  )

layer(Service.layer)("a used refresh token", (it) => {
  it.effect("sent again from another address or user agent is audited and counted; from the same it stays quiet", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_TRUSTED_PROXIES: "127.0.0.1" })
      const suspected = Effect.map(
        Context.get(on.services, Overview).take,
        ({ numbers }) => numbers.grants_replayed_elsewhere
      )
      const counted = suspicions("refresh_replayed_elsewhere")
      const before = yield* counted
      const { client_id, refresh_token } = yield* signIn(on)
      const from = (address: string, agent: string) => refreshFrom(on, { client_id, refresh_token }, address, agent)
      const first = yield* from("203.0.113.1", "the agent")
      const again = yield* from("203.0.113.1", "the agent")
      assert.strictEqual(again.body.refresh_token, first.body.refresh_token)
      assert.deepStrictEqual([yield* suspected, (yield* counted) - before], [0, 0])
      for (const [address, agent] of [
        ["203.0.113.2", "the agent"],
        ["203.0.113.1", "another agent"]
      ] as const) {
        assert.strictEqual((yield* from(address, agent)).body.refresh_token, first.body.refresh_token)
      }
      assert.deepStrictEqual(yield* auditOf(client_id), [
        { action: "oauth_grant.refreshed", address: "203.0.113.1" },
        { action: "oauth_grant.refresh_replayed", address: "203.0.113.1" },
        { action: "oauth_grant.refresh_replayed_elsewhere", address: "203.0.113.2" },
        { action: "oauth_grant.refresh_replayed_elsewhere", address: "203.0.113.1" }
      ])
      assert.deepStrictEqual([yield* suspected, (yield* counted) - before], [1, 2])
    }).pipe(Effect.scoped)
  )

  it.effect("of the release before, which did not keep who used it, is no suspicion", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { client_id, refresh_token } = yield* signIn(on)
      yield* refresh(on, { client_id, refresh_token })
      yield* sql`update oauth_refresh_token set used_by = null where used_by is not null`
      assert.strictEqual((yield* refresh(on, { client_id, refresh_token })).status, 200)
      assert.deepStrictEqual(
        (yield* auditOf(client_id)).map(({ action }) => action),
        ["oauth_grant.refreshed", "oauth_grant.refresh_replayed"]
      )
    })
  )

  it.effect("of 0.1.0, which derived the successor without a secret, gets the same successor", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { client_id, refresh_token } = yield* signIn(on)
      yield* refresh(on, { client_id, refresh_token })
      const salt = randomBytes(32)
      const presented = Redacted.make(refresh_token)
      const successor = Tokens.format("srt", deriveFrom(presented, "oauth/v1/refresh-successor", [salt]))
      yield* sql`
        update oauth_refresh_token
           set used_by = null, successor_salt = ${salt}
         where token_hash = ${Tokens.hash(presented)}`
      yield* sql`
        update oauth_refresh_token
           set token_hash = ${Tokens.hash(successor)}
         where generation = 1
           and grant_id = (select grant_id from oauth_refresh_token where token_hash = ${Tokens.hash(presented)})`
      const again = yield* refresh(on, { client_id, refresh_token })
      assert.deepStrictEqual([again.status, again.body.refresh_token], [200, Redacted.value(successor)])
    })
  )

  it.effect("issues at most 60 more access tokens, at all instances together; the grant stays", () =>
    Effect.gen(function* () {
      const on = yield* Service
      const replica = yield* instance()
      const { client_id, refresh_token } = yield* signIn(on)
      const first = yield* refresh(on, { client_id, refresh_token })
      const before = yield* accessTokensOf(client_id)
      const answers = yield* Effect.forEach(
        Array.from({ length: 80 }, (_, n) => (n % 2 === 0 ? on : replica)),
        (at) => refresh(at, { client_id, refresh_token }),
        { concurrency: 8 }
      )
      assert.lengthOf(
        answers.filter(({ status }) => status === 200),
        60
      )
      assert.strictEqual((yield* accessTokensOf(client_id)) - before, 60)
      assert.deepStrictEqual(
        [...new Set(answers.filter(({ status }) => status !== 200).map(({ body }) => body.error))],
        ["invalid_grant"]
      )
      assert.strictEqual((yield* refresh(on, { client_id, refresh_token: first.body.refresh_token })).status, 200)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "returns the same successor while SERVICE_OAUTH_SECRET is replaced, and 503 where the secret is unknown",
    () =>
      Effect.gen(function* () {
        const on = yield* Service
        const other = "another-oauth-secret-0123456789abcdefghij"
        const replaced = yield* instance({
          SERVICE_OAUTH_SECRET: other,
          SERVICE_OAUTH_SECRET_PREVIOUS: environment.SERVICE_OAUTH_SECRET
        })
        const ignorant = yield* instance({ SERVICE_OAUTH_SECRET: other })
        const { client_id, refresh_token } = yield* signIn(on)
        const first = yield* refresh(on, { client_id, refresh_token })
        const unknown = yield* refresh(ignorant, { client_id, refresh_token })
        assert.deepStrictEqual([unknown.status, unknown.body.error], [503, "temporarily_unavailable"])
        const again = yield* refresh(replaced, { client_id, refresh_token })
        assert.strictEqual(again.body.refresh_token, first.body.refresh_token)
      }).pipe(Effect.scoped)
  )

  it.effect("has no successor that can be derived without SERVICE_OAUTH_SECRET: then reuse ends the grant", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_OAUTH_SECRET: "" })
      const sql = yield* SqlClient.SqlClient
      const { client_id, refresh_token } = yield* signIn(on)
      const first = yield* refresh(on, { client_id, refresh_token })
      assert.strictEqual(first.status, 200, first.text)
      assert.lengthOf(
        yield* sql`
          select 1 from oauth_refresh_token join oauth_grant using (grant_id)
           where client_id = ${client_id} and successor_salt is not null`,
        0
      )
      assert.strictEqual((yield* refresh(on, { client_id, refresh_token })).body.error, "invalid_grant")
      assert.isFalse(yield* isAuthorized(on, first.body.access_token))
    }).pipe(Effect.scoped)
  )
})

layer(Service.layer)("a loop of refreshes", (it) => {
  it.effect("that can only be refused take nothing from the grant", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { client_id, refresh_token } = yield* signIn(on)
      const other = yield* makeClient(on)
      const wrong = refresh(on, { client_id: other, refresh_token })
      const answers = yield* Effect.replicateEffect(wrong, 70)
      assert.isTrue(answers.every(({ status }) => status !== 429))
      assert.strictEqual((yield* refresh(on, { client_id, refresh_token })).status, 200)
    }).pipe(Effect.scoped)
  )

  it.effect("of one grant gets 429 after 60, and then one in ten seconds; other grants are served", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_RATE_LIMITS: "on" })
      const { client_id, ...signedIn } = yield* signIn(on)
      const other = yield* signIn(on)
      const before = yield* accessTokensOf(client_id)
      let { refresh_token } = signedIn
      const next = Effect.gen(function* () {
        const answer = yield* refresh(on, { client_id, refresh_token })
        refresh_token = answer.body.refresh_token ?? refresh_token
        return answer
      })
      // Each second request sends a used token again.
      for (let n = 0; n < 30; n++) {
        const used = refresh_token
        assert.strictEqual((yield* next).status, 200)
        assert.strictEqual((yield* refresh(on, { client_id, refresh_token: used })).status, 200)
      }
      const limited = yield* next
      assert.deepStrictEqual([limited.status, limited.body.error], [429, "temporarily_unavailable"])
      assert.strictEqual(limited.headers.get("retry-after"), "10")
      assert.strictEqual((yield* accessTokensOf(client_id)) - before, 60)
      const { status } = yield* refresh(on, { client_id: other.client_id, refresh_token: other.refresh_token })
      assert.strictEqual(status, 200)
      yield* TestClock.adjust(Duration.seconds(10))
      assert.deepStrictEqual([(yield* next).status, (yield* next).status], [200, 429])
    }).pipe(Effect.scoped)
  )

  it.effect(
    "of one project token get 429 after 400 of all its grants, and then two a second; other tokens are served",
    () =>
      Effect.gen(function* () {
        const on = yield* instance({ SERVICE_RATE_LIMITS: "on" })
        const { token } = yield* makeToken(on)
        const refreshing = Effect.map(signIn(on, { token }), ({ client_id, ...signedIn }) => {
          let { refresh_token } = signedIn
          return Effect.map(
            Effect.suspend(() => refresh(on, { client_id, refresh_token })),
            ({ body, status }) => {
              refresh_token = body.refresh_token ?? refresh_token
              return status
            }
          )
        })
        const other = yield* signIn(on)
        const grants = yield* Effect.replicateEffect(refreshing, 7)
        const [last, ...others] = grants
        for (const next of others) for (let n = 0; n < 60; n++) assert.strictEqual(yield* next, 200)
        for (let n = 0; n < 40; n++) assert.strictEqual(yield* last!, 200)
        assert.strictEqual(yield* last!, 429)
        const { client_id, refresh_token } = other
        assert.strictEqual((yield* refresh(on, { client_id, refresh_token })).status, 200)
        yield* TestClock.adjust(Duration.seconds(1))
        assert.deepStrictEqual([yield* last!, yield* last!, yield* last!], [200, 200, 429])
      }).pipe(Effect.scoped),
    20_000
  )
})

layer(Service.layer)("the token endpoint", (it) => {
  const cases: ReadonlyArray<readonly [string, Record<string, string>, number, string]> = [
    ["no grant_type", {}, 400, "invalid_request"],
    ["another grant_type", { grant_type: "password" }, 400, "unsupported_grant_type"],
    ["no code", { grant_type: "authorization_code", code_verifier: "x".repeat(43) }, 400, "invalid_request"],
    ["no verifier", { grant_type: "authorization_code", code: "sac_x" }, 400, "invalid_request"],
    ["a short verifier", { grant_type: "authorization_code", code: "x", code_verifier: "x" }, 400, "invalid_request"],
    [
      "an unknown code",
      { grant_type: "authorization_code", code: "x", code_verifier: "x".repeat(43) },
      400,
      "invalid_grant"
    ],
    ["an unknown refresh token", { grant_type: "refresh_token", refresh_token: "srt_x" }, 400, "invalid_grant"],
    [
      "another resource",
      { grant_type: "refresh_token", refresh_token: "x", resource: "https://x.test/mcp" },
      400,
      "invalid_target"
    ],
    ["a client secret", { grant_type: "refresh_token", refresh_token: "x", client_secret: "x" }, 401, "invalid_client"],
    [
      "an unknown client",
      { grant_type: "refresh_token", refresh_token: "x", client_id: "nobody" },
      401,
      "invalid_client"
    ],
    [
      "an unknown scope",
      { grant_type: "refresh_token", refresh_token: "x", scope: "bridge:transport" },
      400,
      "invalid_scope"
    ]
  ]
  it.effect.each(cases)("answers %s", ([, fields, status, error]) =>
    Effect.gen(function* () {
      const service = yield* Service
      const answer = yield* post(`${service.url}/token`, { client_id: yield* makeClient(service), ...fields })
      assert.strictEqual(answer.status, status, answer.text)
      assert.deepEqual(Object.keys(answer.body), ["error", "error_description"])
      assert.strictEqual(answer.body.error, error)
      assert.match(answer.body.error_description, /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/)
      assert.strictEqual(answer.headers.get("cache-control"), "no-store")
      assert.strictEqual(answer.headers.get("pragma"), "no-cache")
      assert.strictEqual(answer.headers.get("access-control-allow-origin"), "*")
      assert.strictEqual(
        answer.headers.get("access-control-expose-headers"),
        "WWW-Authenticate, Retry-After, X-Request-Id"
      )
    })
  )

  it.effect("answers a browser's preflight, and other methods with the one to use", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const preflight = yield* send(`${url}/token`, { method: "OPTIONS", headers: { origin: "https://app.test" } })
      assert.deepEqual(
        [
          preflight.status,
          ...["allow-origin", "allow-methods", "allow-headers", "max-age"].map((of) =>
            preflight.headers.get(`access-control-${of}`)
          )
        ],
        [204, "*", "POST, OPTIONS", "Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version", "86400"]
      )
      const other = yield* send(`${url}/token`, { method: "GET" })
      assert.deepEqual(
        [other.status, other.headers.get("allow"), other.body.error],
        [405, "POST, OPTIONS", "invalid_request"]
      )
    })
  )

  it.effect("rejects Basic authentication with a challenge", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const answer = yield* post(
        `${service.url}/token`,
        { grant_type: "refresh_token" },
        { authorization: "Basic eDp5" }
      )
      assert.strictEqual(answer.status, 401)
      assert.strictEqual(answer.body.error, "invalid_client")
      assert.match(answer.headers.get("www-authenticate")!, /^Basic /)
    })
  )

  it.effect("accepts only forms without repeated parameters, of at most a hundred", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const json = yield* send(`${url}/token`, { body: { grant_type: "refresh_token" } })
      const twice = yield* send(`${url}/token`, {
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: "grant_type=refresh_token&client_id=a&client_id=b"
      })
      const large = yield* send(`${url}/token`, {
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: `a=${"x".repeat(20_000)}`
      })
      const filled = Array.from({ length: 98 }, (_, n) => `x${n}=`).join("&")
      const asked = (more: string) =>
        send(`${url}/token`, {
          headers: { "content-type": "application/x-www-form-urlencoded" },
          body: `grant_type=refresh_token&client_id=a&${filled}${more}`
        })
      // A hundred fields are read: the token is missing. One more is too many, whatever they are.
      const [most, tooMany] = [yield* asked(""), yield* asked("&refresh_token=x")]
      assert.match(most.body.error_description, /refresh_token/)
      assert.deepEqual([tooMany.status, tooMany.body.error], [400, "invalid_request"])
      assert.deepEqual([json.status, json.body.error], [400, "invalid_request"])
      assert.deepEqual([twice.status, twice.body.error], [400, "invalid_request"])
      assert.deepEqual([large.status, large.body.error], [413, "invalid_request"])
    })
  )

  it.effect("rejects NUL in every parameter", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, refresh_token } = yield* signIn(service)
      const { code, verifier } = yield* obtainCode(service, { client_id })
      const request = { grant_type: "authorization_code", client_id, code, code_verifier: verifier }
      const answers = [
        yield* post(`${service.url}/token`, { grant_type: "refresh_token", refresh_token, client_id: "\0" }),
        yield* post(`${service.url}/token`, { ...request, redirect_uri: "\0" }),
        yield* post(`${service.url}/revoke`, { token: refresh_token, client_id: "\0" })
      ]
      for (const { body, status } of answers) assert.deepEqual([status, body.error], [400, "invalid_request"])
      const pages = [authorizeQuery({ client_id, state: "\0" }), authorizeQuery({ client_id: "https://\0" })]
      for (const query of pages)
        assert.strictEqual((yield* send(`${service.url}/authorize?${query}`, { method: "GET" })).status, 400)
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).status, 200)
    })
  )

  it.effect("answers other methods with 405 and preflights with 204", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const get = yield* send(`${url}/token`, { method: "GET" })
      const preflight = yield* send(`${url}/token`, { method: "OPTIONS", headers: { origin: "https://app.test" } })
      assert.deepEqual([get.status, get.headers.get("allow")], [405, "POST, OPTIONS"])
      assert.deepEqual([preflight.status, preflight.headers.get("access-control-allow-origin")], [204, "*"])
    })
  )

  it.effect.each([
    "http://127.0.0.1:8787",
    "http://127.0.0.1:8787/",
    resource,
    `${resource}/`,
    "HTTP://127.0.0.1:8787/mcp"
  ])("accepts %s as the resource", (name) =>
    Effect.gen(function* () {
      const service = yield* Service
      const { client_id, code, verifier } = yield* obtainCode(service, { query: { resource: name } })
      const tokens = yield* exchange(service, { client_id, code, code_verifier: verifier, resource: name })
      assert.strictEqual(tokens.status, 200, tokens.text)
      assert.isTrue(yield* isAuthorized(service, tokens.body.access_token))
    })
  )
})
