/** The operator's commands for the console, and their effect over HTTP. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { operator } from "../../src/platform/settings/Operator.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { Person } from "../support/agents/Console.ts"
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
