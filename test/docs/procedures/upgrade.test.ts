/** "Upgrade" of docs/run.md: old and new release side by side on one database, and the way back. */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { shipped } from "../../../src/platform/database/Migrations.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { checkout, shellIn } from "../../support/service/Checkout.ts"
import { issueToken } from "../../support/agents/McpAgent.ts"
import { databaseUrl, patience, procedure } from "../../support/service/Procedure.ts"
import { serviceProcess } from "../../support/service/processes/Process.ts"
import { environment, Service } from "../../support/service/Service.ts"
import { rotate, successorOf, tokens } from "../../support/bridges/Tokens.ts"
import { send } from "../../support/network/Http.ts"

/** A copy of this release with one more migration, which only adds, as migrations must. */
const next = Effect.gen(function* () {
  const folder = yield* checkout({ copied: true })
  writeFileSync(
    join(folder, "migrations/0999_next.sql"),
    `alter table bridge_identity add column nickname text;
     alter table bridge_token add column seen int not null default 0;
     create table nickname (identity_id uuid primary key references bridge_identity);
     create index bridge_identity_nickname on bridge_identity (nickname);`
  )
  return folder
})

layer(Service.layer, { excludeTestServices: true })("an upgrade", (it) => {
  it.effect(
    "interrupts nobody: the old release serves on the new schema, beside the new release, and again after a downgrade; not on a schema that is too new",
    () =>
      Effect.gen(function* () {
        const { backup, look, migrate } = procedure("run", "Upgrade", "backup", "migrate", "look")
        const sql = yield* SqlClient.SqlClient
        const old = yield* Service
        const env = {
          ...environment,
          SERVICE_BACKUP_KEY: "t4ZsHq8LxWv2NcRy6JmEb0UaKf7GdPoT",
          DATABASE_URL: yield* databaseUrl
        }
        const [before, after] = [yield* checkout(), yield* next]
        const bridge = yield* Bridge.make(old)
        let token = yield* bridge.enroll(old)

        yield* shellIn(before, env)(backup)
        const [header] = readFileSync(join(before, "before-upgrade.backup"), "utf8").split("\n")
        assert.lengthOf(JSON.parse(header!).migrations, shipped.length)

        // A Bridge keeps rotating at the old release while the migration runs.
        let rotations = 0
        let over = false
        const working = yield* Effect.forkChild(
          Effect.whileLoop({
            while: () => !over,
            body: () => rotate(tokens(old), token, `rotation-${rotations}`),
            step: (next) => {
              token = next
              rotations++
            }
          })
        )
        yield* shellIn(after, env)(migrate)
        over = true
        yield* Fiber.join(working)
        assert.isAbove(rotations, 1)
        const ran = yield* sql<{ name: string }>`select name from schema_migration order by migration_id`
        assert.deepStrictEqual(
          ran.map(({ name }) => name),
          [...shipped.map(({ name }) => name), "0999_next.sql"]
        )

        const upgraded = yield* serviceProcess({}, after)
        for (const [one, other] of [
          [old, upgraded],
          [upgraded, old]
        ] as const) {
          const { rotation_id, successor } = successorOf(yield* tokens(one).prepare(token, `from-${one.url}`))
          const confirmed = yield* tokens(other).confirm(successor, rotation_id, `to-${other.url}`)
          assert.strictEqual(confirmed.status, 200, confirmed.text)
          token = successor
        }

        const file = join(after, "smoke.token")
        writeFileSync(file, yield* issueToken(old, bridge.project_id))
        const looked = yield* shellIn(after, {})(look, { SERVICE: upgraded.url, TOKEN_FILE: file })
        assert.notMatch(looked, /Not so/)
        assert.match(looked, /^ok /m)
        upgraded.signal("SIGTERM")
        assert.strictEqual(yield* upgraded.exit, 0)

        const back = yield* serviceProcess()
        token = yield* rotate(tokens(back), token, "back")
        assert.strictEqual((yield* tokens(back).self(token)).status, 200)
        assert.isFalse(existsSync(join(before, "before-upgrade.backup.partial")))

        // As the first migration will do that takes away what this release uses.
        yield* sql`create function schema_requires() returns int language sql immutable as 'select 999'`
        assert.match(yield* Effect.flip(serviceProcess()), /Start the release that has this file/)
        assert.strictEqual((yield* send(`${back.url}/readyz`, { method: "GET" })).status, 503)
      }),
    { timeout: patience }
  )
})
