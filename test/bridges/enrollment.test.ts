/** Enrollment (spec 3.1, 3.4, 4.1, 4.2). enrollment-codes.test.ts tests which request gets which code. */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { Credentials } from "../../src/bridges/enrollment/Credentials.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { expectOutcome, expectReplayOf } from "../support/bridges/Answers.ts"
import { type Bridge, issueCredential, makeProject } from "../support/bridges/Bridge.ts"
import { waitedForBy } from "../support/database/Locks.ts"
import { firstPage } from "../support/database/Page.ts"
import { unchanged } from "../support/database/Rows.ts"
import { instance, Service } from "../support/service/Service.ts"
import {
  withNewCredential,
  ask,
  challenged,
  disableProject,
  enrolled,
  fresh,
  withNewKey,
  prove,
  revokeCredential,
  revokeIdentity
} from "../support/bridges/Steps.ts"

const challengeTtl = Duration.seconds(600)
const oneMilli = Duration.millis(1)

const identityOf = Effect.fnUntraced(function* ({ bridge_id, project_id }: Bridge) {
  const bridges = Context.get((yield* Service).services, Bridges)
  return yield* bridges.show(project_id, bridge_id)
})

layer(Service.layer)("a challenge", (it) => {
  it.effect("contains what the Bridge declared, a nonce of 32 bytes and its expiry", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh()
      const { body, headers, status } = yield* ask(bridge)
      assert.strictEqual(status, 201)
      assert.deepStrictEqual(Object.keys(body).toSorted(), [
        "bridge_id",
        "challenge_id",
        "expires_at",
        "nonce_b64",
        "project_id",
        "public_key_fingerprint"
      ])
      const { bridge_id, project_id, public_key_fingerprint } = bridge.challengeBody
      assert.deepInclude(body, { bridge_id, project_id, public_key_fingerprint })
      assert.match(body.nonce_b64, /^[A-Za-z0-9_-]{43}$/)
      assert.match(body.expires_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+00:00)$/)
      assert.strictEqual(headers.get("cache-control"), "no-store")
    })
  )

  it.effect("makes the identity pending", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      assert.strictEqual((yield* identityOf(bridge)).status, "pending")
    })
  )

  it.effect("is returned again to an exact retry, with the same nonce", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      expectReplayOf(yield* unchanged(ask(bridge)), challenge)
    })
  )

  it.effect("is returned again after it has expired", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* TestClock.adjust(challengeTtl)
      expectReplayOf(yield* ask(bridge), challenge)
    })
  )

  it.effect("is returned again after its credential has expired", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* TestClock.adjust("1 hour")
      expectReplayOf(yield* ask(bridge), challenge)
    })
  )

  it.effect("is returned again after it was consumed", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* enrolled
      expectReplayOf(yield* ask(bridge), challenge)
    })
  )

  it.effect("is an exact retry whatever the case of a UUID and the Unicode form of a text", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh()
      const first = yield* ask(bridge, { body: { display_name: "Caf\u00e9" } })
      const again = { display_name: "Cafe\u0301", project_id: bridge.project_id.toUpperCase() }
      expectReplayOf(yield* ask(bridge, { body: again }), first)
    })
  )

  it.effect("is created until the millisecond before the credential expires", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh({ ttl: Duration.minutes(5) })
      yield* TestClock.adjust(Duration.subtract(Duration.minutes(5), oneMilli))
      expectOutcome(yield* ask(bridge), 201)
    })
  )

  it.effect("is refused at the millisecond at which the credential expires", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh({ ttl: Duration.minutes(5) })
      yield* TestClock.adjust(Duration.minutes(5))
      expectOutcome(yield* unchanged(ask(bridge)), "bridge_enrollment_credential_expired")
    })
  )

  it.effect("that is refused does not claim the credential", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      const rival = yield* withNewKey(bridge)
      expectOutcome(yield* unchanged(ask(rival)), "bridge_identity_conflict")
      expectOutcome(yield* ask(rival, { body: { bridge_id: `${bridge.bridge_id}-2` } }), 201)
    })
  )
})

layer(Service.layer)("a claimed credential", (it) => {
  it.effect("opens a new challenge for the same Bridge once the first has expired", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* TestClock.adjust(challengeTtl)
      const second = yield* ask(bridge, { key: "another" })
      expectOutcome(second, 201)
      assert.notStrictEqual(second.body.nonce_b64, challenge.body.nonce_b64)
      expectOutcome(yield* prove(bridge, second), 200)
    })
  )

  it.effect("opens none until the millisecond before that", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      yield* TestClock.adjust(Duration.subtract(challengeTtl, oneMilli))
      expectOutcome(yield* unchanged(ask(bridge, { key: "another" })), "bridge_enrollment_credential_used")
    })
  )

  it.effect("opens none for another device, key or bridge_id", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      const { public_key_fingerprint } = (yield* withNewKey(bridge)).challengeBody
      yield* TestClock.adjust(challengeTtl)
      for (const body of [{ device_id: "device-2" }, { public_key_fingerprint }, { bridge_id: "other" }]) {
        expectOutcome(yield* unchanged(ask(bridge, { key: "another", body })), "bridge_enrollment_credential_used")
      }
    })
  )

  it.effect("opens none after it has enrolled its Bridge", () =>
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      yield* TestClock.adjust(challengeTtl)
      expectOutcome(yield* unchanged(ask(bridge, { key: "another" })), "bridge_enrollment_credential_used")
    })
  )

  it.effect("for re-enrollment opens none after it was used, even after a later re-enrollment", () =>
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      const first = yield* withNewCredential(bridge, { reenroll: bridge.bridge_id })
      expectOutcome(yield* prove(first, yield* ask(first), { key: "proof-2" }), 200)
      const second = yield* withNewCredential(bridge, { reenroll: bridge.bridge_id })
      expectOutcome(yield* prove(second, yield* ask(second), { key: "proof-3" }), 200)
      yield* TestClock.adjust(challengeTtl)
      expectOutcome(yield* unchanged(ask(first, { key: "another" })), "bridge_enrollment_credential_used")
    })
  )
})

layer(Service.layer)("a pending bridge_id", (it) => {
  it.effect("can be taken by another key once its challenge has expired", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const rival = yield* withNewKey(bridge)
      yield* TestClock.adjust(challengeTtl)
      expectOutcome(yield* prove(rival, yield* ask(rival)), 200)
      expectOutcome(yield* prove(bridge, challenge), "enrollment_challenge_expired")
      assert.strictEqual((yield* identityOf(bridge)).public_key_fingerprint, rival.challengeBody.public_key_fingerprint)
    })
  )

  it.effect("stays reserved until the millisecond before that", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      const rival = yield* withNewKey(bridge)
      yield* TestClock.adjust(Duration.subtract(challengeTtl, oneMilli))
      expectOutcome(yield* unchanged(ask(rival)), "bridge_identity_conflict")
    })
  )

  it.effect("is free once the credential that reserved it is revoked", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      yield* revokeCredential(bridge)
      expectOutcome(yield* ask(yield* withNewKey(bridge)), 201)
    })
  )

  it.effect("stays reserved by another credential of the same key", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      yield* TestClock.adjust("1 second")
      const twin = yield* withNewCredential(bridge)
      expectOutcome(yield* ask(twin), 201)
      yield* revokeCredential(bridge)
      expectOutcome(yield* ask(yield* withNewKey(bridge)), "bridge_identity_conflict")
    })
  )
})

layer(Service.layer)("a proof", (it) => {
  it.effect("activates the Bridge and returns its token", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const proof = yield* prove(bridge, challenge)
      expectOutcome(proof, 200)
      const { access_token, expires_at, ...rest } = proof.body
      assert.match(access_token, /^sbt_[0-9A-Za-z]{49}$/)
      assert.match(expires_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|\+00:00)$/)
      const { bridge_id, project_id } = bridge
      assert.deepStrictEqual(rest, { project_id, bridge_id, token_type: "Bearer", scope: "bridge:transport" })
      const identity = yield* identityOf(bridge)
      assert.deepStrictEqual([identity.status, identity.tokens.map(({ state }) => state)], ["active", ["active"]])
    })
  )

  it.effect("that fails changes nothing", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const stranger = yield* withNewKey(bridge)
      const forged = yield* stranger.proofBody(challenge)
      expectOutcome(yield* unchanged(prove(bridge, challenge, { body: forged })), "enrollment_key_mismatch")
      const { signature_b64 } = forged
      expectOutcome(yield* unchanged(prove(bridge, challenge, { body: { signature_b64 } })), "enrollment_proof_invalid")
      expectOutcome(
        yield* unchanged(prove(bridge, challenge, { body: { bridge_id: "x" } })),
        "enrollment_challenge_mismatch"
      )
      expectOutcome(yield* prove(bridge, challenge), 200)
    })
  )

  it.effect("is answered again to an exact retry, with the same token", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const first = yield* prove(bridge, challenge)
      expectReplayOf(yield* unchanged(prove(bridge, challenge)), first)
    })
  )

  it.effect("is an exact retry in any form of base64", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const first = yield* prove(bridge, challenge)
      const body = yield* bridge.proofBody(challenge)
      const forms = ["base64", "base64url"].flatMap((form) => [true, false].map((padded) => ({ form, padded })))
      for (const { form, padded } of forms) {
        const encode = (text: string) => {
          const bytes = Buffer.from(text, "base64url")
          const encoded = bytes.toString(form as "base64").replaceAll("=", "")
          return padded ? encoded.padEnd(Math.ceil(encoded.length / 4) * 4, "=") : encoded
        }
        const { nonce_b64, public_key_b64, signature_b64 } = body
        const other = {
          nonce_b64: encode(nonce_b64),
          public_key_b64: encode(public_key_b64),
          signature_b64: encode(signature_b64)
        }
        expectReplayOf(yield* prove(bridge, challenge, { body: other }), first)
      }
    })
  )

  it.effect("in invalid base64 is malformed", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const { signature_b64 } = yield* bridge.proofBody(challenge)
      const spoiled = [
        ` ${signature_b64}`,
        `${signature_b64}\n`,
        `${signature_b64}=`,
        `${signature_b64}====`,
        `${signature_b64.slice(0, -1)}`,
        `${signature_b64.slice(0, -1)}B`,
        `=${signature_b64}`,
        `${signature_b64.slice(0, 9)}.${signature_b64.slice(10)}`
      ]
      for (const other of spoiled) {
        expectOutcome(yield* unchanged(prove(bridge, challenge, { body: { signature_b64: other } })), "invalid_request")
      }
    })
  )

  it.effect("succeeds until the millisecond before its challenge expires", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* TestClock.adjust(Duration.subtract(challengeTtl, oneMilli))
      expectOutcome(yield* prove(bridge, challenge), 200)
    })
  )

  it.effect("fails at the millisecond at which its challenge expires", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* TestClock.adjust(challengeTtl)
      expectOutcome(yield* unchanged(prove(bridge, challenge)), "enrollment_challenge_expired")
    })
  )

  it.effect("succeeds although its credential has expired since", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh({ ttl: Duration.seconds(1) })
      const challenge = yield* ask(bridge)
      yield* TestClock.adjust("2 seconds")
      expectOutcome(yield* prove(bridge, challenge), 200)
    })
  )

  it.effect("is replayed until its token expires", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* enrolled
      yield* TestClock.adjust(Duration.subtract(Duration.days(1), oneMilli))
      expectOutcome(yield* prove(bridge, challenge), 200)
      yield* TestClock.adjust(oneMilli)
      expectOutcome(yield* unchanged(prove(bridge, challenge)), "enrollment_challenge_consumed")
    })
  )

  it.effect("copies the account references of the credential, even if others were approved since", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const projects = Context.get(service.services, Projects)
      const project_id = yield* makeProject(service)
      const bridge = yield* fresh({ project_id })
      const challenge = yield* ask(bridge)
      yield* projects.approveReference(project_id, "github:later", Option.none())
      expectOutcome(yield* prove(bridge, challenge), 200)
      assert.deepStrictEqual((yield* identityOf(bridge)).account_references, ["github:octo"])
    })
  )

  it.effect("cannot add account references", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh()
      expectOutcome(yield* unchanged(ask(bridge, { body: { account_references: ["github:root"] } })), "invalid_request")
      const challenge = yield* ask(bridge)
      const body = { account_references: ["github:root"] }
      expectOutcome(yield* unchanged(prove(bridge, challenge, { body })), "invalid_request")
    })
  )
})

layer(Service.layer)("the operator", (it) => {
  it.effect("cannot issue credentials for a project that is disabled or does not exist", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh()
      yield* disableProject(bridge)
      const credentials = Context.get((yield* Service).services, Credentials)
      const issue = Effect.fnUntraced(function* (project_id: string) {
        const request = { project_id, account_references: [], ttl: Duration.hours(1), reenroll_bridge_id: undefined }
        return (yield* Effect.flip(credentials.issue(request, [yield* credentials.mint])))._tag
      })
      assert.strictEqual(yield* issue(bridge.project_id), "project_disabled")
      assert.strictEqual(yield* issue(randomUUID()), "project_not_found")
    })
  )

  it.effect("may name an account reference twice; the credential carries it once", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id } = yield* fresh()
      const references = ["github:octo", "github:octo"]
      const { credential_id } = yield* issueCredential(service, project_id, { references })
      const issued = yield* Context.get(service.services, Credentials).list(project_id, firstPage)
      const row = issued.find((one) => one.credential_id === credential_id)
      assert.deepStrictEqual(row?.account_references, ["github:octo"])
    })
  )

  it.effect("sees of each credential what became of it, and lists those of one kind", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const { project_id } = (yield* challenged).bridge
      const list = (status?: "claimed" | "expired") =>
        Effect.map(Context.get(services, Credentials).list(project_id, firstPage, status), (all) =>
          all.map(({ status }) => status)
        )
      assert.deepStrictEqual(yield* list(), ["claimed"])
      yield* TestClock.adjust("1 day")
      assert.deepStrictEqual(
        [yield* list(), yield* list("expired"), yield* list("claimed")],
        [["expired"], ["expired"], []]
      )
    })
  )

  it.effect("can revoke a credential after its proof: the token stays valid and the proof is still replayed", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* enrolled
      yield* revokeCredential(bridge)
      expectOutcome(yield* prove(bridge, challenge), 200)
      assert.strictEqual((yield* identityOf(bridge)).tokens[0]!.state, "active")
    })
  )

  it.effect("can revoke a credential between challenge and proof: the proof is refused", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* revokeCredential(bridge)
      expectOutcome(yield* unchanged(prove(bridge, challenge)), "enrollment_challenge_expired")
    })
  )

  it.effect("revokes a credential at once, even on a replica whose clock is ahead", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* TestClock.adjust("5 seconds")
      yield* revokeCredential(bridge)
      yield* TestClock.testClockWith((clock) => clock.setTime(clock.currentTimeMillisUnsafe() - 1000))
      expectOutcome(yield* unchanged(prove(bridge, challenge)), "enrollment_challenge_expired")
      expectOutcome(yield* unchanged(ask(bridge)), "bridge_enrollment_credential_revoked")
    })
  )

  it.effect("ends tokens and open challenges by revoking an identity", () =>
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      const returning = yield* withNewCredential(bridge, { reenroll: bridge.bridge_id })
      const challenge = yield* ask(returning)
      yield* revokeIdentity(bridge)
      expectOutcome(yield* unchanged(prove(returning, challenge, { key: "another" })), "bridge_revoked")
      const identity = yield* identityOf(bridge)
      assert.deepStrictEqual([identity.status, identity.tokens.map(({ state }) => state)], ["revoked", ["revoked"]])
    })
  )

  it.effect("can revoke an identity twice; the first time is kept", () =>
    Effect.gen(function* () {
      const { bridge } = yield* enrolled
      const first = yield* revokeIdentity(bridge)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* revokeIdentity(bridge), first)
    })
  )

  it.effect("stops enrollments by disabling the project, and resumes them by enabling it", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* disableProject(bridge)
      expectOutcome(yield* unchanged(ask(bridge)), "bridge_enrollment_credential_revoked")
      expectOutcome(yield* unchanged(prove(bridge, challenge)), "bridge_revoked")
      yield* Context.get((yield* Service).services, Projects).enable(bridge.project_id)
      expectOutcome(yield* prove(bridge, challenge), 200)
    })
  )

  it.effect("revokes the credentials that carry an account reference and have not enrolled, by withdrawing it", () =>
    Effect.gen(function* () {
      const { bridge: working } = yield* enrolled
      const { project_id } = working
      const [unclaimed, claimed] = [yield* fresh({ project_id }), yield* fresh({ project_id })]
      const challenge = yield* ask(claimed)
      const projects = Context.get((yield* Service).services, Projects)
      yield* projects.approveReference(project_id, "github:other", Option.none())
      const other = yield* fresh({ project_id, references: ["github:other"] })
      const sameName = yield* fresh({ project_id, references: ["github:other"], bridge_id: claimed.bridge_id })
      expectOutcome(yield* ask(sameName), "bridge_identity_conflict")

      const revoked = yield* projects.withdrawReference(project_id, "github:octo")
      assert.sameMembers([...revoked], [unclaimed.credential_id, claimed.credential_id])
      expectOutcome(yield* ask(unclaimed), "bridge_enrollment_credential_revoked")
      expectOutcome(yield* unchanged(prove(claimed, challenge)), "enrollment_challenge_expired")
      expectOutcome(yield* ask(claimed), "bridge_enrollment_credential_revoked")
      expectOutcome(yield* ask(other), 201)
      // The name that the revoked credential had reserved is free.
      expectOutcome(yield* ask(sameName), 201)
      assert.strictEqual((yield* identityOf(working)).status, "active")
    })
  )
})

layer(Service.layer)("re-enrollment", (it) => {
  const reenrolled = Effect.gen(function* () {
    const { bridge, challenge: firstChallenge } = yield* enrolled
    const returning = yield* withNewKey(bridge, { reenroll: bridge.bridge_id })
    const before = yield* identityOf(bridge)
    const challenge = yield* ask(returning)
    return { bridge, firstChallenge, returning, challenge, before }
  })

  it.effect("is in the audit row of its credential", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { credential_id } = (yield* reenrolled).returning
      const [row] = yield* sql<{ bridge_id: string }>`
        select subject->>'bridge_id' as bridge_id
          from audit_event
         where action = 'bridge_credential.issued' and subject->>'credential_id' = ${credential_id}`
      assert.isNotNull(row!.bridge_id)
    })
  )

  it.effect("changes neither key nor token before the proof", () =>
    Effect.gen(function* () {
      const { before, bridge } = yield* reenrolled
      assert.deepStrictEqual(yield* identityOf(bridge), before)
    })
  )

  it.effect("revokes the old tokens and replaces the key of the same identity", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { bridge, challenge, returning } = yield* reenrolled
      const identity = sql`select identity_id from bridge_identity where bridge_id = ${bridge.bridge_id}`
      const before = yield* identity
      expectOutcome(yield* prove(returning, challenge, { key: "another" }), 200)
      assert.deepStrictEqual(yield* identity, before)
      const { public_key_fingerprint, status, tokens } = yield* identityOf(bridge)
      assert.strictEqual(status, "active")
      assert.strictEqual(public_key_fingerprint, returning.challengeBody.public_key_fingerprint)
      assert.sameDeepMembers(
        tokens.map(({ end_reason, state }) => [state, end_reason]),
        [
          ["active", null],
          ["revoked", "reenrolled"]
        ]
      )
    })
  )

  it.effect("ends the replay of the earlier proof", () =>
    Effect.gen(function* () {
      const { bridge, challenge, firstChallenge, returning } = yield* reenrolled
      expectOutcome(yield* prove(returning, challenge, { key: "another" }), 200)
      expectOutcome(yield* unchanged(prove(bridge, firstChallenge)), "enrollment_challenge_consumed")
    })
  )

  it.effect("happens only once per credential", () =>
    Effect.gen(function* () {
      const { challenge, returning } = yield* reenrolled
      const first = yield* prove(returning, challenge, { key: "another" })
      expectOutcome(first, 200)
      expectReplayOf(yield* unchanged(prove(returning, challenge, { key: "another" })), first)
      expectOutcome(yield* unchanged(prove(returning, challenge, { key: "third" })), "enrollment_challenge_consumed")
      expectOutcome(yield* unchanged(ask(returning, { key: "another" })), "bridge_enrollment_credential_used")
    })
  )
})

layer(Service.layer)("a proof", (it) => {
  it.effect("of a challenge that was opened here does not wait for the connections of unknown callers", () =>
    Effect.gen(function* () {
      const here = yield* Service
      const sql = yield* SqlClient.SqlClient
      const [stranger, bridge] = [yield* fresh(), yield* fresh()]
      const elsewhere = yield* stranger.askChallenge(yield* instance())
      const challenge = yield* ask(bridge)
      const [waiting, answer] = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select 1 from bridge_identity where bridge_id = ${stranger.bridge_id} for update`
          const waiting = yield* Effect.forkChild(stranger.prove(here, elsewhere))
          yield* waitedForBy(1)
          return [waiting, yield* bridge.prove(here, challenge)] as const
        })
      )
      assert.strictEqual(answer.status, 200, answer.text)
      assert.strictEqual((yield* Fiber.join(waiting)).status, 200)
    })
  )
})
