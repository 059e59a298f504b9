/** The audit log: one row for each step of a Bridge (decisions.md, Events). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { fingerprint } from "../../../src/platform/crypto/Fingerprint.ts"
import { Memory } from "../../../src/agents/memory/Memory.ts"
import { Audit } from "../../../src/platform/audit/Audit.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { CurrentOperator, operator, operatorOf } from "../../../src/platform/settings/Operator.ts"
import { exchange, makeToken, obtainCode } from "../../support/agents/Agent.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { b64, Bridge } from "../../support/bridges/Bridge.ts"
import { send } from "../../support/network/Http.ts"
import { instance, Service } from "../../support/service/Service.ts"

layer(Service.layer)("refusals", (it) => {
  it.effect("are counted in one row if minute, action, code, project and subject are the same, and in no other", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const audit = Context.get(service.services, Audit)
      const { project_id } = yield* makeToken(service)
      const elsewhere = (yield* makeToken(service)).project_id
      const event = {
        action: "mcp.write",
        code: "first",
        project_id,
        actor: "operator",
        subject: { tool: "task_note" }
      }
      const begun = 60_000 * Math.ceil((yield* Clock.currentTimeMillis) / 60_000)
      const refused = (later: number, change: Partial<typeof event> = {}) =>
        audit.refused(new Date(begun + later), { ...event, ...change })
      yield* refused(0)
      yield* refused(59_999, { actor: "operator:ada" })
      yield* refused(60_000)
      for (const change of [
        { action: "console.write" },
        { code: "other" },
        { subject: { tool: "memory_add" } },
        { project_id: elsewhere }
      ]) {
        yield* refused(0, change)
      }
      const rowsOf = (id: string) =>
        Effect.map(audit.list(id, { after: undefined, limit: 9 }, { from: new Date(begun), refused: true }), (events) =>
          events.map(({ action, actor, at, code, count, subject }) =>
            [count, action, code, subject["tool"], actor, at.getTime() - begun].join(" ")
          )
        )
      assert.sameMembers(yield* rowsOf(project_id), [
        "2 mcp.write first task_note operator 0",
        "1 mcp.write first task_note operator 60000",
        "1 console.write first task_note operator 0",
        "1 mcp.write other task_note operator 0",
        "1 mcp.write first memory_add operator 0"
      ])
      assert.deepStrictEqual(yield* rowsOf(elsewhere), ["1 mcp.write first task_note operator 0"])
    })
  )
})

layer(Service.layer)("the life of a Bridge", (it) => {
  it.effect("leaves an audit row for every step, and one for the replays and refusals of a minute", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = `${service.url}/bridge/v1/tokens`
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      const wrong = { signature_b64: b64(new Uint8Array(64)) }
      for (const key of ["1", "2"]) yield* bridge.prove(service, challenge, { key, body: wrong })
      const another = { public_key_b64: b64((yield* generateKeyPair).publicKey) }
      yield* bridge.prove(service, challenge, { body: another })
      for (const _ of "12") yield* bridge.prove(service, challenge)
      const bearer = (yield* bridge.prove(service, challenge)).body.access_token
      const prepared = yield* send(`${tokens}/rotate/prepare`, { bearer, key: "prepare" })
      const { rotation_id, successor_token } = prepared.body
      const successor = { bearer: successor_token, body: { rotation_id } }
      for (const _ of "12") yield* send(`${tokens}/rotate/confirm`, { ...successor, key: "confirm" })
      yield* send(`${tokens}/revoke`, { bearer: successor_token })
      assert.sameMembers(yield* eventsOf(bridge), [
        `1 bridge_credential.issued by ${operator}`,
        "1 bridge.challenge_created by bridge:",
        "2 bridge.proof enrollment_proof_invalid by bridge:",
        "1 bridge.proof enrollment_key_mismatch by bridge:",
        "1 bridge.enrolled by bridge:",
        "2 bridge.proof_replayed by bridge:",
        "1 bridge.rotation_prepared by bridge:",
        "1 bridge.rotation_confirmed by bridge:",
        "1 bridge.token_revoked by bridge:"
      ])
    })
  )

  it.effect("leaves a row when its used credential comes back, whoever brings it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      yield* bridge.enroll(service)
      const before = yield* eventsOf(bridge)
      const thief = yield* generateKeyPair
      for (const key of ["1", "2"]) {
        const body = { bridge_id: "another", public_key_fingerprint: fingerprint(thief.publicKey) }
        const { code } = yield* bridge.askChallenge(service, { key, body })
        assert.strictEqual(code, "bridge_enrollment_credential_used")
      }
      assert.sameMembers(yield* eventsOf(bridge), [
        ...before,
        `2 bridge.credential_returned bridge_enrollment_credential_used by bridge_credential:${bridge.credential_id}`
      ])
    })
  )

  it.effect("leaves a row when its revoked credential comes back, and none when somebody guesses", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      yield* Context.get(service.services, Credentials).revoke(bridge.credential_id)
      assert.strictEqual((yield* bridge.askChallenge(service)).code, "bridge_enrollment_credential_revoked")
      const guessed = Redacted.value(yield* Tokens.mint("sbe"))
      yield* new Bridge({ ...bridge, credential: guessed }).askChallenge(service)
      assert.sameMembers(yield* eventsOf(bridge), [
        `1 bridge_credential.issued by ${operator}`,
        `1 bridge_credential.revoked by ${operator}`,
        `1 bridge.credential_returned bridge_enrollment_credential_revoked by bridge_credential:${bridge.credential_id}`
      ])
    })
  )

  it.effect("leaves a row when its proof comes again under another key", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      yield* bridge.prove(service, challenge)
      assert.strictEqual(
        (yield* bridge.prove(service, challenge, { key: "another" })).code,
        "enrollment_challenge_consumed"
      )
      assert.include(yield* eventsOf(bridge), "1 bridge.proof_replayed enrollment_challenge_consumed by bridge:")
    })
  )
})

/** Every audit row fails while `work` runs, as on a full disk. */
const withoutAudit = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      create or replace function disk_is_full() returns trigger language plpgsql as
      $$ begin raise exception 'full' using errcode = '53100'; end $$`
    return yield* Effect.acquireUseRelease(
      sql`create trigger full_disk before insert on audit_event for each row execute function disk_is_full()`,
      () => work,
      () => Effect.orDie(sql`drop trigger full_disk on audit_event`)
    )
  })

layer(Service.layer)("while no audit row can be written", (it) => {
  it.effect("a rejected write is not answered as if it had one", () =>
    Effect.gen(function* () {
      const agent = yield* Agent.make(yield* Service)
      const { code } = yield* withoutAudit(agent.call("memory_add", { kind: "note", body: "x" }))
      assert.strictEqual(code, "bridge_persistence_error")
      assert.strictEqual((yield* agent.call("memory_add", { kind: "note", body: "x" })).code, "write_context_required")
    })
  )

  it.effect("a proof that comes again gets no token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      const { body } = yield* bridge.prove(service, challenge)
      for (const key of ["bridge-proof-1", "another"]) {
        const answer = yield* withoutAudit(bridge.prove(service, challenge, { key }))
        assert.deepStrictEqual([answer.status, answer.code], [503, "bridge_persistence_error"])
      }
      assert.strictEqual((yield* bridge.prove(service, challenge)).body.access_token, body.access_token)
    })
  )

  it.effect("a rotation that another address prepares is not refused without one", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_TRUSTED_PROXIES: "127.0.0.0/8" })
      const bearer = yield* (yield* Bridge.make(on)).enroll(on)
      const prepare = (key: string, address: string) =>
        send(`${on.url}/bridge/v1/tokens/rotate/prepare`, { bearer, key, headers: { "x-forwarded-for": address } })
      yield* prepare("1", "203.0.113.1")
      const code = Effect.map(prepare("2", "203.0.113.2"), (answer) => answer.code)
      assert.strictEqual(yield* withoutAudit(code), "bridge_persistence_error")
      assert.strictEqual(yield* code, "bridge_rotation_in_progress")
    })
  )

  it.effect("a copied code ends its grant only together with the row", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const agent = yield* Agent.make(service)
      const app = yield* obtainCode(service, { token: agent.token })
      const take = exchange(service, { client_id: app.client_id, code: app.code, code_verifier: app.verifier })
      yield* take
      const ended = Effect.map(
        sql`select end_reason from oauth_grant where project_id = ${agent.project_id}::uuid`,
        ([grant]) => grant?.["end_reason"]
      )
      assert.strictEqual((yield* withoutAudit(take)).status, 503)
      assert.isNull(yield* ended)
      assert.strictEqual((yield* take).body.error, "invalid_grant")
      assert.strictEqual(yield* ended, "code_replayed")
    })
  )

  it.effect("a refused credential or signature keeps its own code", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      const wrong = { signature_b64: b64(new Uint8Array(64)) }
      const proof = yield* withoutAudit(bridge.prove(service, challenge, { body: wrong }))
      assert.strictEqual(proof.code, "enrollment_proof_invalid")
      yield* Context.get(service.services, Credentials).revoke(bridge.credential_id)
      assert.strictEqual(
        (yield* withoutAudit(bridge.askChallenge(service))).code,
        "bridge_enrollment_credential_revoked"
      )
    })
  )
})

describe("the operator's name in audit rows", () => {
  it("has account and host, without what a terminal obeys and without other separators", () => {
    for (const [account, host, named] of [
      ["anna", "db-1.example.com", "operator:anna@db-1.example.com"],
      ["CORP\\anna@corp", "h", "operator:CORP\\anna@corp@h"],
      ["a\u001b[31m\u202e b", "h@x\n", "operator:a__31m__b@h_x_"],
      ["é猫", "x".repeat(300), `operator:é猫@${"x".repeat(64)}`]
    ] as const) {
      assert.strictEqual(operatorOf(account, host), named)
    }
    assert.match(operator, /^operator:[^@]+@[^@]+$/)
  })
})

const eventsOf = ({ bridge_id, credential_id, project_id }: Bridge) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly event: string }>`
        select concat_ws(' ', coalesce(c.count, 1), action, code, 'by', replace(actor, ${bridge_id}, '')) as event
          from audit_event
          left join audit_refusal_count c using (event_id)
         where project_id = ${project_id}::uuid
           and (subject ->> 'bridge_id' = ${bridge_id} or subject ->> 'credential_id' = ${credential_id})`,
      (rows) => rows.map(({ event }) => event)
    )
  )

layer(Service.layer)("an audit row", (it) => {
  it.effect("of a refusal is not counted with the same refusal in another project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const audit = Context.get(service.services, Audit)
      const counted = yield* Effect.forEach([1, 2], () =>
        Effect.gen(function* () {
          const { project_id } = yield* Agent.make(service)
          const event = {
            project_id,
            actor: "reader",
            action: "console_session.refused",
            code: "forbidden",
            subject: {}
          }
          yield* audit.refused(new Date(), event)
          return (yield* audit.list(project_id, { after: undefined, limit: 10 })).filter(
            ({ action }) => action === event.action
          ).length
        })
      )
      assert.deepStrictEqual(counted, [1, 1])
    })
  )

  it.effect("of an entry that an operator elsewhere archives names that operator", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const agent = yield* Agent.make(service)
      const { id } = yield* agent.note("to be archived")
      const archive = Context.get(service.services, Memory).archive(agent.project_id, id)
      yield* Effect.provideService(archive, CurrentOperator, "operator:mallory@token-1")
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select actor from audit_event where action = 'memory.archived'`, [
        { actor: "operator:mallory@token-1" }
      ])
    })
  )
})
