/** The operator's commands for the console, and their effect over HTTP. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { operator } from "../../src/platform/settings/Operator.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { SqlClient } from "effect/sql"
import { makeToken } from "../support/agents/Agent.ts"
import { Person } from "../support/people/Console.ts"
import { Service } from "../support/service/Service.ts"
import { admin, refusal, result } from "../support/service/ServiceAdmin.ts"

const json = (...args: ReadonlyArray<string>) => Effect.map(admin(...args, "--json"), result)

layer(Service.layer, { excludeTestServices: true, timeout: 120_000 })("the commands of the console", (it) => {
  it.effect(
    "open it for the operator, list who is signed in, and sign them out",
    () =>
      Effect.gen(function* () {
        const { services, url } = yield* Service
        const { project_id } = yield* Context.get(services, Projects).create("Harbour")
        const link = yield* json("open-console", "--project", project_id)
        assert.deepEqual(Object.keys(link), ["url", "expires_at"])
        const person = new Person(url)
        yield* person.post("/console/enter", { code: new URL(link.url).searchParams.get("code")! })
        assert.strictEqual((yield* person.get(`/console/${project_id}`)).status, 200)

        const { items } = yield* json("list-console-sessions")
        assert.deepEqual(
          items.map(({ actor, project_id }: any) => [actor, project_id]),
          [[operator, null]]
        )
        const [{ session_id }] = items
        assert.deepEqual(yield* json("end-console-session", "--session", session_id), { session_id })
        assert.strictEqual((yield* person.get(`/console/${project_id}`)).status, 303)
        const unknown = yield* admin("end-console-session", "--session", crypto.randomUUID(), "--json")
        assert.deepEqual(refusal(unknown), [1, "console_session_not_found"])
      }),
    120_000
  )

  it.effect(
    "list the passkeys of people, and remove one",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { project_id, token_id } = yield* makeToken(service)
        const key = crypto.randomUUID()
        const sql = yield* SqlClient.SqlClient
        yield* sql`
          insert into person_key (
            person_key_id, credential_id, public_key, sign_count, label, project_token_id, project_id, created_at)
          values (${key}::uuid, sha256('id'), sha256('public'), 0, 'Laptop', ${token_id}::uuid, ${project_id}::uuid, now())`
        const listed = () => Effect.map(json("list-person-keys", "--project", project_id), ({ items }) => items)
        const [item, ...more] = yield* listed()
        assert.deepInclude(item, { person_key_id: key, label: "Laptop", status: "active", project_token_id: token_id })
        assert.deepEqual(more, [])
        const loss = yield* json("remove-person-key", "--key", key, "--dry-run")
        assert.deepInclude(loss, { dry_run: true, label: "Laptop", console_sessions: 0 })
        for (const id of [key.slice(0, 8), key]) {
          assert.deepEqual(yield* json("remove-person-key", "--key", id), { person_key_id: key })
        }
        assert.deepEqual(yield* listed(), [])
        const unknown = yield* admin("remove-person-key", "--key", crypto.randomUUID(), "--json")
        assert.deepEqual(refusal(unknown), [1, "person_key_not_found"])
      }),
    120_000
  )

  it.effect(
    "make a token that people recognise, or one that does not open the console",
    () =>
      Effect.gen(function* () {
        const { services, url } = yield* Service
        const { project_id } = yield* Context.get(services, Projects).create("Harbour")
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "console-"))),
          (path) => Effect.sync(() => rmSync(path, { recursive: true }))
        )
        const make = (file: string, ...more: ReadonlyArray<string>) =>
          json(
            "create-project-token",
            "--project",
            project_id,
            "--role",
            "reader",
            "--out",
            join(folder, file),
            ...more
          )
        yield* make("ada", "--label", "Ada")
        yield* make("agent", "--no-console")
        const { items } = yield* json("list-project-tokens", "--project", project_id)
        assert.deepEqual(
          items.map(({ label, opens_console }: any) => [label, opens_console]),
          [
            ["Ada", true],
            [null, false]
          ]
        )
        const statuses = yield* Effect.forEach(["ada", "agent"], (file) =>
          Effect.map(new Person(url).signIn(readFileSync(join(folder, file), "utf8").trim()), ({ status }) => status)
        )
        assert.deepEqual(statuses, [303, 422])
      }),
    120_000
  )
})
