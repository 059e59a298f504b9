/**
 * Secrets are stored nowhere but with their owner (spec 1.5): not in a row, a file of PostgreSQL, a log line, a span or an
 * error. The whole story runs at the finest log level with every kind of failure; then every place is searched for every
 * secret in every form.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { type Answer, send } from "../support/network/Http.ts"
import { recording } from "../support/run/Lines.ts"
import { forms, search, utf8 } from "../support/secrets/Canaries.ts"
import { filesSince, lsn, rowsAsText } from "../support/secrets/Secrets.ts"
import { environment, instance } from "../support/service/Service.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

layer(TestDatabase.sql, { timeout: "60 seconds" })("secrets", (it) => {
  it.effect("are found nowhere after every step of enrollment", () =>
    Effect.gen(function* () {
      const start = yield* lsn
      const { lines, record, spansAsText } = recording()
      const on = yield* record(instance({ SERVICE_LOG_LEVEL: "All" }))
      const refused: Array<Answer> = []
      const refuse = (answer: Effect.Effect<Answer>) =>
        Effect.map(answer, (one) => {
          assert.isAtLeast(one.status, 400, one.text)
          refused.push(one)
        })

      const bridge = yield* Bridge.make(on)
      const challenge = yield* bridge.askChallenge(on)
      const body = yield* bridge.proofBody(challenge)
      const proof = yield* bridge.prove(on, challenge)
      const token: string = proof.body.access_token
      yield* bridge.askChallenge(on)
      yield* bridge.prove(on, challenge)

      const stray = { "user-agent": `curl ${bridge.credential}`, "x-forwarded-for": token, cookie: `t=${token}` }
      const headers = { ...stray, authorization: `Bearer ${token}` }
      const proofs = `${on.url}/bridge/v1/enrollment/proofs`
      yield* refuse(bridge.askChallenge(on, { key: token }))
      yield* refuse(bridge.askChallenge(on, { key: "k", body: { bridge_id: "other" } }))
      yield* refuse(bridge.prove(on, challenge, { key: bridge.credential }))
      yield* refuse(send(proofs, { key: "k", headers, body: { ...body, challenge_id: token } }))
      yield* refuse(send(proofs, { key: "k", headers, body: JSON.stringify(body).slice(0, -2) }))
      yield* refuse(send(proofs, { key: "k", headers, body: { ...body, [token]: bridge.credential } }))
      yield* refuse(send(proofs, { key: "k", headers, body: { ...body, public_key_b64: body.signature_b64 } }))
      yield* refuse(send(`${on.url}/bridge/v1/${token}?token=${bridge.credential}`, { headers }))
      const stranger = new Bridge({ ...bridge, keys: yield* generateKeyPair })
      yield* refuse(stranger.prove(on, challenge))
      const open = yield* Bridge.make(on)
      const openChallenge = yield* open.askChallenge(on)
      const openBody = yield* open.proofBody(openChallenge)
      const forged = { ...openBody, signature_b64: body.signature_b64 }
      yield* refuse(send(proofs, { key: "k", headers: stray, body: forged }))

      const sql = yield* SqlClient.SqlClient
      const broken = Effect.acquireUseRelease(
        sql`alter table bridge_token add constraint broken check (key_id = '') not valid`,
        () => refuse(open.prove(on, openChallenge)),
        () => sql`alter table bridge_token drop constraint broken`
      )
      yield* broken
      yield* Context.get(on.services, Bridges).revoke(bridge.project_id, bridge.bridge_id)
      yield* refuse(bridge.prove(on, challenge))

      const secrets = {
        "bootstrap credential": utf8(bridge.credential),
        "bootstrap credential of another": utf8(open.credential),
        nonce: Buffer.from(body.nonce_b64, "base64url"),
        "open nonce": Buffer.from(openBody.nonce_b64, "base64url"),
        signature: Buffer.from(body.signature_b64, "base64url"),
        "open signature": Buffer.from(openBody.signature_b64, "base64url"),
        "private key": Redacted.value(bridge.keys.privateKey),
        "access token": utf8(token),
        "enrollment secret": utf8(environment.SERVICE_BRIDGE_ENROLLMENT_SECRET),
        "token secret": utf8(environment.SERVICE_BRIDGE_TOKEN_SECRET)
      }
      const places = {
        ...(yield* rowsAsText),
        ...(yield* filesSince(start)),
        "log lines": utf8(lines.join("\n")),
        spans: utf8(spansAsText().join("\n")),
        "error answers": utf8(refused.map(({ headers, text }) => `${JSON.stringify([...headers])} ${text}`).join("\n"))
      }
      assert.isAbove(lines.length, refused.length)
      assert.isNotEmpty(spansAsText())
      assert.deepStrictEqual(search(places, secrets), [])
    })
  )

  it.effect("would be found in any form: in a row, in PostgreSQL's files, in a log line", () =>
    Effect.gen(function* () {
      const start = yield* lsn
      const sql = yield* SqlClient.SqlClient
      const planted = Redacted.value(yield* Tokens.mint("sbt"))
      const { lines, record } = recording()
      for (const [form, text] of Object.entries(forms(utf8(planted)))) {
        // Several times, because text that crosses the end of a WAL page is split.
        for (let i = 0; i < 3; i++)
          yield* sql`insert into project values (gen_random_uuid(), ${text.toString()}, 'epoch')`
        yield* record(Effect.log(form, text.toString()))
      }
      const places = { ...(yield* rowsAsText), ...(yield* filesSince(start)), "log lines": utf8(lines.join("\n")) }
      const found = search(places, { planted: utf8(planted) })
      for (const form of Object.keys(forms(new Uint8Array(9)))) {
        for (const place of ["table project", "base/", "pg_wal/", "log lines"]) {
          assert.isTrue(
            found.some((hit) => hit.startsWith(`planted, ${form}, ${place}`)),
            `${form} in ${place}`
          )
        }
      }
    })
  )
})
