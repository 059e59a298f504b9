/** What a Bridge does about refusals (spec 7.2): the reactions that the tables in src/wire/bridges name. */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { Patience } from "../../src/client/bridge/Client.ts"
import { issueCredential, makeProject } from "../support/bridges/Bridge.ts"
import { Credentials } from "../../src/bridges/enrollment/Credentials.ts"
import { askProven, keysIn } from "../support/bridges/signatures/DpopProofs.ts"
import { newcomer, process, tokensOf } from "../support/bridges/BridgeProcess.ts"
import { firstPage } from "../support/database/Page.ts"
import { Service } from "../support/service/Service.ts"

const state = (path: string) => JSON.parse(readFileSync(join(path, "state.json"), "utf8"))

layer(Service.layer)("the reference Bridge", (it) => {
  const enrolled = Effect.gen(function* () {
    const service = yield* Service
    const bridge = yield* newcomer(service, yield* makeProject(service))
    yield* process(bridge.path, bridge.enroll)
    return { service, ...bridge }
  })

  it.effect("after an emergency revocation, stops and does not change its folder", () =>
    Effect.gen(function* () {
      const { order, path, service } = yield* enrolled
      yield* process(path, (bridge) => bridge.rotate, { killAt: 6 })
      const before = state(path)
      yield* Context.get(service.services, Bridges).revoke(order.identity.project_id, order.identity.bridge_id)
      for (const action of ["rotate", "abort", "status"] as const) {
        const refused = yield* Effect.flip(
          process(path, (bridge): Effect.Effect<unknown, { _tag: string }> => bridge[action])
        )
        assert.strictEqual(refused._tag, "bridge_revoked")
      }
      assert.strictEqual((yield* Effect.flip(process(path, (bridge) => bridge.run)))._tag, "bridge_revoked")
      assert.deepEqual(state(path), before)
    })
  )

  it.effect("because the clock of its machine is a day wrong, corrects it by Date and repeats the request once", () =>
    Effect.gen(function* () {
      for (const day of [-86_400_000, 86_400_000]) {
        const { order, path, service } = yield* enrolled
        const clock = yield* Clock.Clock
        const skewed: Clock.Clock = {
          ...clock,
          sleep: (duration) => clock.sleep(duration),
          currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + day,
          currentTimeMillis: Effect.map(clock.currentTimeMillis, (millis) => millis + day)
        }
        yield* Effect.provideService(
          process(path, (bridge) => bridge.rotate),
          Clock.Clock,
          skewed
        )
        assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
        const events = yield* Context.get(service.services, Audit).list(order.identity.project_id, firstPage)
        const refused = events.filter(({ action }) => action === "bridge.possession")
        assert.deepEqual(
          refused.map(({ count }) => count),
          [1]
        )
      }
    })
  )

  it.effect("because its token has expired, reports that and prepares nothing", () =>
    Effect.gen(function* () {
      const { order, path, service } = yield* enrolled
      yield* TestClock.adjust("25 hours")
      assert.strictEqual((yield* Effect.flip(process(path, (bridge) => bridge.rotate)))._tag, "bridge_token_expired")
      assert.strictEqual((yield* Effect.flip(process(path, (bridge) => bridge.run)))._tag, "bridge_token_expired")
      assert.notInclude(yield* tokensOf(service, order.identity), "pending")
    })
  )

  it.effect("because its token was rotated elsewhere, stops", () =>
    Effect.gen(function* () {
      const { path, service } = yield* enrolled
      const keys = keysIn(path)
      const prepared = yield* askProven(service, "prepare", state(path).token.access_token, keys)
      const { rotation_id, successor_token } = prepared.body
      assert.strictEqual(
        (yield* Effect.flip(process(path, (bridge) => bridge.rotate)))._tag,
        "bridge_rotation_in_progress"
      )
      yield* askProven(service, "confirm", successor_token, keys, { rotation_id })
      assert.strictEqual((yield* Effect.flip(process(path, (bridge) => bridge.rotate)))._tag, "bridge_token_revoked")
    })
  )

  it.effect("because its rotation was ended with another Idempotency-Key, continues with the good token", () =>
    Effect.gen(function* () {
      for (const [ending, states] of [
        ["abort", ["active", "revoked", "revoked"]],
        ["confirm", ["active", "revoked"]]
      ] as const) {
        const { order, path, service } = yield* enrolled
        yield* process(path, (bridge) => bridge.rotate, { killAt: 6 })
        const { rotation_id, successor_token } = state(path).rotation
        const ended = yield* askProven(service, ending, successor_token, keysIn(path), { rotation_id })
        assert.strictEqual(ended.status, 200)
        yield* process(path, (bridge) => Effect.andThen(bridge.rotate, bridge.status))
        assert.deepEqual(yield* tokensOf(service, order.identity), [...states])
      }
    })
  )

  it.effect("because its rotation was confirmed before the abort, keeps the successor", () =>
    Effect.gen(function* () {
      const { path, service } = yield* enrolled
      yield* process(path, (bridge) => bridge.rotate, { killAt: 6 })
      const { rotation_id, successor_token } = state(path).rotation
      yield* askProven(service, "confirm", successor_token, keysIn(path), { rotation_id })
      const { value } = yield* process(path, (bridge) => bridge.abort)
      assert.strictEqual(value?.aborted, false)
      assert.strictEqual(state(path).token.access_token, successor_token)
    })
  )

  it.effect("after its challenge expired, gets a new one with the same credential", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { enroll, order, path } = yield* newcomer(service, yield* makeProject(service))
      yield* process(path, enroll, { killAt: 5 })
      yield* TestClock.adjust("11 minutes")
      yield* process(path, enroll)
      assert.deepEqual(yield* tokensOf(service, order.identity), ["active"])
    })
  )

  it.effect("because its credential was revoked, enrolls with the next one", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      const { order, path } = yield* newcomer(service, project_id)
      const bad = yield* issueCredential(service, project_id)
      yield* Context.get(service.services, Credentials).revoke(bad.credential_id)
      const refused = yield* Effect.flip(
        process(path, (bridge) => bridge.enroll({ ...order, credential: Redacted.make(bad.credential) }))
      )
      assert.strictEqual(refused._tag, "bridge_enrollment_credential_revoked")
      yield* process(path, (bridge) => bridge.enroll(order))
      assert.deepEqual(yield* tokensOf(service, order.identity), ["active"])
    })
  )

  it.effect("sends nothing for a credential that it has used, and keeps its token when another one is refused", () =>
    Effect.gen(function* () {
      const { enroll, order, path, service } = yield* enrolled
      const before = state(path)
      yield* process(path, enroll, { loseAt: 1 })
      assert.deepEqual(state(path), before)
      const other = yield* issueCredential(service, order.identity.project_id)
      const credential = Redacted.make(other.credential)
      const refused = yield* Effect.flip(process(path, (bridge) => bridge.enroll({ ...order, credential })))
      assert.strictEqual(refused._tag, "bridge_not_pending")
      assert.deepEqual(state(path).token, before.token)
    })
  )

  it.effect("gets a new token for the same identity with a re-enrollment credential", () =>
    Effect.gen(function* () {
      const { order, path, service } = yield* enrolled
      const { bridge_id, project_id } = order.identity
      const again = yield* issueCredential(service, project_id, { reenroll: bridge_id })
      const credential = Redacted.make(again.credential)
      yield* process(path, (bridge) => Effect.andThen(bridge.enroll({ ...order, credential }), bridge.status))
      assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
    })
  )

  it.effect("refuses to use a folder for another bridge_id, project, machine or name", () =>
    Effect.gen(function* () {
      const { order, path } = yield* enrolled
      for (const other of [
        { bridge_id: "another" },
        { project_id: randomUUID() },
        { device_id: "another" },
        { display_name: "Another" }
      ]) {
        const identity = { ...order.identity, ...other }
        const refused = yield* Effect.flip(process(path, (bridge) => bridge.enroll({ ...order, identity })))
        assert.strictEqual(refused._tag, "OtherBridge")
      }
    })
  )

  it.effect("keeps a new address of the service, given with the credential that it had", () =>
    Effect.gen(function* () {
      const { order, path } = yield* enrolled
      const base_url = order.base_url.replace("127.0.0.1", "localhost")
      yield* process(path, (bridge) => bridge.enroll({ ...order, base_url }))
      assert.strictEqual(state(path).base_url, base_url)
    })
  )

  it.effect("after no answer, repeats the enrollment that it began", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { enroll, order, path } = yield* newcomer(service, yield* makeProject(service))
      const unreachable = yield* process(path, (bridge) =>
        bridge.enroll({ ...order, base_url: "http://127.0.0.1:1" })
      ).pipe(Effect.provideService(Patience, Duration.zero), TestClock.withLive, Effect.flip)
      assert.strictEqual(unreachable._tag, "ServiceUnreachable")
      yield* process(path, enroll)
      assert.deepEqual(yield* tokensOf(service, order.identity), ["active"])
    })
  )
})
