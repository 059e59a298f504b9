/** Operators from elsewhere: the endpoint, and service-admin with --service and with profiles. */
import { assert, describe, it, layer, vi } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Option, Redacted, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { commands } from "../../cli/commands/all.ts"
import { pathFlags } from "../../cli/support/Flags.ts"
import { argumentsOf, flagsOf } from "../../cli/support/remote/flags.ts"
import { call } from "../../cli/support/remote/call.ts"
import { served } from "../../cli/support/remote/Served.ts"
import { ServiceUrl } from "../../cli/support/remote/Target.ts"
import { RemoteUse } from "../../cli/support/remote/RemoteUse.ts"
import { Commands, type RemoteCommand } from "../../src/operator/Commands.ts"
import { OperatorTokens } from "../../src/operator/tokens/OperatorTokens.ts"
import { format } from "../../src/platform/crypto/Tokens.ts"
import { findSecret } from "../../src/platform/secrets/Secrets.ts"
import { command, makeOperatorToken } from "../support/people/Operator.ts"
import { makeToken } from "../support/agents/Agent.ts"
import { send } from "../support/network/Http.ts"
import { read } from "../support/run/Markdown.ts"
import { firstPage } from "../support/database/Page.ts"
import { packageRoot } from "../support/run/Root.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"
import { forAll } from "../support/run/Property.ts"
import { instance, Service } from "../support/service/Service.ts"
import { refusal, result, serviceAdmin } from "../support/service/ServiceAdmin.ts"
import { hasTerminals, typed } from "../support/service/Terminal.ts"

const usesOf = new Map<string, RemoteUse | undefined>(
  commands.map((one) => [one.name, Context.get(one.annotations, RemoteUse)])
)
const namesOf = (use: RemoteUse | undefined) => [...usesOf.keys()].filter((name) => usesOf.get(name) === use)
/** They need no service. */
const profileCommands = ["set-profile", "list-profiles", "remove-profile"]

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "elsewhere-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

/** Everything that a caller and the service say to each other, but for the token of the caller. Loses so many answers. */
const recorder = (target: string, losses = 0) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const recorded: Array<string> = []
      let left = losses
      const server = createServer(async (request, response) => {
        const { authorization = "", host: _, ...headers } = request.headers
        const body = Buffer.concat(await Array.fromAsync(request)).toString()
        recorded.push(request.url!, JSON.stringify(headers), body)
        const answer = await fetch(target + request.url, {
          method: "POST",
          headers: { authorization, "content-type": headers["content-type"]! },
          body
        })
        const text = await answer.text()
        recorded.push(text)
        if (left-- > 0) return void request.socket.destroy()
        response.writeHead(answer.status, { "content-type": "application/json" }).end(text)
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, recorded, server }
    }),
    ({ server }) => Effect.sync(() => server.close())
  )

/** service-admin on a machine without a service, whose home is a folder. */
const elsewhere =
  (home: string, env: Record<string, string> = {}) =>
  (...args: ReadonlyArray<string>) =>
    Effect.promise(
      () => serviceAdmin(args, { HOME: home, XDG_CONFIG_HOME: home, SERVICE_DATA_DIR: home, ...env }).ended
    )

const counted = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = 'public' order by 1`
  return yield* Effect.forEach(tables, ({ name }) =>
    Effect.map(
      sql.unsafe<{ rows: string }>(
        `select md5(coalesce(string_agg(t::text, '' order by t::text), '')) as rows from ${name} t`
      ),
      ([row]) => (name === "operator_token" ? "" : `${name} ${row!.rows}`)
    )
  )
})

const withCommands = Layer.effect(Service, instance({}, undefined, served)).pipe(Layer.provideMerge(TestDatabase.sql))

layer(withCommands)("the commands of an operator elsewhere", (it) => {
  it.effect("do a day's work and show no secret on the wire", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const home = yield* folder
      const { recorded, url } = yield* recorder(service.url)
      writeFileSync(join(home, "token"), yield* makeOperatorToken(service))
      const local = elsewhere(home)
      const set = ["set-profile", "--name", "shop", "--url", `${url}/`, "--token-file", join(home, "token")]
      assert.deepInclude(result(yield* local(...set, "--json")), { name: "shop", url, project: null })
      assert.strictEqual(statSync(join(home, "bridge-service/profiles.json")).mode & 0o777, 0o600)
      const run = elsewhere(home, { SERVICE_PROFILE: "shop" })
      const json = (...args: ReadonlyArray<string>) => Effect.map(run(...args, "--json"), result)

      const { project_id }: any = yield* json("create-project", "--name", "A day's work")
      assert.match((yield* run("list-bridges")).stdout, /create-bridge-enrollment-credential --account-reference/)
      yield* json("approve-account-reference", "--project", "A day's work", "--reference", "github:octo")
      yield* command(service, yield* makeOperatorToken(service), "create-project", { name: "Next door" })
      yield* json(...set, "--project", project_id)
      const issue = ["create-bridge-enrollment-credential", "--account-reference", "github:octo"]
      const credential: any = yield* json(...issue, "--out", join(home, "one"))
      const several: any = yield* json(...issue, "--count", "3", "--out-dir", join(home, "several"))
      const token: any = yield* json("create-project-token", "--role", "reader", "--out", join(home, "reader"))
      const listed: any = yield* json("list-bridge-enrollment-credentials")
      assert.sameMembers(
        listed.items.map(({ credential_id }: any) => credential_id),
        [credential, ...several.items].map(({ credential_id }: any) => credential_id)
      )
      assert.deepInclude(yield* json("revoke-project-token", "--token", token.token_id), { project_id })
      const { items }: any = yield* json("list-audit-events", "--project", project_id)
      const actors = new Set(items.map(({ actor }: any) => actor))
      assert.strictEqual(actors.size, 1)
      assert.match([...actors][0] as string, /^operator:Ada@token-[0-9a-f]{12}$/)

      const files = ["one", "reader", ...readdirSync(join(home, "several")).map((name) => join("several", name))]
      const secrets = files.map((name) => readFileSync(join(home, name), "utf8").trim())
      assert.strictEqual(secrets.length, 5)
      assert.deepStrictEqual([...new Set(secrets.map((secret) => findSecret(secret)))], ["sbe", "spt"])
      for (const secret of secrets) assert.notInclude(recorded.join("\n"), secret)
      assert.strictEqual(findSecret(recorded.join("\n")), undefined)
      const { sql } = { sql: yield* SqlClient.SqlClient }
      const [stored] = yield* sql`
        select sha256(${secrets[0]}::bytea) = credential_hash as same from bridge_enrollment_credential
         where credential_id = ${credential.credential_id}::uuid`
      assert.deepStrictEqual(stored, { same: true })
    })
  )

  it.effect("print for people what they print beside the database, with the next command for the same service", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const home = yield* folder
      const file = join(home, "token")
      writeFileSync(file, yield* makeOperatorToken(service, ["operator:read"]))
      const there = ["--service", service.url, "--operator-token-file", file]
      for (const name of ["First", "Second one"]) {
        yield* command(service, yield* makeOperatorToken(service), "create-project", { name })
      }
      const { code, stderr, stdout } = yield* elsewhere(home)("list-projects", "--limit", "1", ...there)
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.match(stdout, /^project_id +created_at/)
      assert.match(stdout, /\d{4}-\d\d-\d\dT[\d:.]+Z/)
      assert.match(
        stdout,
        new RegExp(`^Next: .*list-projects --limit 1 --after \\S+ --service ${service.url} --operator-token-file`, "m")
      )
      const channels = yield* elsewhere(home)("list-channels", "--project", "Second one", ...there)
      assert.include(
        channels.stdout,
        "Next, on the server: service-admin create-channel --project 'Second one' --kind ntfy --url URL\n"
      )
      const limits = yield* elsewhere(home)("show-project-limits", "--project", "First", ...there)
      assert.deepStrictEqual([limits.code, limits.stderr], [0, ""])
      assert.match(limits.stdout, /^tasks +0 /m)
      const all: any = result(yield* elsewhere(home)("list-projects", "--json", ...there))
      assert.isAtLeast(all.items.length, 2)
      const refused = yield* elsewhere(home)("create-project", "--name", "Third", ...there)
      assert.deepStrictEqual(
        [refused.code, refused.stderr],
        [1, "The operator token lacks operator:write, which this command needs.\n"]
      )
    })
  )

  it.effect("changes nothing with operator:read, whatever the command", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const reader = yield* makeOperatorToken(service, ["operator:read"])
      const before = yield* counted
      for (const name of namesOf("write")) {
        const { code, status } = yield* command(service, reader, name, { project: "any", yes: true })
        assert.deepStrictEqual([name, status, code], [name, 403, "insufficient_scope"])
      }
      assert.deepStrictEqual(yield* counted, before)
      assert.isAbove(namesOf("write").length, 25)
      for (const name of ["status", "list-projects", "push-status"]) {
        assert.strictEqual((yield* command(service, reader, name)).status, 200, name)
      }
    })
  )

  it.effect("is refused from the next request after its revocation, and at its end", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = Context.get(service.services, OperatorTokens)
      const status = (bearer: string) =>
        Effect.map(command(service, bearer, "status"), ({ code, status }) => [status, code])
      const revoked = yield* makeOperatorToken(service)
      const short = yield* makeOperatorToken(service, ["operator:read"], Duration.minutes(1))
      assert.deepStrictEqual(yield* status(revoked), [200, undefined])
      assert.deepStrictEqual(yield* status(short), [200, undefined])
      const all = yield* tokens.list(firstPage)
      const { token_id } = all.at(-2)!
      assert.isNotNull(all.at(-2)!.last_used_at)
      const sql = yield* SqlClient.SqlClient
      const audited = Effect.map(
        sql`select action from audit_event where subject ->> 'operator_token_id' = ${token_id} order by at`,
        (rows) => rows.map(({ action }) => action)
      )
      const { revoked_at } = yield* tokens.revoke(token_id)
      assert.deepStrictEqual(yield* audited, ["operator_token.issued", "operator_token.revoked"])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* tokens.revoke(token_id), { revoked_at })
      assert.deepStrictEqual(yield* status(revoked), [401, "unauthorized"])
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* status(short), [401, "unauthorized"])
      const { token } = yield* makeToken(service)
      for (const bearer of [token, "sop_nonsense", ""])
        assert.deepStrictEqual(yield* status(bearer), [401, "unauthorized"])
      assert.lengthOf(yield* audited, 2)
    })
  )

  it.effect("runs neither what is local nor what names a file", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bearer = yield* makeOperatorToken(service)
      for (const name of [...namesOf(undefined), ...profileCommands]) {
        const { code, status } = yield* command(service, bearer, name)
        assert.deepStrictEqual([name, status, code], [name, 409, "operator_command_is_local"])
      }
      const unknown = yield* command(service, bearer, "make-coffee")
      assert.deepStrictEqual([unknown.status, unknown.code], [404, "operator_command_not_found"])
      const file = join(yield* folder, "file")
      const refusesFlag = Effect.fnUntraced(function* (name: string, flag: string) {
        const { body } = yield* command(service, bearer, name, { [flag]: file })
        assert.deepStrictEqual(body, {
          error: { code: "invalid_request", message: `--${flag} is for the caller's own machine.` }
        })
      })
      for (const name of [...namesOf("read"), ...namesOf("write")]) yield* refusesFlag(name, "out")
      for (const flag of [...pathFlags, "service", "profile"]) yield* refusesFlag("list-projects", flag)
      assert.isFalse(existsSync(file))
    })
  )

  it.effect("are refused with the command's own code, or with the sentence of the flag", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bearer = yield* makeOperatorToken(service)
      const ask = (name: string, flags: object | string) =>
        Effect.map(command(service, bearer, name, flags as object), ({ body, code, status }) => [
          status,
          code,
          body?.error?.message
        ])
      assert.deepStrictEqual(yield* ask("list-bridges", { project: "00000000-0000-7000-8000-000000000000" }), [
        404,
        "project_not_found",
        "There is no such project; see list-projects."
      ])
      assert.deepStrictEqual((yield* ask("revoke-project-token", { token: "abcd" })).slice(0, 2), [409, "id_not_found"])
      assert.deepStrictEqual(yield* ask("list-projects", { limit: "many" }), [
        400,
        "invalid_request",
        "--limit: expected a whole number from 1 to 1000."
      ])
      assert.deepStrictEqual((yield* ask("list-projects", { colour: true })).slice(0, 2), [400, "invalid_request"])
      for (const body of ["[]", "7", "{", `{"limit":{}}`, `{"LIMIT":1}`, `{"--limit":1}`, `{"limit\\n":1}`]) {
        assert.deepStrictEqual((yield* ask("list-projects", body)).slice(0, 2), [400, "invalid_request"], body)
      }
      assert.deepStrictEqual((yield* ask("list-projects", { after: "x".repeat(20_000) })).slice(0, 2), [
        413,
        "payload_too_large"
      ])
      // A loop without an end is for a terminal.
      assert.strictEqual((yield* command(service, bearer, "status", { watch: true })).status, 200)
    })
  )

  it.effect("issue a secret once, however often its hash is sent", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bearer = yield* makeOperatorToken(service)
      const { body: project } = yield* command(service, bearer, "create-project", { name: "Repeats" })
      const minted = `01990000-0000-7000-8000-00000000abcd:${"ab".repeat(32)}`
      const issue = command(service, bearer, "create-project-token", {
        project: project.project_id,
        role: "reader",
        minted
      })
      const first = yield* issue
      assert.deepStrictEqual([first.status, first.headers.get("cache-control")], [200, "no-store"])
      assert.deepStrictEqual((yield* issue).body, first.body)
      const { body: list } = yield* command(service, bearer, "list-project-tokens", { project: project.project_id })
      assert.strictEqual(list.items.length, 1)
    })
  )

  it.effect("are repeated when their answer is lost, and make one thing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const home = yield* folder
      writeFileSync(join(home, "token"), yield* makeOperatorToken(service))
      const run = Effect.fnUntraced(function* (losses: number, ...args: ReadonlyArray<string>) {
        const { recorded, url } = yield* recorder(service.url, losses)
        const ended = yield* elsewhere(home)(
          ...args,
          "--service",
          url,
          "--operator-token-file",
          join(home, "token"),
          "--json"
        )
        assert.strictEqual(recorded.filter((line) => line.startsWith("/operator")).length, Math.min(losses + 1, 3))
        return ended
      })
      const { project_id: other } = (yield* command(
        service,
        readFileSync(join(home, "token"), "utf8"),
        "create-project",
        { name: "Another" }
      )).body
      const create = ["create-project", "--name", "Answered late"]
      const lost = join(home, "lost")
      const [{ stderr }, token] = yield* Effect.all(
        [run(3, ...create), run(3, "create-project-token", "--project", other, "--role", "reader", "--out", lost)],
        { concurrency: 2 }
      )
      const [, id = ""] = /with --id ([0-9a-f-]{36}) it can be repeated/.exec(stderr) ?? []
      const [row] = yield* sql`select token_id from project_token where project_id = ${other}::uuid`
      assert.include(token.stderr, `If the list then shows ${row!["token_id"]}, revoke it`)
      assert.isFalse(existsSync(lost))
      assert.deepStrictEqual(result(yield* run(0, ...create, "--id", id)), { project_id: id, name: "Answered late" })
      const made = yield* Effect.all(
        [
          run(1, "create-oauth-client", "--name", "Answered late", "--redirect-uri", "http://localhost/callback"),
          run(1, "create-project-token", "--project", id, "--role", "reader", "--out", join(home, "reader")),
          run(1, "rotate-web-push-key")
        ],
        { concurrency: 3 }
      )
      const [{ client_id }, { token_id }] = made.map(result) as [any, any, any]
      const counts = yield* sql`
        select (select count(*)::int from project where name = 'Answered late') as projects,
               (select count(*)::int from oauth_client where name = 'Answered late') as clients,
               (select count(*)::int from project_token where project_id = ${id}::uuid) as tokens,
               (select count(*)::int from web_push_key) as keys,
               (select count(*)::int from audit_event
                 where action in ('project.created', 'oauth_client.created', 'project_token.issued')
                   and subject::text ~ ${`${id}|${client_id}|${token_id}`}) as events`
      assert.deepStrictEqual(counts, [{ projects: 1, clients: 1, tokens: 1, keys: 1, events: 3 }])
    })
  )

  it.effect("do not follow a redirect with the token", () =>
    Effect.gen(function* () {
      const { recorded, url } = yield* recorder("http://127.0.0.1:1")
      const moved = yield* Effect.acquireRelease(
        Effect.callback<Server>((resume) => {
          const server = createServer((_, response) => response.writeHead(307, { location: url }).end())
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close())
      )
      const origin = `http://127.0.0.1:${(moved.address() as AddressInfo).port}`
      const target = { origin, token: Redacted.make("sop_x"), project: undefined }
      const sent = yield* Effect.forkChild(Effect.flip(call(target, "status", {})))
      while (sent.pollUnsafe() === undefined)
        yield* Effect.andThen(TestClock.withLive(Effect.sleep("5 millis")), TestClock.adjust("1 second"))
      assert.match((yield* Fiber.join(sent)).message, /^No answer from /)
      assert.deepStrictEqual(recorded, [])
    })
  )

  it.effect("say that the token is not accepted", () =>
    Effect.gen(function* () {
      const { url: origin } = yield* Service
      const token = format("sop", new Uint8Array(32).fill(7))
      const { message } = yield* Effect.flip(call({ origin, token, project: undefined }, "status", {}))
      assert.include(message, `${origin} does not accept the operator token`)
    })
  )

  it.effect("show first what they are about to end, and ask where they were called", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bearer = yield* makeOperatorToken(service)
      const { token_id } = yield* makeToken(service)
      const isRevoked = Effect.map(
        Effect.flatMap(
          SqlClient.SqlClient,
          (sql) => sql`select from project_token where token_id = ${token_id}::uuid and revoked_at is not null`
        ),
        ({ length }) => length === 1
      )
      const { body } = yield* command(service, bearer, "revoke-project-token", { token: token_id, "dry-run": true })
      assert.deepInclude(body, { dry_run: true, token_id, revoked_at: null })
      const purge = { project: body.project_id, entry: token_id }
      const { status } = yield* command(service, bearer, "purge-memory", purge)
      assert.strictEqual(status, 400)
      if (!hasTerminals) return
      const home = yield* folder
      const file = join(home, "token")
      writeFileSync(file, bearer)
      const args = [
        "revoke-project-token",
        "--token",
        token_id,
        "--service",
        service.url,
        "--operator-token-file",
        file
      ]
      const program = join(packageRoot, "cli/service-admin.mjs")
      const there = { program: process.execPath, args: [program, ...args], env: { HOME: home } }
      const refused = yield* Effect.promise(() => typed("n\n", there))
      assert.match(refused.shown, /revoke-project-token is about to end:[^]*sign_ins +0/)
      assert.deepStrictEqual([refused.code, yield* isRevoked], [1, false])
      assert.strictEqual((yield* Effect.promise(() => typed("y\n", there))).code, 0)
      assert.isTrue(yield* isRevoked)
    })
  )

  it.effect("stay here if they cannot run there, and say why", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const home = yield* folder
      const run = elsewhere(home)
      const file = join(home, "token")
      writeFileSync(file, yield* makeOperatorToken(service))
      const of = (...args: ReadonlyArray<string>) =>
        Effect.map(run(...args, "--json"), (ended) => {
          const [code] = refusal(ended)
          return { code, ...JSON.parse(ended.stderr).error }
        })
      const there = ["--service", service.url, "--operator-token-file", file]
      assert.deepInclude(yield* of("migrate", ...there), { code: "operator_command_is_local" })
      assert.deepInclude(yield* of("list-projects", "--profile", "none"), { code: "target_error" })
      assert.deepInclude(yield* of("list-projects", "--service", service.url), { code: "target_error" })
      assert.deepInclude(yield* of("list-projects", ...there, "--profile", "x"), { code: "target_error" })
      const many = ["create-bridge-enrollment-credential", "--project", "Harbour", "--account-reference", "github:octo"]
      assert.deepInclude(yield* of(...many, "--count", "101", "--out-dir", join(home, "many"), ...there), {
        code: "too_many"
      })
      const plain = ["--service", "http://bridges.example.com", "--operator-token-file", file]
      assert.deepInclude(yield* of("list-projects", ...plain), { code: "target_error" })
      const away = yield* of(
        "create-project",
        "--name",
        "x",
        "--service",
        "http://127.0.0.1:1",
        "--operator-token-file",
        file
      )
      assert.match(away.message, /^No answer from http:\/\/127\.0\.0\.1:1: .*is not done twice\.$/)
      writeFileSync(file, "spt_wrong")
      const shop = { url: service.url, token_file: "/nowhere", project: null }
      mkdirSync(join(home, "bridge-service"))
      writeFileSync(join(home, "bridge-service/profiles.json"), JSON.stringify({ shop }))
      assert.deepInclude(yield* of("list-projects", "--profile", "shop", "--operator-token-file", file), {
        message: `${file} does not hold an operator token.`
      })
      assert.deepInclude(yield* of("remove-profile", "--name", "none"), { code: "profile_not_found" })
    })
  )
})

/** An instance whose every command does as `run` says. */
const only = (run: RemoteCommand["run"], settings: Readonly<Record<string, string>> = {}) =>
  instance(settings, undefined, Layer.succeed(Commands, { find: () => ({ scope: "operator:read", run }) }))

layer(withCommands)("the endpoint of an operator elsewhere", (it) => {
  it.effect("runs four commands at once, and gives each a minute", () =>
    Effect.gen(function* () {
      let running = 0
      const on = yield* only(({ waits }) =>
        waits
          ? Effect.andThen(
              Effect.sync(() => running++),
              Effect.never
            )
          : Effect.succeed("{}")
      )
      const bearer = yield* makeOperatorToken(on)
      const waiting = yield* Effect.forEach([1, 2, 3, 4], () =>
        Effect.forkChild(command(on, bearer, "any", { waits: true }))
      )
      yield* Effect.promise(() => vi.waitUntil(() => running === 4, 20_000))
      const fifth = yield* command(on, bearer, "any")
      assert.deepStrictEqual([fifth.status, fifth.code, fifth.headers.get("retry-after")], [429, "rate_limited", "1"])
      yield* TestClock.adjust("1 minute")
      for (const fiber of waiting) assert.strictEqual((yield* Fiber.join(fiber)).code, "bridge_persistence_error")
      assert.strictEqual((yield* command(on, bearer, "any")).status, 200)
    })
  )

  it.effect("takes JSON only, and 100 requests of a token at once", () =>
    Effect.gen(function* () {
      const on = yield* only(() => Effect.succeed("{}"), { SERVICE_RATE_LIMITS: "on" })
      const bearer = yield* makeOperatorToken(on)
      const text = yield* send(`${on.url}/operator/v1/commands/any`, {
        bearer,
        headers: { "content-type": "text/plain" },
        body: "{}"
      })
      assert.deepStrictEqual([text.status, text.code], [415, "unsupported_media_type"])
      const answers = yield* Effect.replicateEffect(command(on, bearer, "any"), 100)
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [...Array.from({ length: 99 }, () => 200), 429]
      )
      assert.strictEqual((yield* command(on, yield* makeOperatorToken(on), "any")).status, 200)
      // Five more each second.
      yield* TestClock.adjust("1 second")
      const more = yield* Effect.replicateEffect(command(on, bearer, "any"), 6)
      assert.deepStrictEqual(
        more.map(({ status }) => status),
        [200, 200, 200, 200, 200, 429]
      )
      yield* TestClock.adjust("1 second")
      for (const [type, status] of [
        ["application/json; charset=utf-8", 200],
        ["application/jsonp", 415]
      ] as const) {
        const headers = { "content-type": type }
        const url = `${on.url}/operator/v1/commands/any`
        assert.strictEqual((yield* send(url, { bearer, headers, body: "{}" })).status, status, type)
      }
    })
  )
})

describe("a command that is sent", () => {
  const origin = "https://bridges.example"
  const settled = Effect.repeat(TestClock.withLive(Effect.sleep("1 millis")), { times: 10 })
  /** The command under way, and how often it was sent so far. */
  const sent = Effect.fnUntraced(function* (
    answer: () => Response | Promise<Response>,
    flags: Parameters<typeof call>[2] = {}
  ) {
    let times = 0
    vi.stubGlobal("fetch", async () => (times++, answer()))
    yield* Effect.addFinalizer(() => Effect.sync(() => vi.unstubAllGlobals()))
    const target = { origin, token: Redacted.make("sop_x"), project: undefined }
    const ended = yield* Effect.forkChild(Effect.result(call(target, "status", flags)))
    yield* settled
    return { ended, times: () => times }
  })
  const failureOf = <A, E>(ended: Fiber.Fiber<Result.Result<A, E>>) =>
    Effect.map(Fiber.join(ended), (outcome) => Option.getOrThrow(Result.getFailure(outcome)))
  const lost = () =>
    Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNRESET" }) }))

  it.effect("has 70 seconds, and is not sent again after them", () =>
    Effect.gen(function* () {
      const { ended, times } = yield* sent(() => new Promise(() => {}))
      yield* TestClock.adjust("69999 millis")
      assert.isUndefined(ended.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { message } = yield* failureOf(ended)
      const may = "It may have been carried out, and can be repeated."
      assert.strictEqual(message, `No answer from ${origin}: none within 70 seconds. ${may}`)
      assert.strictEqual(times(), 1)
    })
  )

  it.effect("is sent three times, a second apart, if its answer is lost", () =>
    Effect.gen(function* () {
      const { ended, times } = yield* sent(lost, { id: "7" })
      const counts = [times()]
      for (const wait of ["999 millis", "1 millis", "1 second", "1 minute"] as const) {
        yield* Effect.andThen(TestClock.adjust(wait), settled)
        counts.push(times())
      }
      assert.deepStrictEqual(counts, [1, 1, 2, 3, 3])
      const { message } = yield* failureOf(ended)
      assert.include(message, `No answer from ${origin}: ECONNRESET. `)
      assert.include(message, "with --id 7 it can be repeated")
    })
  )

  it.effect.each([
    [["a:x"], "shows a, revoke it"],
    [["a:x", "b:x", "c:x"], "shows a, b, c, revoke it"],
    [["a:x", "b:x", "c:x", "d:x", "e:x"], "shows a, b, c and 2 more, revoke it"]
  ] as const)("with secrets that were made here, %j, says which ones nobody has: %s", ([minted, message]) =>
    Effect.gen(function* () {
      const { ended } = yield* sent(lost, { minted: [...minted] })
      yield* Effect.replicateEffect(Effect.andThen(TestClock.adjust("1 second"), settled), 2)
      assert.include((yield* failureOf(ended)).message, message)
    })
  )

  it.effect.each([
    [400, { error: { code: "project_not_found", message: "m" } }, 1, "m"],
    [500, { error: { code: "internal_error", message: "m" } }, 1, "m"],
    [401, { error: { code: "unauthorized", message: "m" } }, 1, "does not accept the operator token"],
    [403, { error: { code: "insufficient_scope", message: "m" } }, 1, "lacks operator:write"],
    [502, { error: "a proxy's" }, 3, "status 502, and not from Bridge Service"]
  ] as const)("and answered with %i and %j, is sent so often: %i; it says: %s", ([status, body, count, message]) =>
    Effect.gen(function* () {
      const { ended, times } = yield* sent(() => Response.json(body, { status }))
      yield* Effect.replicateEffect(Effect.andThen(TestClock.adjust("1 second"), settled), 2)
      assert.include((yield* failureOf(ended)).message, message)
      assert.strictEqual(times(), count)
    })
  )

  it.effect("has instants in its result, as the command itself", () =>
    Effect.gen(function* () {
      const { ended } = yield* sent(() => Response.json({ at: "2026-11-23T00:00:00.000Z", name: "2026-11-23" }))
      const output = Result.getOrThrow(yield* Fiber.join(ended))
      assert.deepStrictEqual(output, { at: new Date("2026-11-23T00:00:00Z"), name: "2026-11-23" })
    })
  )
})

describe("the flags of a command as JSON", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/)
  const value = fc.oneof(fc.string(), fc.array(fc.string(), { minLength: 2, maxLength: 3 }))
  it.effect("come back from the arguments that they make", () =>
    forAll(fc.dictionary(name, value), (flags) =>
      Effect.sync(() => assert.deepStrictEqual(flagsOf(argumentsOf(flags)), { ...flags }))
    )
  )
})

describe("the address of a service", () => {
  const isAddress = Schema.is(ServiceUrl)
  it.each([
    "https://bridges.example.com",
    "https://bridges.example.com:8443/",
    "http://127.0.0.1:8787",
    "http://127.255.0.9",
    "http://localhost:8787",
    "http://[::1]"
  ])("may be %s", (url) => assert.isTrue(isAddress(url)))
  it.each([
    "http://bridges.example.com",
    "http://127.0.0.1.example.com",
    "http://localhost.example.com",
    "http://128.0.0.1",
    "https://me@bridges.example.com",
    "https://bridges.example.com/shop",
    "https://bridges.example.com/?shop",
    "ftp://127.0.0.1",
    "shop"
  ])("may not be %s", (url) => assert.isFalse(isAddress(url)))
})

describe("docs/reference.md", () => {
  it("names exactly the commands that run only where the database is", () => {
    const [, sentence = ""] = /These run only where the database is: ([^.]*)\./.exec(read("docs/reference.md")) ?? []
    const local = namesOf(undefined).filter((name) => !profileCommands.includes(name))
    assert.sameMembers(
      [...sentence.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
      local
    )
  })
})
