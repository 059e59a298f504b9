/** `init` makes what a newcomer needs, and repeating it makes only what is missing. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { TestDatabase } from "../support/database/TestDatabase.ts"
import { admin, refusal, result } from "../support/service/ServiceAdmin.ts"

const folder = mkdtempSync(join(tmpdir(), "service-init-"))
afterAll(() => rmSync(folder, { recursive: true }))

layer(TestDatabase.sql)("init", (it) => {
  const dir = join(folder, "made")
  const init = (...args: ReadonlyArray<string>) => admin("init", "--dir", dir, ...args, "--json")
  const count = Effect.fnUntraced(function* () {
    const sql = yield* SqlClient.SqlClient
    const [counted] = yield* sql`
      select (select count(*)::int from project) as projects,
             (select count(*)::int from bridge_enrollment_credential) as credentials,
             (select count(*)::int
                from project_token
               where expires_at - created_at = interval '90 days') as tokens`
    return [counted!["projects"], counted!["credentials"], counted!["tokens"]]
  })

  it.effect("sets up a project once, and makes what is missing when it is repeated", () =>
    Effect.gen(function* () {
      const first = result(yield* init())
      assert.deepStrictEqual(first.made, ["project", "credential", "token"])
      assert.deepStrictEqual(
        [first.name, first.reference, first.base_url, first.credential_file, first.token_file],
        ["First project", "local:me", "http://127.0.0.1:8787", join(dir, "credential"), join(dir, "agent.token")]
      )
      for (const [file, prefix] of [
        [first.credential_file, "sbe_"],
        [first.token_file, "spt_"]
      ]) {
        assert.isTrue(readFileSync(file, "utf8").startsWith(prefix), file)
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      }
      assert.strictEqual(statSync(dir).mode & 0o777, 0o700)

      const again = result(yield* init())
      assert.deepStrictEqual(again, { ...first, made: [] })
      rmSync(first.token_file)
      assert.deepStrictEqual(result(yield* init()).made, ["token"])
      assert.deepStrictEqual(yield* count(), [1, 1, 2])
    })
  )

  it.effect("makes nothing if two projects have the name", () =>
    Effect.gen(function* () {
      yield* admin("create-project", "--name", "First project")
      assert.deepStrictEqual(refusal(yield* init()), [1, "name_taken"])
      assert.deepStrictEqual(yield* count(), [2, 1, 2])
    })
  )

  it.effect("prints what to type next", () =>
    Effect.gen(function* () {
      const { stdout } = yield* admin("init", "--name", "Ä harbour", "--dir", join(folder, "it's"))
      assert.match(
        stdout,
        /^ {2}npm run -s bridge -- enroll --base-url http:\/\/127\.0\.0\.1:8787 --project [0-9a-f-]{36} /m
      )
      assert.include(stdout, `--credential-file '${join(folder, "it'\\''s", "credential")}'`)
      assert.match(
        stdout,
        /^ {2}npx bridge-service connect claude-code --url http:\/\/127\.0\.0\.1:8787 --token-env TOKEN$/m
      )
      assert.match(stdout, /^Next: npx service-admin open-console/m)
    })
  )
})
