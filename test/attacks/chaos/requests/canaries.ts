/**
 * Runs every flow with marked secrets, at the finest log level and with every kind of failure, then searches every
 * place for every secret in every form.
 *
 * A secret may be in `secrets.env` in the data folder (the server's secrets), the files that a command writes on
 * request, the answer that hands a secret to its owner, a browser's cookie and form, and the path of a request to Apple (the
 * push token). The memory of a running process is not searched: it must hold them.
 */
import { Context, Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes, randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { Projects } from "../../../../src/operator/projects/Projects.ts"
import {
  authorizeQuery,
  Browser,
  answerOf,
  exchange,
  hiddenFields,
  makeClient,
  makeToken,
  pkce,
  post,
  refresh
} from "../../../support/agents/Agent.ts"
import { apnsSimulator, settingsFor } from "../../../support/phones/ApnsSimulator.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { type Places, search, utf8 } from "../../../support/secrets/Canaries.ts"
import { type Answer, type Ask, send } from "../../../support/network/Http.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { everything, makePhone } from "../../../support/phones/Phone.ts"
import { allRows } from "../../../support/database/Rows.ts"
import { planted } from "../../../support/secrets/Planted.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { admin, beside, chaos, freePort, scratch, server, size, until } from "../harness.ts"

const found: Array<string> = []
/** One of each form, as it is. */
const forms = planted(new Date()).filter(({ secret, text }) => secret === text)
const others = forms.filter((_, index) => index % size(1, 5) === 0)

/** A collector that stores everything it receives. */
const collector = Effect.acquireRelease(
  Effect.promise(async () => {
    const bodies: Array<Buffer> = []
    const listening = createServer((request, response) => {
      request.on("data", (chunk: Buffer) => bodies.push(chunk))
      request.on("end", () => response.end("{}"))
    }).listen(0, "127.0.0.1")
    await new Promise((resolve) => listening.once("listening", resolve))
    return { bodies, listening, url: `http://127.0.0.1:${(listening.address() as AddressInfo).port}` }
  }),
  ({ listening }) => Effect.sync(() => listening.close())
)

chaos(
  "canaries",
  () => ({ found: found.length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    // The first start is searched, too: it makes the server's secrets.
    fs.mkdirSync(join(folder, "data"), { mode: 0o711 })
    const simulator = yield* apnsSimulator()
    const otlp = yield* collector
    const metrics = yield* freePort
    const [pushKey, lookupKey] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")]
    const settings = {
      ...settingsFor(simulator, folder),
      SERVICE_LOG_LEVEL: "All",
      SERVICE_METRICS_PORT: String(metrics),
      SERVICE_OTLP_URL: otlp.url,
      SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on",
      SERVICE_PUSH_TOKEN_KEYS: `k1:${pushKey}`,
      SERVICE_PUSH_LOOKUP_KEY: lookupKey
    }
    const secrets: Record<string, Uint8Array> = {
      "key of push tokens": Buffer.from(pushKey, "base64"),
      "key of push tokens as text": utf8(pushKey),
      "lookup key": utf8(lookupKey),
      "key for Apple": utf8(simulator.key.split("\n").slice(1, -2).join("\n"))
    }
    const answered: Record<string, Array<string>> = {
      "error answers": [],
      "results of tools": [],
      "answers of devices": [],
      commands: [],
      pages: []
    }
    // A public mark that every place contains, so that an empty or unread place is noticed.
    const mark = `canary-${randomUUID()}`
    // A longer mark in a path would be cut.
    const short = mark.slice(0, 20)

    const beyond = yield* Effect.scoped(
      Effect.gen(function* () {
        const { output, url } = yield* server(folder, settings)
        const on = yield* beside(folder, { url }, settings)
        const { sql } = on
        const keep = (place: string, answer: Effect.Effect<Answer>) =>
          Effect.tap(answer, ({ headers, status, text }) =>
            Effect.sync(() => {
              if (status >= 400) answered["error answers"]!.push(JSON.stringify([...headers]), text)
              if (place !== "") answered[place]!.push(text)
            })
          )
        /** A step that later steps depend on. */
        const good = (answer: Effect.Effect<Answer>) =>
          Effect.tap(answer, ({ status, text }) => (status < 300 ? Effect.void : Effect.die(`${status} ${text}`)))
        const ask = (path: string, asked: Ask) => keep("", send(`${url}${path}`, asked))
        const operate = (...args: ReadonlyArray<string>) =>
          admin(folder, ...args).pipe(
            Effect.tap((result) => Effect.sync(() => answered["commands"]!.push(JSON.stringify(result)))),
            Effect.tapError(({ message }) => Effect.sync(() => answered["commands"]!.push(message)))
          )
        const { project_id } = yield* Context.get(on.services, Projects).create(mark)
        yield* Context.get(on.services, Projects).approveReference(project_id, "github:octo", Option.none())
        const projectToken = (yield* makeToken(on, { project_id })).token

        // A Bridge: enrolled, asked again, refused, rotated, revoked.
        const bridge = yield* Bridge.make(on, { project_id, bridge_id: mark })
        const { credential } = bridge
        const challenge = yield* good(bridge.askChallenge(on))
        const proof = yield* bridge.proofBody(challenge)
        const token: string = (yield* good(bridge.prove(on, challenge))).body.access_token
        yield* bridge.prove(on, challenge)
        const { confirm, prepare, self, ...held } = tokens(on)
        const prepared = yield* good(prepare(token))
        const successor: string = prepared.body.successor_token
        yield* keep("", good(held.abort(successor, prepared.body.rotation_id)))
        const again = yield* good(prepare(token, "bridge-rotate-2"))
        const next: string = again.body.successor_token
        yield* keep("", good(confirm(next, again.body.rotation_id)))
        yield* keep("", self(token))
        const stray = { "user-agent": `curl ${credential}`, "x-forwarded-for": token, cookie: `t=${token}` }
        const proofs = "/bridge/v1/enrollment/proofs"
        for (const body of [
          { ...proof, challenge_id: token },
          JSON.stringify(proof).slice(0, -2),
          { ...proof, [token]: credential },
          { ...proof, public_key_b64: proof.signature_b64 },
          { ...proof, signature_b64: Buffer.alloc(64).toString("base64url") }
        ]) {
          yield* ask(proofs, { key: credential, headers: stray, body })
        }
        yield* ask(`/bridge/v1/${token}?token=${credential}&mark=${mark}`, { method: "GET", headers: stray })
        yield* ask(`/${short}`, { method: "GET", headers: stray })

        // An agent signs in, refreshes, reuses a refresh token, and is revoked.
        const client_id = yield* makeClient(on)
        const { challenge: code_challenge, verifier } = pkce()
        const browser = new Browser(url)
        const page = yield* browser.authorize(authorizeQuery({ client_id, code_challenge }))
        const wrong = yield* browser.submit(page, { project_token: credential })
        const shown = yield* browser.submit(page, { project_token: projectToken })
        answered["pages"]!.push(page.text, wrong.text, shown.text)
        const { code = "" } = answerOf(yield* browser.submit(shown, { decision: "allow" }))
        const { body: first } = yield* good(exchange(on, { client_id, code, code_verifier: verifier }))
        const { body: second } = yield* good(refresh(on, { client_id, refresh_token: first.refresh_token }))
        for (const fields of [
          { grant_type: "refresh_token", client_id: second.refresh_token, refresh_token: first.refresh_token },
          { grant_type: "authorization_code", client_id, code, code_verifier: code },
          { grant_type: second.access_token, client_id, refresh_token: second.refresh_token },
          { grant_type: "refresh_token", client_id, refresh_token: second.refresh_token, scope: projectToken }
        ]) {
          yield* keep("", post(`${url}/token`, fields))
        }
        yield* keep("", send(`${url}/authorize?client_id=${projectToken}&state=${code}`, { method: "GET" }))
        yield* keep(
          "",
          send(`${url}/register`, { body: { redirect_uris: [`https://x/${token}`], client_name: token } })
        )

        // Secrets that an agent must never send, in every parameter.
        const serverIdentity = yield* new Agent({
          url,
          token: projectToken,
          project_id,
          write_context: undefined as never
        }).call("server_identity")
        const agent = new Agent({
          url,
          token: projectToken,
          project_id,
          write_context: serverIdentity.output.write_context
        })
        const call = (name: string, given: object) =>
          keep(
            "results of tools",
            Effect.map(agent.write(name, given as never), ({ answer }) => answer)
          )
        yield* call("memory_add", { kind: "note", body: mark })
        for (const leak of [credential, token, next, projectToken, first.access_token, second.refresh_token, code]) {
          yield* call("memory_add", { kind: "note", body: `the token is ${leak}` })
          yield* call("memory_add", { kind: "note", body: "x", tags: [leak], idempotency_key: leak })
          yield* call("task_create", { title: leak, [leak]: 1 })
          yield* call("memory_search", { query: leak, cursor: leak })
          yield* call("task_get", { id: leak })
          yield* call("memory_add", {
            kind: "note",
            body: "x",
            write_context: { ...serverIdentity.output.write_context, resource: leak }
          })
          yield* keep("", agent.post("tools/list", {}, { "mcp-protocol-version": leak, origin: `https://${leak}` }))
          yield* keep("", send(`${url}/mcp`, { bearer: `${leak}x`, body: {} }))
        }

        // Secrets of others, at every door: as they are, encoded, and cut in two.
        for (const [index, { kind, secret }] of others.entries()) {
          const [head, rest] = [secret.slice(0, secret.length / 2), secret.slice(secret.length / 2)]
          yield* call("memory_add", { kind: "note", title: secret.slice(0, 150), body: `It is ${secret}.` })
          yield* call("memory_add", { kind: "note", body: `${head}`, session_ref: rest.slice(0, 100), tags: [rest] })
          yield* call("task_create", { title: "T", body: `key: ${Buffer.from(secret).toString("base64")}` })
          yield* call("task_create", { title: "T", body: encodeURIComponent(secret), tags: [secret] })
          yield* call("task_create_many", {
            tasks: [
              { title: "T", body: head },
              { title: rest.slice(0, 150), body: rest }
            ]
          })
          yield* keep("", send(`${url}/register`, { body: { redirect_uris: ["https://x/"], client_name: secret } }))
          const named = yield* Bridge.make(on, { project_id })
          yield* keep("", named.askChallenge(on, { body: { display_name: secret.slice(0, 150) } }))
          yield* Effect.ignore(operate("create-project", "--name", secret))
          secrets[`${kind} of others ${index}`] = utf8(secret)
        }

        // A phone is notified and signs out.
        const app = yield* makeClient(on, { scopes: ["mobile:devices", "tasks:read"] })
        const onPhone = pkce()
        const phoneBrowser = new Browser(url)
        const scope = "mobile:devices tasks:read"
        const asked = authorizeQuery({ client_id: app, code_challenge: onPhone.challenge, scope })
        const phoneCode = answerOf(yield* phoneBrowser.consent(asked, projectToken))["code"]
        const { body: signedIn } = yield* good(
          exchange(on, {
            client_id: app,
            code: phoneCode,
            code_verifier: onPhone.verifier
          })
        )
        const phone = makePhone(on, { bearer: signedIn.access_token })
        const device = yield* keep("answers of devices", good(phone.register({ preferences: everything })))
        const { device_id } = device.body
        const task = yield* agent.task(`blocked ${mark}`)
        yield* call("task_update", {
          id: task.id,
          expected_version: 1,
          status: "blocked",
          blocked_reason: "x",
          blocked_kind: "decision"
        })
        yield* until("a notification", () => simulator.received.length > 0)
        yield* keep("answers of devices", phone.get(device_id))
        yield* keep("answers of devices", phone.prefer(device_id, { ...everything, [phone.token]: phone.token }))
        yield* keep("answers of devices", phone.register({ push: { environment: phone.token } }))
        yield* keep("answers of devices", phone.get(phone.token))
        yield* keep("answers of devices", phone.revoke(device_id))

        // Statements that fail: an SQL error, a deadlock, a constraint violation, a terminated session.
        const other = yield* Bridge.make(on, { project_id })
        const otherChallenge = yield* good(other.askChallenge(on))
        const broken = (how: string, table: string, during: Effect.Effect<unknown>) =>
          Effect.acquireUseRelease(
            Effect.andThen(
              sql.unsafe(
                `create function broken() returns trigger language plpgsql as $$ begin ${how}; return new; end $$`
              ),
              sql.unsafe(
                `create trigger broken before insert or update on ${table} for each row execute function broken()`
              )
            ),
            () => during,
            () => sql.unsafe("drop function broken() cascade")
          )
        const failing = Effect.all(
          [
            keep("", other.prove(on, otherChallenge)),
            keep("", prepare(next, "bridge-rotate-3")),
            call("memory_add", { kind: "note", body: "fails" }),
            keep("", refresh(on, { client_id, refresh_token: second.refresh_token }))
          ],
          { discard: true }
        )
        for (const [how, table] of [
          ["execute 'selec ' || quote_literal(new.token_hash::text)", "bridge_token"],
          ["raise 'token %', new.token_hash using errcode = '40P01'", "bridge_token"],
          ["raise 'broken %', new using errcode = '23514'", "memory_entry"],
          ["perform pg_terminate_backend(pg_backend_pid())", "bridge_token"]
        ] as const) {
          yield* broken(how, table, failing)
        }
        yield* keep("", other.prove(on, otherChallenge))

        const statements = yield* sql`select string_agg(query, ' ') as text from pg_stat_activity`
        answered["commands"]!.push(JSON.stringify(statements))
        const [credentialFile, tokenFile] = [join(folder, "credential"), join(folder, "token")]
        const order = ["--project", project_id, "--account-reference", "github:octo", "--out", credentialFile]
        yield* operate("create-bridge-enrollment-credential", ...order)
        yield* Effect.all(
          [
            operate("list-audit-events", "--project", project_id),
            operate("backup-database", "--out", join(folder, "backup")),
            ...[
              operate("create-bridge-enrollment-credential", ...order),
              operate("create-project-token", "--project", project_id, "--role", "reader", "--out", tokenFile),
              operate("revoke-project-token", "--token", "no-uuid"),
              operate("show-bridge", "--project", project_id, "--bridge", mark),
              operate("list-devices", "--project", project_id),
              operate("list-oauth-grants", "--project", project_id),
              operate("status"),
              operate("revoke-bridge", "--project", project_id, "--bridge", mark)
            ].slice(0, size(8, 2))
          ].map((one) => Effect.ignore(one)),
          { concurrency: 2 }
        )
        yield* keep("", self(next))
        const text = (address: string) => Effect.promise(async () => utf8(await (await fetch(address)).text()))

        Object.assign(secrets, {
          "bootstrap credential": utf8(credential),
          "bootstrap credential of another": utf8(other.credential),
          nonce: Buffer.from(proof.nonce_b64, "base64url"),
          signature: Buffer.from(proof.signature_b64, "base64url"),
          "private key": Redacted.value(bridge.keys.privateKey),
          "Bridge token": utf8(token),
          "aborted successor": utf8(successor),
          successor: utf8(next),
          "project token": utf8(projectToken),
          code: utf8(code),
          verifier: utf8(verifier),
          ...Object.fromEntries([...browser.cookies].map(([name, value]) => [`cookie ${name}`, utf8(value)])),
          csrf: utf8(hiddenFields(page)["csrf"] ?? ""),
          "access token": utf8(first.access_token),
          "refreshed access token": utf8(second.access_token),
          "refresh token": utf8(first.refresh_token),
          "second refresh token": utf8(second.refresh_token),
          "phone's access token": utf8(signedIn.access_token),
          "push token": utf8(phone.token),
          "push token as bytes": Buffer.from(phone.token, "hex"),
          "credential in its file": fs.readFileSync(credentialFile).subarray(0, 53),
          "project token in its file": fs.readFileSync(tokenFile).subarray(0, 53)
        })
        for (const [name, value] of fs
          .readFileSync(join(folder, "data", "secrets.env"), "utf8")
          .split("\n")
          .flatMap((line) => (line.includes("=") && !line.startsWith("#") ? [line.split(/=(.*)/s)] : []))) {
          secrets[name!] = utf8(value!.replaceAll('"', ""))
        }
        return {
          output,
          metrics: yield* text(`http://127.0.0.1:${metrics}/metrics`),
          contract: yield* text(`${url}/openapi.json`)
        }
      })
    ).pipe(Effect.orDie)

    // The server has ended and flushed its output; the database keeps running so that its files can be searched.
    const on = yield* beside(folder, { url: "http://127.0.0.1" }, settings)
    const rows = yield* Effect.provideContext(allRows, Context.make(SqlClient.SqlClient, on.sql)).pipe(Effect.orDie)
    yield* Effect.orDie(on.sql.unsafe("checkpoint").unprepared)
    const [at] = yield* Effect.orDie(on.sql<{ readonly directory: string }>`
      select current_setting('data_directory') as directory`)
    const filesIn = (path: string) =>
      fs
        .readdirSync(join(at!.directory, path), { recursive: true, encoding: "utf8" })
        .map((name) => join(at!.directory, path, name))
        .filter((file) => fs.statSync(file).isFile())
    const contents = (files: ReadonlyArray<string>) => Buffer.concat(files.map((file) => fs.readFileSync(file)))

    const places: Places = {
      rows: utf8(JSON.stringify(rows)),
      "files of the tables": contents(filesIn("base")),
      "files of the cluster": contents([...filesIn("global"), ...filesIn("pg_xact")]),
      WAL: contents(filesIn("pg_wal")),
      "log of PostgreSQL": fs.readFileSync(join(folder, "data", "postgres.log")),
      "log lines": utf8(beyond.output.join("\n")),
      OTLP: Buffer.concat(otlp.bodies),
      // The path of a request names the receiving phone.
      notifications: utf8(JSON.stringify(simulator.received.map((one) => ({ ...one, token: "" })))),
      backup: fs.readFileSync(join(folder, "backup")),
      metrics: beyond.metrics,
      contract: beyond.contract,
      ...Object.fromEntries(Object.entries(answered).map(([place, texts]) => [place, utf8(texts.join("\n"))]))
    }
    const expectedMarks: Record<string, string> = {
      "log lines": short,
      OTLP: short,
      "files of the cluster": "postgres",
      "log of PostgreSQL": "ready to accept connections",
      notifications: "task.",
      metrics: "service_http_requests_total",
      contract: '"openapi"',
      "error answers": "internal_error",
      "answers of devices": "device_id",
      pages: "Lighthouse"
    }
    for (const [place, bytes] of Object.entries(places)) {
      if (!Buffer.from(bytes).includes(expectedMarks[place] ?? mark)) found.push(`${place} was not searched`)
    }
    // The form shown to the browser is the one place for the CSRF value.
    found.push(...search(places, secrets).filter((hit) => !/^csrf, .*, pages$/.test(hit)))
    const own = search({ file: fs.readFileSync(join(folder, "data", "secrets.env")) }, secrets)
    if (!own.some((hit) => hit.startsWith("SERVICE_BRIDGE_TOKEN_SECRET, raw"))) found.push("the search finds nothing")
    if (own.some((hit) => !hit.startsWith("SERVICE_"))) found.push(`in secrets.env: ${own.join("; ")}`)

    return {
      figures: {
        secrets: Object.keys(secrets).length,
        places: Object.keys(places).length,
        megabytes: Math.round(Object.values(places).reduce((sum, { length }) => sum + length, 0) / 1e6),
        log_lines: beyond.output.length,
        exports: otlp.bodies.length
      },
      violations: found
    }
  })
)
