/** "Replace a secret" and "Replace the key of push tokens" of docs/run.md: nobody is logged out. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { existsSync, statSync } from "node:fs"
import { PushAdmin } from "../../../src/push/admin/PushAdmin.ts"
import { exchange, obtainCode, refresh } from "../../support/agents/Agent.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { makePhone } from "../../support/phones/Phone.ts"
import { operator, patience, procedure } from "../../support/service/Procedure.ts"
import { Service } from "../../support/service/Service.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { successorOf, tokens } from "../../support/bridges/Tokens.ts"

layer(Service.layer, { excludeTestServices: true })("while a secret is replaced", (it) => {
  it.effect(
    "retries get their answers until the old secret is removed, then 503, and no token, rotation, sign-in or phone is lost",
    () =>
      Effect.gen(function* () {
        const { forget, rekey, renew } = procedure("run", "Replace a secret", "renew", "rekey", "forget")
        const { file, present, started, type } = yield* operator()
        const before = yield* started
        const bridge = yield* Bridge.make(before)
        const challenge = yield* bridge.askChallenge(before)
        const proof = yield* bridge.prove(before, challenge)
        const token: string = proof.body.access_token
        const { prepared, rotation_id, successor } = successorOf(yield* tokens(before).prepare(token))
        const late = yield* Bridge.make(before)
        const asked = yield* late.askChallenge(before)
        const agent = yield* obtainCode(before)
        const code = { client_id: agent.client_id, code: agent.code, code_verifier: agent.verifier }
        const signedIn = yield* exchange(before, code)
        const person = yield* makePerson(before)
        const phone = makePhone(before, person)
        const { device_id } = (yield* phone.register()).body

        yield* type(renew)
        assert.sameMembers(Object.keys(present()), [
          "SERVICE_BACKUP_KEY",
          "SERVICE_BRIDGE_ENROLLMENT_SECRET",
          "SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS",
          "SERVICE_BRIDGE_TOKEN_SECRET",
          "SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS",
          "SERVICE_OAUTH_SECRET",
          "SERVICE_OAUTH_SECRET_PREVIOUS"
        ])
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)
        const during = yield* started
        for (const [original, retry] of [
          [challenge, yield* bridge.askChallenge(during)],
          [proof, yield* bridge.prove(during, challenge)],
          [prepared, yield* tokens(during).prepare(token)]
        ] as const) {
          assert.deepStrictEqual([retry.headers.get("idempotency-replayed"), retry.text], ["true", original.text])
        }
        assert.strictEqual((yield* late.prove(during, asked)).status, 200)
        assert.strictEqual((yield* tokens(during).self(token)).status, 200)
        const refreshed = yield* refresh(during, {
          client_id: agent.client_id,
          refresh_token: signedIn.body.refresh_token
        })
        assert.strictEqual(refreshed.status, 200, refreshed.text)

        assert.match(yield* type(rekey), /resealed +\d/)
        yield* type(forget)
        assert.sameMembers(Object.keys(present()), [
          "SERVICE_BACKUP_KEY",
          "SERVICE_BRIDGE_ENROLLMENT_SECRET",
          "SERVICE_BRIDGE_TOKEN_SECRET",
          "SERVICE_OAUTH_SECRET"
        ])
        assert.isFalse(existsSync(`${file}.old`))
        const after = yield* started
        for (const retry of [
          yield* bridge.askChallenge(after),
          yield* bridge.prove(after, challenge),
          yield* tokens(after).prepare(token)
        ]) {
          assert.deepStrictEqual([retry.status, retry.code], [503, "bridge_persistence_error"])
        }
        assert.strictEqual((yield* tokens(after).confirm(successor, rotation_id)).status, 200)
        assert.strictEqual((yield* tokens(after).self(successor)).status, 200)
        const again = yield* refresh(after, {
          client_id: agent.client_id,
          refresh_token: refreshed.body.refresh_token
        })
        assert.strictEqual(again.status, 200, again.text)
        const registered = yield* makePhone(after, person, phone.token).register()
        assert.deepStrictEqual([registered.status, registered.body.device_id], [200, device_id])
      }),
    { timeout: patience }
  )

  it.effect(
    "every replica can open the new key of push tokens before one seals with it",
    () =>
      Effect.gen(function* () {
        const { add, forget, promote, rekey } = procedure(
          "run",
          "Replace the key of push tokens",
          "add",
          "promote",
          "rekey",
          "forget"
        )
        const { present, started, type } = yield* operator({
          SERVICE_PUSH_TOKEN_KEYS: `k1:${randomBytes(32).toString("base64")}`
        })
        const sql = yield* SqlClient.SqlClient
        yield* sql`delete from mobile_device`
        const ids = () => {
          const { SERVICE_PUSH_TOKEN_KEYS: keys } = present()
          return keys!.split(",").map((key) => key.split(":")[0])
        }
        const first = yield* started
        const person = yield* makePerson(first)
        const early = makePhone(first, person)
        const { device_id } = (yield* early.register()).body

        yield* type(add)
        assert.deepStrictEqual(ids(), ["k1", "k2"])
        const cautious = yield* started
        yield* type(promote)
        assert.deepStrictEqual(ids(), ["k2", "k1"])
        // One replica already seals with the new key, and the other opens it.
        const second = yield* started
        const late = makePhone(second, person)
        const registered = yield* late.register()
        const device = registered.body.device_id as string
        assert.strictEqual((yield* makePhone(cautious, person, late.token).register()).body.device_id, device)

        const said = yield* type(rekey)
        assert.match(said, /unreadable +0/)
        assert.match(said, /token_keys +k2: 2$/m)
        yield* type(forget)
        assert.deepStrictEqual(ids(), ["k2"])
        const last = yield* started
        for (const [phone, id] of [
          [early, device_id],
          [late, device]
        ] as const) {
          const again = yield* makePhone(last, person, phone.token).register()
          assert.deepStrictEqual([again.status, again.body.device_id], [200, id])
        }
        const { token_keys, unreadable } = yield* Context.get(last.services, PushAdmin).rekey
        assert.deepStrictEqual([token_keys, unreadable], [{ k2: 2 }, 0])
      }),
    { timeout: patience }
  )
})
