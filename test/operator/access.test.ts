/** The operator's commands for project tokens, OAuth clients and grants, and their effect over HTTP. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { findSecret } from "../../src/platform/secrets/Secrets.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { operator } from "../../src/platform/settings/Operator.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import {
  authorizeQuery,
  Browser,
  callback,
  exchange,
  makeToken,
  obtainCode,
  refresh,
  signIn
} from "../support/agents/Agent.ts"
import { send } from "../support/network/Http.ts"
import { Service } from "../support/service/Service.ts"
import { admin, refusal, result } from "../support/service/ServiceAdmin.ts"
import { firstPage } from "../support/database/Page.ts"

const nobody = "00000000-0000-4000-8000-000000000000"
const at = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

const json = (...args: ReadonlyArray<string>) => Effect.map(admin(...args, "--json"), result)
/** The output for people. */
const text = (...args: ReadonlyArray<string>) =>
  Effect.map(admin(...args), ({ code, stderr, stdout }) => {
    assert.deepEqual([code, stderr], [0, ""])
    return stdout
  })

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "access-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const makeProject = Effect.flatMap(Service, ({ services }) =>
  Effect.map(Context.get(services, Projects).create("Harbour"), ({ project_id }) => project_id)
)

const grantsOf = (project_id: string) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Grants).list(project_id, firstPage))

/** The HTTP status of a request to /mcp. */
const statusWith = Effect.fnUntraced(function* (bearer: string) {
  const { url } = yield* Service
  const headers = { accept: "application/json, text/event-stream" }
  const answer = yield* send(`${url}/mcp`, { bearer, headers, body: { jsonrpc: "2.0", id: 1, method: "tools/list" } })
  return answer.status
})

/** The operator's audit events with this id, oldest first. */
const done = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ action: string }>`
    select action from audit_event
     where actor = ${operator} and outcome = 'done' and subject::text like ${`%${id}%`}
     order by at`
  return rows.map(({ action }) => action)
})

layer(Service.layer, { timeout: "60 seconds", excludeTestServices: true })("the operator's commands", (it) => {
  /** Each command starts a process, which takes a second on a busy machine: hence the long timeout. */
  const commands = (name: string, steps: Parameters<typeof it.effect>[1]) => it.effect(name, steps, 120_000)

  commands("a project token is written to a private file, works at /mcp, and ends at once with its grants", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject
      const file = join(yield* folder, "token")
      const created = yield* text(
        "create-project-token",
        "--project",
        project_id,
        "--role",
        "contributor",
        "--scope",
        "tasks:write",
        "--ttl",
        "1h",
        "--out",
        file
      )
      assert.match(created, /^scopes +tasks:read,tasks:write$/m)
      assert.match(created, new RegExp(`^Next: npx service-admin list-project-tokens --project ${project_id}$`, "m"))
      assert.isUndefined(findSecret(created))
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      const token = readFileSync(file, "utf8").trim()
      assert.strictEqual(yield* statusWith(token), 200)
      const { access_token, client_id, refresh_token } = yield* signIn(service, {
        token,
        query: { scope: "tasks:read" }
      })
      assert.strictEqual(yield* statusWith(access_token), 200)

      const { items } = yield* json("list-project-tokens", "--project", project_id)
      const { created_at, expires_at, last_used_at, token_id, ...rest } = items[0]
      const scopes = ["tasks:read", "tasks:write"]
      const unlabelled = { label: null, opens_console: true, revoked_at: null }
      assert.deepEqual(rest, { role: "contributor", scopes, status: "active", live_grants: 1, ...unlabelled })
      assert.strictEqual(Date.parse(expires_at) - Date.parse(created_at), 3_600_000)
      assert.match(last_used_at, at)

      const revoked = yield* json("revoke-project-token", "--token", token_id)
      assert.deepEqual([yield* statusWith(token), yield* statusWith(access_token)], [401, 401])
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).body.error, "invalid_grant")
      const [grant] = yield* grantsOf(project_id)
      assert.deepEqual([grant!.status, grant!.end_reason], ["revoked", "project_token_revoked"])
      const revoked_at = grant!.revoked_at!.toISOString()
      assert.deepEqual(revoked, { token_id, project_id, revoked_at, grant_ids: [grant!.grant_id] })
      assert.deepEqual(yield* json("revoke-project-token", "--token", token_id), revoked)
      assert.deepEqual(yield* done(token_id), ["project_token.issued", "project_token.revoked"])
    })
  )

  commands(
    "a client is created with the given settings; disabled, it gets no consent page, no refresh and no access",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { client_id, ...created } = yield* json(
          "create-oauth-client",
          "--name",
          "Light house",
          "--redirect-uri",
          callback,
          "--redirect-uri",
          "com.example.app:/cb",
          "--application-type",
          "native",
          "--scope",
          "tasks:write"
        )
        assert.deepEqual(created, {
          name: "Light house",
          redirect_uris: [callback, "com.example.app:/cb"],
          application_type: "native",
          scopes: ["tasks:read", "tasks:write"]
        })
        const { access_token, refresh_token } = yield* signIn(service, { client_id, redirect_uri: callback })
        assert.strictEqual(yield* statusWith(access_token), 200)

        const disabled = yield* json("disable-oauth-client", "--client", client_id)
        assert.match(disabled.disabled_at, at)
        assert.lengthOf(disabled.grant_ids, 1)
        assert.strictEqual(yield* statusWith(access_token), 401)
        const page = yield* new Browser(service.url).authorize(authorizeQuery({ client_id }))
        assert.deepEqual([page.status, page.headers.get("location")], [400, null])
        const again = yield* refresh(service, { client_id, refresh_token })
        assert.deepEqual([again.status, again.body.error], [401, "invalid_client"])
        assert.deepEqual(yield* json("disable-oauth-client", "--client", client_id), disabled)
        const { items } = yield* json("list-oauth-clients")
        const listed = items.find((item: { client_id: string }) => item.client_id === client_id)
        assert.include(listed, { kind: "operator", live_grants: 0, disabled_at: disabled.disabled_at })
        assert.deepEqual(yield* done(client_id), ["oauth_client.created", "oauth_client.disabled"])
      })
  )

  commands("a client can be disabled by the address of its metadata document before its first sign-in", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const address = "https://claude.ai/some/client.json"
      const disabled = yield* text("disable-oauth-client", "--client", address)
      assert.match(disabled, /^grant_ids +-$/m)
      const { disabled_at } = yield* json("disable-oauth-client", "--client", address)
      assert.include(disabled, disabled_at)
      assert.match(
        yield* text("list-oauth-clients"),
        new RegExp(`^${address} +document +claude\\.ai +- +0 +${disabled_at}$`, "m")
      )
      const page = yield* new Browser(service.url).authorize(authorizeQuery({ client_id: address }))
      assert.include(page.text, "unknown or disabled")
    })
  )

  commands("a grant is listed from its code until its end, and its tokens end with it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { project_id, token, token_id } = yield* makeToken(service)
      const { client_id, code, verifier } = yield* obtainCode(service, { token })
      const [waiting] = yield* grantsOf(project_id)
      const { grant_id } = waiting!
      assert.strictEqual(waiting!.status, "waiting")
      const { access_token, refresh_token } = (yield* exchange(service, { client_id, code, code_verifier: verifier }))
        .body
      assert.strictEqual(yield* statusWith(access_token), 200)
      const [active] = (yield* json("list-oauth-grants", "--project", project_id)).items
      assert.include(active, { grant_id, client_name: "Lighthouse", project_token_id: token_id, status: "active" })

      const revoked = yield* text("revoke-oauth-grant", "--grant", grant_id)
      assert.match(revoked, new RegExp(`^Next: npx service-admin list-oauth-grants --project ${project_id}$`, "m"))
      assert.strictEqual(yield* statusWith(access_token), 401)
      assert.strictEqual((yield* refresh(service, { client_id, refresh_token })).body.error, "invalid_grant")
      assert.strictEqual(yield* statusWith(token), 200)
      const { revoked_at } = yield* json("revoke-oauth-grant", "--grant", grant_id)
      assert.include(revoked, revoked_at)

      yield* obtainCode(service, { token })
      yield* sql`update oauth_code set expires_at = created_at where used_at is null`
      const lines = (yield* text("list-oauth-grants", "--project", project_id)).split("\n")
      assert.match(lines[1]!, new RegExp(`^${grant_id} +revoked +Lighthouse .* revoked_by_operator$`))
      assert.match(lines[2]!, /^\S+ +expired /)
      assert.deepEqual(yield* done(grant_id), ["oauth_grant.revoked"])
    })
  )

  commands("invalid requests are refused with their codes and leave no file", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const within = yield* folder
      const project_id = yield* makeProject
      const closed = yield* makeProject
      yield* Context.get(service.services, Projects).disable(closed)
      writeFileSync(join(within, "taken"), "mine")
      const client = ["create-oauth-client", "--name", "x", "--redirect-uri"]
      const token = (project: string, role: string, file: string) => [
        "create-project-token",
        "--project",
        project,
        "--role",
        role,
        "--out",
        join(within, file)
      ]
      const expected: ReadonlyArray<readonly [ReadonlyArray<string>, number, string]> = [
        [token(nobody, "reader", "a"), 1, "project_not_found"],
        [token(closed, "reader", "b"), 1, "project_disabled"],
        [[...token(project_id, "reader", "c"), "--scope", "tasks:write"], 1, "scope_not_allowed"],
        [token(project_id, "reader", "taken"), 1, "file_error"],
        [[...token(project_id, "reader", "d"), "--scope", "bridge:transport"], 64, "usage"],
        [["revoke-project-token", "--token", nobody], 1, "project_token_not_found"],
        [[...client, callback, "--application-type", "web"], 1, "redirect_uri_not_allowed"],
        [client.slice(0, 3), 64, "usage"],
        [["disable-oauth-client", "--client", `sci_${"0".repeat(49)}`], 1, "oauth_client_not_found"],
        [["disable-oauth-client", "--client", "https://claude.ai/a/../b"], 1, "oauth_client_not_found"],
        [["list-oauth-grants", "--project", nobody], 1, "project_not_found"],
        [["revoke-oauth-grant", "--grant", nobody], 1, "oauth_grant_not_found"]
      ]
      const ends = yield* Effect.forEach(expected, ([args]) => admin(...args, "--json"), { concurrency: 3 })
      assert.deepEqual(
        ends.map((ended, at) => [expected[at]![0][0], ...refusal(ended)]),
        expected.map(([[command], ...end]) => [command, ...end])
      )
      assert.strictEqual(readFileSync(join(within, "taken"), "utf8"), "mine")
      for (const name of ["a", "b", "c", "d"]) assert.isFalse(existsSync(join(within, name)), name)
    })
  )
})
