/** "Backup and restore" of docs/run.md: what was revoked stays revoked, and what was pending continues. */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Devices } from "../../../src/people/mobile/Devices.ts"
import { refresh, signIn } from "../../support/agents/Agent.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { makePhone } from "../../support/phones/Phone.ts"
import { databaseUrl, operator, patience, procedure } from "../../support/service/Procedure.ts"
import { Service } from "../../support/service/Service.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { makeRoles } from "../../support/database/Roles.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { successorOf, tokens } from "../../support/bridges/Tokens.ts"

/** Another database of the cluster, without tables. */
const emptyDatabase = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const address = yield* TestDatabase
  const database = `${address.database}_restored`
  yield* Effect.acquireRelease(sql.unsafe(`create database ${database} template template0`).unprepared, () =>
    Effect.orDie(sql.unsafe(`drop database ${database} with (force)`).unprepared)
  )
  return TestDatabase.of({ ...address, database })
})

layer(Service.layer, { excludeTestServices: true })("after a restore into an empty database", (it) => {
  it.effect(
    "everything is as it was at the backup: what was revoked stays revoked, what was pending continues",
    () =>
      Effect.gen(function* () {
        const { backup, restore } = procedure("run", "Backup and restore", "backup", "restore")
        const on = yield* Service
        const { services } = on
        const { started, type } = yield* operator()

        const bridge = yield* Bridge.make(on)
        const { project_id } = bridge
        const token = yield* bridge.enroll(on)
        const { prepared, rotation_id, successor } = successorOf(yield* tokens(on).prepare(token))
        const stolen = yield* Bridge.make(on, { project_id })
        const stolenToken = yield* stolen.enroll(on)
        yield* Context.get(services, Bridges).revoke(project_id, stolen.bridge_id)
        const leaked = yield* Bridge.make(on, { project_id })
        yield* Context.get(services, Credentials).revoke(leaked.credential_id)
        const asked = yield* Bridge.make(on, { project_id })
        const challenge = yield* asked.askChallenge(on)
        const agent = yield* Agent.make(on, { project_id })
        const entry = yield* agent.note("The harbour has two doors.")
        const erased = yield* agent.note("The harbour's password is swordfish.")
        const good = yield* signIn(on)
        const ended = yield* makePerson(on, { project_id })
        yield* Context.get(services, ProjectTokens).revoke(ended.subject)
        const person = yield* makePerson(on, { project_id })
        const phone = makePhone(on, person)
        const { device_id } = (yield* phone.register()).body
        const lost = makePhone(on, person)
        const lostDevice = (yield* lost.register()).body.device_id
        yield* Context.get(services, Devices).end(lostDevice)

        yield* type(backup)
        yield* type(
          `mkdir -p data; npx service-admin purge-memory --project ${project_id} --entry ${erased.id} --yes`,
          {
            SERVICE_ERASURE_FILE: "data/erasures.jsonl"
          }
        )
        const later = yield* Bridge.make(on, { project_id })
        const laterToken = yield* later.enroll(on)

        const database = yield* emptyDatabase
        const within = Effect.provideService(TestDatabase, database)
        yield* type(restore, { DATABASE_URL: yield* within(databaseUrl) })
        // Replicas of the tests serve under the account that may only add to the audit log.
        yield* Effect.provide(makeRoles, PgClient.layer({ ...database, maxConnections: 1 }))
        const restored = yield* within(started)

        const self = (bearer: string) => Effect.map(tokens(restored).self(bearer), ({ code, status }) => code ?? status)
        assert.strictEqual(yield* self(token), 200)
        assert.strictEqual(yield* self(stolenToken), "bridge_revoked")
        assert.strictEqual(yield* self(laterToken), "bridge_token_invalid")
        assert.strictEqual((yield* leaked.askChallenge(restored)).code, "bridge_enrollment_credential_revoked")
        assert.strictEqual((yield* asked.prove(restored, challenge)).status, 200)
        const replayed = yield* tokens(restored).prepare(token)
        assert.deepStrictEqual([replayed.status, replayed.text], [201, prepared.text])
        assert.strictEqual((yield* tokens(restored).confirm(successor, rotation_id)).status, 200)
        assert.strictEqual(yield* self(successor), 200)
        assert.strictEqual(yield* self(token), "bridge_token_revoked")

        const refreshed = yield* refresh(restored, { client_id: good.client_id, refresh_token: good.refresh_token })
        assert.strictEqual(refreshed.status, 200, refreshed.text)
        assert.strictEqual((yield* makePhone(restored, ended).get(device_id)).status, 401)
        assert.strictEqual((yield* agent.at(restored).call("memory_get", { id: entry.id })).output.entry.id, entry.id)
        const gone = yield* agent.at(restored).call("memory_get", { id: erased.id })
        assert.strictEqual(gone.code, "memory_not_found")
        const again = yield* makePhone(restored, person, phone.token).register()
        assert.deepStrictEqual([again.status, again.body.device_id], [200, device_id])
        assert.strictEqual((yield* makePhone(restored, person).get(lostDevice)).body.state, "revoked")
      }),
    { timeout: patience }
  )
})
