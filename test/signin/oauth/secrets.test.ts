/**
 * Only their owners hold the secrets of a sign-in (spec 1.5, 5.4): project token, cookie, CSRF value, code, verifier,
 * access and refresh tokens. The test runs a complete sign-in at the finest log level, with everything that can go wrong.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import {
  answerOf,
  authorizeQuery,
  Browser,
  exchange,
  hiddenFields,
  makeClient,
  makeToken,
  pkce,
  post,
  refresh
} from "../../support/agents/Agent.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { recording } from "../../support/run/Lines.ts"
import { search, utf8 } from "../../support/secrets/Canaries.ts"
import { filesSince, lsn, rowsAsText } from "../../support/secrets/Secrets.ts"
import { instance } from "../../support/service/Service.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

layer(TestDatabase.sql, { timeout: "60 seconds" })("secrets", (it) => {
  it.effect("are neither stored nor logged in a complete sign-in", () =>
    Effect.gen(function* () {
      const start = yield* lsn
      const sql = yield* SqlClient.SqlClient
      const { lines, record, spansAsText } = recording()
      const on = yield* record(instance({ SERVICE_LOG_LEVEL: "All", SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" }))
      const refused: Array<Answer> = []
      const refuse = (answer: Effect.Effect<Answer>) =>
        Effect.map(answer, (one) => {
          assert.isAtLeast(one.status, 400, one.text)
          refused.push(one)
        })
      const whileBroken = (table: string, work: Effect.Effect<void>) =>
        Effect.acquireUseRelease(
          sql.unsafe(`alter table ${table} add constraint broken check (grant_id is null) not valid`),
          () => work,
          () => sql.unsafe(`alter table ${table} drop constraint broken`)
        )

      // Consent.
      const { token, token_id } = yield* makeToken(on)
      const revoked = yield* makeToken(on)
      yield* Context.get(on.services, ProjectTokens).revoke(revoked.token_id)
      const mistyped = token.slice(0, -1)
      const client_id = yield* makeClient(on)
      const { challenge, verifier } = pkce()
      const query = authorizeQuery({ client_id, code_challenge: challenge })
      const browser = new Browser(on.url)
      const page = yield* browser.authorize(query)
      const { csrf, request } = hiddenFields(page)
      for (const project_token of [mistyped, revoked.token]) {
        const again = yield* browser.submit(page, { project_token })
        assert.strictEqual(again.status, 422)
        assert.deepStrictEqual(search({ page: utf8(again.text) }, { project_token: utf8(project_token) }), [])
      }
      yield* refuse(new Browser(on.url).submit(page, { project_token: token }))
      yield* refuse(browser.submit(page, { project_token: token, csrf: token }))
      yield* refuse(browser.submit(page, { project_token: token }, { origin: "https://evil.test" }))
      yield* refuse(post(`${on.url}/oauth/consent`, { request: token, csrf, project_token: token }))
      yield* refuse(send(`${on.url}/oauth/consent?request=${request}&project_token=${token}`, { method: "GET" }))
      yield* refuse(send(`${on.url}/oauth/consent`, { body: { project_token: token, csrf } }))
      yield* refuse(browser.get(`/authorize?${authorizeQuery({ client_id: token, state: mistyped })}`))
      const bound = yield* browser.submit(page, { project_token: token })
      yield* whileBroken("oauth_code", refuse(browser.submit(bound, { decision: "allow" })))
      const lost = answerOf(yield* browser.submit(bound, { decision: "allow" }))["code"]!
      const code = answerOf(yield* browser.submit(bound, { decision: "allow" }))["code"]!
      const { cookie } = browser

      // The token endpoint, with every mistake that a client can make.
      const good = { client_id, code, code_verifier: verifier }
      const other = yield* makeClient(on)
      const wrong = { "user-agent": `agent ${token}`, "x-forwarded-for": code, cookie }
      yield* refuse(post(`${on.url}/token`, { grant_type: "authorization_code", ...good, code: lost }, wrong))
      yield* refuse(exchange(on, { ...good, code_verifier: code }))
      yield* refuse(exchange(on, { ...good, client_id: other }))
      yield* refuse(exchange(on, { ...good, client_id: token }))
      yield* refuse(exchange(on, { ...good, redirect_uri: `https://${code}.test` }))
      yield* refuse(exchange(on, { ...good, resource: code }))
      yield* refuse(exchange(on, { ...good, client_secret: code }))
      yield* refuse(send(`${on.url}/token`, { body: good }))
      yield* refuse(send(`${on.url}/token?code=${code}&code_verifier=${verifier}`, { method: "GET" }))
      yield* refuse(post(`${on.url}/token`, good, { authorization: `Basic ${btoa(`${client_id}:${code}`)}` }))
      yield* whileBroken("oauth_access_token", refuse(exchange(on, good)))
      const first = (yield* exchange(on, good)).body

      const use = (refresh_token: string, more: Readonly<Record<string, string>> = {}) =>
        refresh(on, { client_id, refresh_token, ...more })
      yield* refuse(use(first.refresh_token, { client_id: other }))
      yield* refuse(use(first.refresh_token, { scope: first.access_token }))
      yield* refuse(use(first.access_token))
      yield* whileBroken("oauth_refresh_token", refuse(use(first.refresh_token)))
      const second = (yield* use(first.refresh_token)).body
      const replayed = (yield* use(first.refresh_token)).body
      const third = (yield* use(second.refresh_token)).body

      // The endpoints that take tokens.
      const mcp = `${on.url}/mcp`
      const list = { jsonrpc: "2.0", id: 1, method: "tools/list" }
      const listed = yield* send(mcp, {
        bearer: third.access_token,
        headers: { accept: "application/json, text/event-stream", "user-agent": third.access_token },
        body: list
      })
      assert.strictEqual(listed.status, 200, listed.text)
      yield* refuse(send(mcp, { bearer: third.refresh_token, body: list }))
      yield* refuse(send(`${mcp}?access_token=${third.access_token}`, { body: list }))
      yield* refuse(send(mcp, { bearer: `${third.access_token},${code}`, body: list }))
      yield* refuse(post(`${on.url}/revoke`, { client_id, token }))
      yield* refuse(post(`${on.url}/revoke`, { client_id: third.access_token, token: third.access_token }))
      yield* refuse(send(`${on.url}/register`, { body: { redirect_uris: [token], software_statement: code } }))
      yield* refuse(send(`${on.url}/oauth/${third.refresh_token}`, { bearer: third.access_token, method: "GET" }))

      // The ways that a grant ends: a copied token, the project token, the operator.
      yield* refuse(use(first.refresh_token))
      yield* refuse(send(mcp, { bearer: third.access_token, body: list }))
      yield* refuse(exchange(on, good))
      yield* Context.get(on.services, ProjectTokens).revoke(token_id)
      yield* Context.get(on.services, Clients).disable(client_id)
      yield* refuse(use(third.refresh_token))

      const secrets = {
        "project token": token,
        "revoked project token": revoked.token,
        "mistyped project token": mistyped,
        ...Object.fromEntries([...browser.cookies].map(([name, value]) => [`cookie ${name}`, value])),
        "CSRF value": csrf!,
        "code that was lost": lost,
        code,
        verifier,
        "first access token": first.access_token,
        "first refresh token": first.refresh_token,
        "second access token": second.access_token,
        "second refresh token": second.refresh_token,
        "replayed access token": replayed.access_token,
        "third access token": third.access_token,
        "third refresh token": third.refresh_token
      }
      const rows = yield* rowsAsText
      const places = {
        ...rows,
        ...(yield* filesSince(start)),
        "log lines": utf8(lines.join("\n")),
        spans: utf8(spansAsText().join("\n")),
        "error answers": utf8(refused.map(({ headers, text }) => `${JSON.stringify([...headers])} ${text}`).join("\n"))
      }
      assert.isNotEmpty(lines)
      assert.isNotEmpty(spansAsText())
      const bytes = Object.fromEntries(Object.entries(secrets).map(([name, text]) => [name, utf8(text)]))
      assert.deepStrictEqual(search(places, bytes), [])

      // Their hashes are stored, which proves that the search above covered the right tables.
      const stored = Buffer.concat(Object.values(rows)).toString()
      const hashed = Object.entries(secrets)
        .filter(([, text]) => stored.includes(createHash("sha256").update(text).digest("hex")))
        .map(([name]) => name)
      // Entering the project token replaced the browser's first cookie.
      const never = ["mistyped project token", "cookie oauth_browser", "CSRF value", "code that was lost", "verifier"]
      assert.deepStrictEqual(
        hashed,
        Object.keys(secrets).filter((name) => !never.includes(name))
      )
    })
  )
})
