/** "Move to another PostgreSQL" of docs/run.md: from the embedded database to the operator's own. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { checkout, shellIn } from "../../support/service/Checkout.ts"
import { end } from "../../support/database/PostgresUser.ts"
import { databaseUrl, patience, procedure } from "../../support/service/Procedure.ts"
import { freePort } from "../../support/network/FreePort.ts"
import { instance } from "../../support/service/Service.ts"
import { makeRoles } from "../../support/database/Roles.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { successorOf, tokens } from "../../support/bridges/Tokens.ts"

/** A service with the embedded database of a folder, until it is stopped. */
const embedded = Effect.fnUntraced(function* (folder: string) {
  const port = String(yield* freePort)
  const env = { PATH: process.env["PATH"], SERVICE_PORT: port }
  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, ["src/main.ts"], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] })
    ),
    (running) => end(running, "SIGTERM")
  )
  yield* Effect.callback<void>((resume) => {
    for (const stream of [server.stdout!, server.stderr!]) {
      createInterface(stream).on("line", (line) => line.includes('"Ready"') && resume(Effect.void))
    }
  })
  return { url: `http://127.0.0.1:${port}`, stop: end(server, "SIGTERM") }
})

const prepared = `
  npx service-admin create-project --name Moved --json > project.json
  PROJECT=$(node -p 'JSON.parse(fs.readFileSync("project.json")).project_id')
  npx service-admin approve-account-reference --project "$PROJECT" --reference github:me > approved
  npx service-admin create-bridge-enrollment-credential --project "$PROJECT" --account-reference github:me \\
    --count 2 --out-dir credentials --json`

layer(TestDatabase.emptySql, { excludeTestServices: true })("moving from the embedded database", (it) => {
  it.effect(
    "keeps everything, secrets included: a pending rotation continues, and a revoked Bridge stays revoked",
    () =>
      Effect.gen(function* () {
        const { pack, unpack } = procedure("run", "Move to another PostgreSQL", "pack", "unpack")
        const folder = yield* checkout()
        const type = shellIn(folder, { NEW_DATABASE: yield* databaseUrl })
        const before = yield* embedded(folder)
        const { items } = JSON.parse(yield* type(prepared)) as {
          readonly items: ReadonlyArray<{
            readonly credential_id: string
            readonly file: string
            readonly project_id: string
          }>
        }
        const [mine, stolen] = yield* Effect.forEach(items, ({ credential_id, file, project_id }) =>
          Effect.map(
            generateKeyPair,
            (keys) =>
              new Bridge({
                project_id,
                keys,
                bridge_id: `bridge-${randomUUID()}`,
                credential: readFileSync(join(folder, file), "utf8").trim(),
                credential_id
              })
          )
        )
        const token = yield* mine!.enroll(before)
        const stolenToken = yield* stolen!.enroll(before)
        const pending = successorOf(yield* tokens(before).prepare(token))
        yield* type(`npx service-admin revoke-bridge --project ${stolen!.project_id} --bridge ${stolen!.bridge_id}`)
        yield* before.stop

        yield* type(pack)
        yield* type(unpack)
        const file = join(folder, "bridge-service.env")
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)
        const settings = Object.fromEntries(
          [...readFileSync(file, "utf8").matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name!, value!])
        )
        assert.hasAllKeys(settings, [
          "SERVICE_BRIDGE_ENROLLMENT_SECRET",
          "SERVICE_BRIDGE_TOKEN_SECRET",
          "SERVICE_OAUTH_SECRET",
          "SERVICE_BACKUP_KEY",
          "DATABASE_URL"
        ])
        // Replicas of the tests serve under the account that may only add to the audit log.
        yield* makeRoles
        const after = yield* instance(settings)
        const again = yield* tokens(after).prepare(token)
        assert.deepStrictEqual([again.status, again.text], [201, pending.prepared.text])
        assert.strictEqual((yield* tokens(after).confirm(pending.successor, pending.rotation_id)).status, 200)
        assert.strictEqual((yield* tokens(after).self(stolenToken)).code, "bridge_revoked")
      }),
    { timeout: patience }
  )
})
