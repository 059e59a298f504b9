/** Rotation and revocation (spec 3.2 to 3.4, 4.3 to 4.7). rotation-codes.test.ts tests which request gets which code. */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Metric, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { rotations } from "../../src/platform/metrics/Metrics.ts"
import { expectOutcome, expectReplayOf } from "../support/bridges/Answers.ts"
import type { Bridge } from "../support/bridges/Bridge.ts"
import { invariants } from "../support/attacks/Invariants.ts"
import { unchanged } from "../support/database/Rows.ts"
import { instance, Service } from "../support/service/Service.ts"
import { withNewCredential, disableProject, revokeIdentity } from "../support/bridges/Steps.ts"
import { holder, rotate, rotating, successorOf, tokens } from "../support/bridges/Tokens.ts"
import { firstPage } from "../support/database/Page.ts"

const rotationTtl = Duration.seconds(300)
const tokenTtl = Duration.hours(24)

const secondsFromNow = (instant: string) =>
  Effect.map(
    TestClock.testClockWith((clock) => clock.currentTimeMillis),
    (now) => (Date.parse(instant) - now) / 1000
  )

/** The audit rows of a Bridge, newest first. */
const auditRowsOf = Effect.fnUntraced(function* ({ bridge_id, project_id }: Bridge) {
  const events = yield* Context.get((yield* Service).services, Audit).list(project_id, firstPage)
  return events.filter(({ subject }) => subject["bridge_id"] === bridge_id)
})

/** A replica with another token secret; it knows the old one only as `previous`. */
const withOtherSecret = (previous?: string) =>
  Effect.map(
    instance({
      SERVICE_BRIDGE_TOKEN_SECRET: "another-token-secret-0123456789abcdefghijk",
      ...(previous && { SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: previous })
    }),
    tokens
  )

layer(Service.layer)("a Bridge that rotates without end", (it) => {
  it.effect(
    "prepares 60 rotations in an hour, aborted ones too, then waits as Retry-After says and keeps its token",
    () =>
      Effect.gen(function* () {
        const { token } = yield* holder()
        const on = tokens(yield* instance({ SERVICE_RATE_LIMITS: "on" }))
        let current = yield* rotate(on, token, "r0")
        for (let index = 1; index < 59; index += 1) {
          yield* TestClock.adjust("1 second")
          if (index % 2 === 0) current = yield* rotate(on, current, `r${index}`)
          else {
            const { rotation_id, successor } = successorOf(yield* on.prepare(current, `r${index}`))
            expectOutcome(yield* on.abort(successor, rotation_id, `r${index}`), 200)
          }
        }
        const last = successorOf(yield* on.prepare(current, "last"))
        expectReplayOf(yield* on.prepare(current, "last"), last.prepared)
        expectOutcome(yield* on.abort(last.successor, last.rotation_id, "last"), 200)
        const refused = yield* unchanged(on.prepare(current, "more"))
        expectOutcome(refused, "rate_limited")
        assert.strictEqual(refused.status, 429)
        assert.strictEqual(refused.headers.get("retry-after"), String(3600 - 58))
        expectOutcome(yield* on.self(current), 200)
        yield* TestClock.adjust(Duration.seconds(3600 - 58))
        current = yield* rotate(on, current, "more")
        expectOutcome(yield* on.prepare(current, "again"), "rate_limited")
        // The limits of time are off at the other instance.
        expectOutcome(yield* tokens(yield* Service).prepare(current, "again"), 201)
      })
  )
})

layer(Service.layer)("prepare", (it) => {
  it.effect("mints a successor and returns the end of its confirmation window", () =>
    Effect.gen(function* () {
      const { prepared, token } = yield* rotating()
      const { confirmation_expires_at, successor_token, ...rest } = prepared.body
      assert.deepStrictEqual(Object.keys(rest).toSorted(), ["rotation_id", "scope", "token_type"])
      assert.deepInclude(rest, { token_type: "Bearer", scope: "bridge:transport" })
      assert.match(successor_token, /^sbt_[0-9A-Za-z]{49}$/)
      assert.notStrictEqual(successor_token, token)
      assert.strictEqual(yield* secondsFromNow(confirmation_expires_at), 300)
      assert.strictEqual(prepared.headers.get("cache-control"), "no-store")
    })
  )

  it.effect("ignores any body of any media type", () =>
    Effect.gen(function* () {
      const { at, token } = yield* holder()
      const headers = { "content-type": "text/plain" }
      expectOutcome(yield* at("rotate/prepare", { bearer: token, key: "k", body: "{not json", headers }), 201)
    })
  )

  it.effect("keeps the predecessor active and shows it the pending rotation", () =>
    Effect.gen(function* () {
      const { prepared, rotation_id, self, token } = yield* rotating()
      const { confirmation_expires_at } = prepared.body
      const { body } = yield* self(token)
      assert.deepStrictEqual(body.pending_rotation, { rotation_id, confirmation_expires_at })
    })
  )

  it.effect("repeated with its Idempotency-Key returns the same successor", () =>
    Effect.gen(function* () {
      const { prepare, prepared, token } = yield* rotating()
      yield* TestClock.adjust(Duration.subtract(rotationTtl, Duration.millis(1)))
      expectReplayOf(yield* unchanged(prepare(token)), prepared)
    })
  )

  it.effect("repeated at another replica returns the same successor", () =>
    Effect.gen(function* () {
      const { prepared, token } = yield* rotating()
      const other = tokens(yield* instance())
      expectReplayOf(yield* other.prepare(token), prepared)
    })
  )

  it.effect(
    "repeated after the secret was replaced returns the same successor while the previous secret is configured",
    () =>
      Effect.gen(function* () {
        const { prepared, token } = yield* rotating()
        const on = yield* withOtherSecret("token-secret-of-the-tests-0123456789abcdef")
        expectReplayOf(yield* on.prepare(token), prepared)
      })
  )

  it.effect("repeated without the secret that derived the successor mints nothing, and an abort allows a new one", () =>
    Effect.gen(function* () {
      const { abort, rotation_id, successor, token } = yield* rotating()
      const on = yield* withOtherSecret()
      expectOutcome(yield* unchanged(on.prepare(token)), "bridge_persistence_error")
      expectOutcome(yield* abort(successor, rotation_id), 200)
      expectOutcome(yield* on.prepare(token, "bridge-rotate-2"), 201)
    })
  )

  it.effect("with an Idempotency-Key that another Bridge used is independent of that Bridge", () =>
    Effect.gen(function* () {
      const one = yield* rotating()
      const other = yield* rotating()
      assert.notStrictEqual(one.successor, other.successor)
    })
  )

  it.effect("answers in Retry-After how long another rotation can stay pending", () =>
    Effect.gen(function* () {
      const { prepare, token } = yield* rotating()
      yield* TestClock.adjust("100 seconds")
      const refused = yield* prepare(token, "another")
      assert.strictEqual(refused.headers.get("retry-after"), "200")
    })
  )

  it.effect("replaces a rotation whose window has passed", () =>
    Effect.gen(function* () {
      const { confirm, prepare, rotation_id, successor, token } = yield* rotating()
      yield* TestClock.adjust(rotationTtl)
      const next = successorOf(yield* prepare(token, "second"))
      assert.notStrictEqual(next.successor, successor)
      expectOutcome(yield* confirm(successor, rotation_id), "bridge_rotation_expired")
      expectOutcome(yield* confirm(next.successor, next.rotation_id), 200)
      yield* invariants
    })
  )

  it.effect("refused for the Idempotency-Key of an expired rotation does not block the next one", () =>
    Effect.gen(function* () {
      const { prepare, token } = yield* rotating()
      yield* TestClock.adjust(rotationTtl)
      expectOutcome(yield* prepare(token), "bridge_rotation_expired")
      expectOutcome(yield* prepare(token, "second"), 201)
      yield* invariants
    })
  )

  it.effect("after an abort needs a new Idempotency-Key", () =>
    Effect.gen(function* () {
      const { abort, prepare, rotation_id, successor, token } = yield* rotating()
      yield* abort(successor, rotation_id)
      expectOutcome(yield* prepare(token), "bridge_rotation_aborted")
      expectOutcome(yield* prepare(token, "second"), 201)
    })
  )

  it.effect("from another address while a rotation is pending writes an audit row and locks nobody out", () =>
    Effect.gen(function* () {
      const { bridge, confirm, rotation_id, successor, token } = yield* rotating()
      const proxied = yield* instance({ SERVICE_TRUSTED_PROXIES: "127.0.0.0/8" })
      const fromAnotherAddress = tokens(proxied).at("rotate/prepare", {
        bearer: token,
        key: "thief",
        headers: { "x-forwarded-for": "203.0.113.9" }
      })
      expectOutcome(yield* fromAnotherAddress, "bridge_rotation_in_progress")
      expectOutcome(yield* fromAnotherAddress, "bridge_rotation_in_progress")
      // A second prepare from the address of the first one is not suspicious.
      expectOutcome(yield* tokens(yield* Service).prepare(token, "again"), "bridge_rotation_in_progress")
      const [refusal, ...rest] = (yield* auditRowsOf(bridge)).filter(({ outcome }) => outcome === "refused")
      assert.deepInclude(refusal, {
        action: "bridge.rotation_prepared_elsewhere",
        code: "bridge_rotation_in_progress",
        address: "203.0.113.9",
        count: 2
      })
      assert.deepStrictEqual(rest, [])
      expectOutcome(yield* confirm(successor, rotation_id), 200)
    })
  )
})

layer(Service.layer)("confirm", (it) => {
  it.effect("promotes the successor and revokes the predecessor", () =>
    Effect.gen(function* () {
      const { bridge, confirm, rotation_id, self, successor, token } = yield* rotating()
      const confirmed = yield* confirm(successor, rotation_id)
      const { expires_at, ...rest } = confirmed.body
      assert.deepStrictEqual(rest, {
        rotation_id,
        status: "confirmed",
        project_id: bridge.project_id,
        bridge_id: bridge.bridge_id,
        token_type: "Bearer",
        scope: "bridge:transport"
      })
      assert.strictEqual(yield* secondsFromNow(expires_at), 86_400)
      const { body } = yield* self(successor)
      assert.deepInclude(body, { bridge_id: bridge.bridge_id, expires_at, pending_rotation: null })
      expectOutcome(yield* self(token), "bridge_token_revoked")
      yield* invariants
    })
  )

  it.effect("works until one millisecond before the window ends", () =>
    Effect.gen(function* () {
      const { confirm, rotation_id, successor } = yield* rotating()
      yield* TestClock.adjust(Duration.subtract(rotationTtl, Duration.millis(1)))
      expectOutcome(yield* confirm(successor, rotation_id), 200)
    })
  )

  it.effect("works until one millisecond before the predecessor expires, and gives the successor a full lifetime", () =>
    Effect.gen(function* () {
      const { confirm, prepare, self, token } = yield* holder()
      yield* TestClock.adjust(Duration.subtract(tokenTtl, Duration.seconds(1)))
      const { rotation_id, successor } = successorOf(yield* prepare(token))
      yield* TestClock.adjust("999 millis")
      expectOutcome(yield* confirm(successor, rotation_id), 200)
      yield* TestClock.adjust(Duration.subtract(tokenTtl, Duration.millis(1)))
      expectOutcome(yield* self(successor), 200)
    })
  )

  it.effect("repeated with its Idempotency-Key returns the same answer, at any replica and long after the window", () =>
    Effect.gen(function* () {
      const { confirm, rotation_id, successor } = yield* rotating()
      const first = yield* confirm(successor, rotation_id)
      const other = tokens(yield* instance())
      yield* TestClock.adjust("10 hours")
      expectReplayOf(yield* unchanged(other.confirm(successor, rotation_id)), first)
    })
  )

  it.effect("can use the Idempotency-Key of the prepare", () =>
    Effect.gen(function* () {
      const { prepare, confirm, token } = yield* holder()
      const { rotation_id, successor } = successorOf(yield* prepare(token, "one-key"))
      expectOutcome(yield* confirm(successor, rotation_id, "one-key"), 200)
    })
  )

  it.effect("accepts a rotation_id in upper case and returns it in lower case", () =>
    Effect.gen(function* () {
      const { confirm, rotation_id, successor } = yield* rotating()
      const confirmed = yield* confirm(successor, rotation_id.toUpperCase())
      assert.strictEqual(confirmed.body.rotation_id, rotation_id)
    })
  )

  it.effect("can be followed by another rotation, a hundred times", () =>
    Effect.gen(function* () {
      const { self, token, ...on } = yield* holder()
      let current = token
      for (let i = 0; i < 100; i++) current = yield* rotate({ self, ...on }, current, `round-${i}`)
      expectOutcome(yield* self(current), 200)
      yield* invariants
    })
  )
})

layer(Service.layer)("abort", (it) => {
  it.effect("revokes the successor and does not change the predecessor", () =>
    Effect.gen(function* () {
      const { abort, bridge, rotation_id, self, successor, token } = yield* rotating()
      const before = yield* holder().pipe(Effect.andThen(self(token)))
      const aborted = yield* abort(successor, rotation_id)
      assert.deepStrictEqual(aborted.body, {
        rotation_id,
        status: "aborted",
        project_id: bridge.project_id,
        bridge_id: bridge.bridge_id
      })
      expectOutcome(yield* self(successor), "bridge_token_revoked")
      assert.deepStrictEqual((yield* self(token)).body, { ...before.body, pending_rotation: null })
      yield* invariants
    })
  )

  it.effect("repeated with its Idempotency-Key returns the same answer", () =>
    Effect.gen(function* () {
      const { abort, rotation_id, successor } = yield* rotating()
      const first = yield* abort(successor, rotation_id)
      yield* TestClock.adjust(rotationTtl)
      expectReplayOf(yield* unchanged(abort(successor, rotation_id)), first)
    })
  )

  it.effect("works although the predecessor has expired", () =>
    Effect.gen(function* () {
      const { abort, prepare, token } = yield* holder()
      yield* TestClock.adjust(Duration.subtract(tokenTtl, Duration.seconds(1)))
      const { rotation_id, successor } = successorOf(yield* prepare(token))
      yield* TestClock.adjust("1 second")
      expectOutcome(yield* abort(successor, rotation_id), 200)
    })
  )

  it.effect("can use the Idempotency-Key that confirmed an earlier rotation", () =>
    Effect.gen(function* () {
      const { abort, confirm, prepare, rotation_id, successor } = yield* rotating()
      yield* confirm(successor, rotation_id, "one-key")
      const next = successorOf(yield* prepare(successor, "second"))
      expectOutcome(yield* abort(next.successor, next.rotation_id, "one-key"), 200)
    })
  )
})

layer(Service.layer)("revoke", (it) => {
  it.effect("revokes the token for good and returns the time", () =>
    Effect.gen(function* () {
      const { revoke, self, token } = yield* holder()
      const revoked = yield* revoke(token)
      assert.deepStrictEqual(Object.keys(revoked.body), ["status", "revoked_at"])
      assert.strictEqual(yield* secondsFromNow(revoked.body.revoked_at), 0)
      expectOutcome(yield* self(token), "bridge_token_revoked")
      yield* invariants
    })
  )

  it.effect("ignores any body of any media type", () =>
    Effect.gen(function* () {
      const { at, token } = yield* holder()
      expectOutcome(
        yield* at("revoke", { bearer: token, body: "{not json", headers: { "content-type": "text/plain" } }),
        200
      )
    })
  )

  it.effect("of a predecessor cancels its successor", () =>
    Effect.gen(function* () {
      const { confirm, revoke, rotation_id, self, successor, token } = yield* rotating()
      expectOutcome(yield* revoke(token), 200)
      expectOutcome(yield* self(successor), "bridge_token_revoked")
      expectOutcome(yield* confirm(successor, rotation_id), "bridge_rotation_predecessor_revoked")
      yield* invariants
    })
  )

  it.effect("can be followed by a re-enrollment", () =>
    Effect.gen(function* () {
      const { bridge, revoke, self, token } = yield* rotating()
      yield* revoke(token)
      const next = yield* holder(yield* withNewCredential(bridge, { reenroll: bridge.bridge_id }), "after")
      expectOutcome(yield* self(next.token), 200)
      expectOutcome(yield* next.prepare(next.token, "after"), 201)
      yield* invariants
    })
  )
})

layer(Service.layer)("emergency revocation", (it) => {
  it.effect("ends token, successor and rotation at once", () =>
    Effect.gen(function* () {
      const { bridge } = yield* rotating()
      yield* revokeIdentity(bridge)
      const bridges = Context.get((yield* Service).services, Bridges)
      const { pending_rotation_id, status, tokens: ended } = yield* bridges.show(bridge.project_id, bridge.bridge_id)
      assert.deepStrictEqual([status, pending_rotation_id], ["revoked", null])
      assert.deepStrictEqual(
        ended.map(({ state }) => state),
        ["revoked", "revoked"]
      )
      yield* invariants
    })
  )

  it.effect("can be repeated and keeps the first time", () =>
    Effect.gen(function* () {
      const { bridge } = yield* rotating()
      const first = yield* revokeIdentity(bridge)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* revokeIdentity(bridge), first)
    })
  )
})

layer(Service.layer)("self", (it) => {
  it.effect("describes the Bridge that the token belongs to", () =>
    Effect.gen(function* () {
      const { bridge, self, token } = yield* holder()
      const { body, headers } = yield* self(token)
      const { token_id, expires_at, ...rest } = body
      assert.deepStrictEqual(rest, {
        project_id: bridge.project_id,
        bridge_id: bridge.bridge_id,
        device_id: "device-1",
        display_name: "A test Bridge",
        account_references: ["github:octo"],
        scope: "bridge:transport",
        pending_rotation: null,
        key: {
          public_key_fingerprint: bridge.challengeBody.public_key_fingerprint,
          since: body.key.since,
          rotation_required: false,
          pending_rotation: null
        }
      })
      assert.strictEqual(yield* secondsFromNow(body.key.since), 0)
      assert.match(token_id, /^[0-9a-f-]{36}$/)
      assert.strictEqual(yield* secondsFromNow(expires_at), 86_400)
      assert.strictEqual(headers.get("cache-control"), "no-store")
    })
  )

  it.effect(
    "hides a withdrawn account reference until it is approved again, and references that the Bridge does not have",
    () =>
      Effect.gen(function* () {
        const { bridge, self, token } = yield* holder()
        const projects = Context.get((yield* Service).services, Projects)
        yield* projects.approveReference(bridge.project_id, "github:somebody", Option.none())
        yield* projects.withdrawReference(bridge.project_id, "github:octo")
        assert.deepStrictEqual((yield* self(token)).body.account_references, [])
        yield* projects.approveReference(bridge.project_id, "github:octo", Option.none())
        assert.deepStrictEqual((yield* self(token)).body.account_references, ["github:octo"])
      })
  )

  it.effect("shows no rotation whose window has passed, before a sweep", () =>
    Effect.gen(function* () {
      const { self, token } = yield* rotating()
      yield* TestClock.adjust(rotationTtl)
      assert.isNull((yield* self(token)).body.pending_rotation)
    })
  )

  it.effect("works again once a disabled project is enabled", () =>
    Effect.gen(function* () {
      const { bridge, confirm, rotation_id, self, successor, token } = yield* rotating()
      yield* disableProject(bridge)
      expectOutcome(yield* self(token), "bridge_revoked")
      yield* Context.get((yield* Service).services, Projects).enable(bridge.project_id)
      expectOutcome(yield* self(token), 200)
      expectOutcome(yield* confirm(successor, rotation_id), 200)
    })
  )

  for (const request of ["self", "confirm", "abort"] as const) {
    it.effect(`with a rotated token writes an audit row after a minute and locks nobody out: ${request}`, () =>
      Effect.gen(function* () {
        const { bridge, token, ...on } = yield* holder()
        const next = yield* rotate(on, token, "r")
        const reuse = on[request](token, randomUUID())
        const suspicions = Effect.map(auditRowsOf(bridge), (events) =>
          events.filter(({ action }) => action === "bridge.token_reused_after_rotation")
        )
        yield* TestClock.adjust("60 seconds")
        expectOutcome(yield* reuse, "bridge_token_revoked")
        assert.deepStrictEqual(yield* suspicions, [])
        yield* TestClock.adjust("1 millis")
        expectOutcome(yield* reuse, "bridge_token_revoked")
        assert.lengthOf(yield* suspicions, 1)
        expectOutcome(yield* on.self(next), 200)
      })
    )
  }
})

layer(Service.layer)("a request", (it) => {
  const requests = {
    prepare: Effect.map(holder(), ({ bridge, prepare, token }) => ({ bridge, request: prepare(token) })),
    confirm: Effect.map(rotating(), ({ bridge, confirm, rotation_id, successor }) => ({
      bridge,
      request: confirm(successor, rotation_id)
    })),
    abort: Effect.map(rotating(), ({ abort, bridge, rotation_id, successor }) => ({
      bridge,
      request: abort(successor, rotation_id)
    })),
    revoke: Effect.map(holder(), ({ bridge, revoke, token }) => ({ bridge, request: revoke(token) }))
  }
  /** Changes only this row, so that nothing else which the operator's commands end can cause the refusal. */
  const ends = {
    "a Bridge of a disabled project": ({ project_id }: Bridge) =>
      SqlClient.SqlClient.use(
        (sql) => sql`update project set disabled_at = clock_timestamp() where project_id = ${project_id}::uuid`
      ),
    "a revoked Bridge": ({ bridge_id, project_id }: Bridge) =>
      SqlClient.SqlClient.use(
        (sql) => sql`
          update bridge_identity
             set status = 'revoked', revoked_at = clock_timestamp()
           where project_id = ${project_id}::uuid
             and bridge_id = ${bridge_id}`
      )
  }
  for (const [name, make] of Object.entries(requests)) {
    for (const [whose, end] of Object.entries(ends)) {
      it.effect(`to ${name} from ${whose} is refused and changes nothing`, () =>
        Effect.gen(function* () {
          const { bridge, request } = yield* make
          yield* end(bridge)
          expectOutcome(yield* unchanged(request), "bridge_revoked")
        })
      )
    }
  }
})

layer(Service.layer)("a step of a token's life", (it) => {
  it.effect("is counted under its name", () =>
    Effect.gen(function* () {
      const counts = Effect.forEach(["prepare", "abort", "confirm", "revoke"], (step) =>
        Effect.map(Metric.value(rotations(step, "ok")), (state) => Number((state as Metric.CounterState<number>).count))
      )
      const before = yield* counts
      const { abort, confirm, prepare, revoke, rotation_id, successor, token } = yield* rotating()
      yield* abort(successor, rotation_id)
      const next = successorOf(yield* prepare(token, "again"))
      yield* confirm(next.successor, next.rotation_id)
      yield* confirm(next.successor, next.rotation_id)
      yield* revoke(next.successor)
      assert.deepStrictEqual(
        (yield* counts).map((count, n) => count - before[n]!),
        [2, 1, 2, 1]
      )
    })
  )
})

layer(Service.layer)("the audit log", (it) => {
  it.effect("has one row for every mutation of a token and none for a replay", () =>
    Effect.gen(function* () {
      const { abort, bridge, confirm, prepare, revoke, rotation_id, successor, token } = yield* rotating()
      yield* prepare(token)
      yield* abort(successor, rotation_id)
      yield* abort(successor, rotation_id)
      const next = successorOf(yield* prepare(token, "second"))
      yield* confirm(next.successor, next.rotation_id)
      yield* confirm(next.successor, next.rotation_id)
      yield* revoke(next.successor)
      const actions = (yield* auditRowsOf(bridge)).map(({ action, actor }) => [action, actor])
      const by = `bridge:${bridge.bridge_id}`
      assert.sameDeepMembers(actions, [
        ["bridge.challenge_created", by],
        ["bridge.enrolled", by],
        ["bridge.rotation_prepared", by],
        ["bridge.rotation_aborted", by],
        ["bridge.rotation_prepared", by],
        ["bridge.rotation_confirmed", by],
        ["bridge.token_revoked", by]
      ])
    })
  )

  it.effect("contains no token, and neither does any other table", () =>
    Effect.gen(function* () {
      const { bridge, confirm, rotation_id, successor, token } = yield* rotating()
      yield* confirm(successor, rotation_id)
      const sql = yield* SqlClient.SqlClient
      const [{ dump } = { dump: "" }] = yield* sql<{ dump: string }>`
        select database_to_xml(true, false, '')::text as dump`
      assert.include(dump, bridge.bridge_id)
      for (const raw of [token, successor]) {
        const forms = [raw, raw.slice(4, 47), Buffer.from(raw).toString("hex"), Buffer.from(raw).toString("base64")]
        for (const form of forms) assert.isFalse(dump.includes(form))
      }
    })
  )
})
