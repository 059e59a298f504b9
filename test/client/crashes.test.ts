/** The reference Bridge is killed at every possible point and started again (spec 3.4, 4.1 to 4.7). */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fingerprint } from "../../src/client/Crypto.ts"
import { issueCredential, makeProject } from "../support/bridges/Bridge.ts"
import { keysIn } from "../support/bridges/signatures/DpopProofs.ts"
import { bridgeOf, newcomer, process, seen as seenOnWire, tokensOf } from "../support/bridges/BridgeProcess.ts"
import { Service } from "../support/service/Service.ts"

/** Runs `at` with each point in turn, until a run ends without reaching its point. Returns the number of points. */
const everyPoint = Effect.fnUntraced(function* <E, R>(at: (killAt: number) => Effect.Effect<boolean, E, R>) {
  let points = 0
  while (yield* at(points + 1)) points++
  return points
})

const raw = (token: { readonly access_token: Redacted.Redacted<string> } | undefined) =>
  token && Redacted.value(token.access_token)

const filesOf = (path: string) => readdirSync(path).map((name) => readFileSync(join(path, name), "utf8"))

layer(Service.layer)("a Bridge that is killed", (it) => {
  it.effect("while it enrolls, has one token from one credential after a restart", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      const points = yield* everyPoint((killAt) =>
        Effect.gen(function* () {
          const { enroll, order, path } = yield* newcomer(service, project_id)
          const first = yield* process(path, enroll, { killAt })
          yield* process(path, enroll, { killAt })
          const status = yield* process(path, (bridge) => Effect.andThen(enroll(bridge), bridge.status))
          assert.strictEqual(status.value?.bridge_id, order.identity.bridge_id)
          assert.deepEqual(yield* tokensOf(service, order.identity), ["active"])
          for (const content of filesOf(path)) {
            assert.notInclude(content, Redacted.value(order.credential))
            for (const secret of [...seenOnWire.nonces, ...seenOnWire.signatures]) assert.notInclude(content, secret)
          }
          return first.killed
        })
      )
      // Key pair, Idempotency-Keys, challenge, proof, token. A write or exchange has two points, generating the key pair one.
      assert.strictEqual(points, 1 + 2 + 2 + 2 + 2)
      assert.isAbove(seenOnWire.nonces.size, 1)
    })
  )

  for (const [when, seconds] of [
    ["at once", 0],
    ["after the confirmation window", 301]
  ] as const) {
    it.effect(`while it rotates, and restarted ${when}, has one active token`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const project_id = yield* makeProject(service)
        const points = yield* everyPoint((killAt) =>
          Effect.gen(function* () {
            const { enroll, order, path } = yield* newcomer(service, project_id)
            const enrolled = yield* process(path, enroll)
            const first = yield* process(path, (bridge) => bridge.rotate, { killAt })
            yield* TestClock.adjust(seconds * 1000)
            const { value } = yield* process(path, (bridge) =>
              Effect.gen(function* () {
                const { token } = yield* bridge.rotate
                return { token, status: yield* bridge.status }
              })
            )
            assert.strictEqual(value?.status.pending_rotation, null)
            assert.notStrictEqual(raw(value?.token), raw(enrolled.value?.token))
            const states = yield* tokensOf(service, order.identity)
            assert.strictEqual(states.filter((state) => state === "active").length, 1, states.join())
            assert.notInclude(states, "pending")
            return first.killed
          })
        )
        // `prepared`, prepare, `stored`, confirm, `confirmed`.
        assert.strictEqual(points, 5 * 2)
      })
    )
  }

  for (const [when, seconds] of [
    ["at once", 0],
    ["after the confirmation window", 301]
  ] as const) {
    it.effect(`while it replaces its key, and restarted ${when}, works with the key that the service knows`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const project_id = yield* makeProject(service)
        const points = yield* everyPoint((killAt) =>
          Effect.gen(function* () {
            const { enroll, order, path } = yield* newcomer(service, project_id)
            yield* process(path, enroll)
            const before = keysIn(path)
            const first = yield* process(path, (bridge) => bridge.rotateKey, { killAt })
            yield* TestClock.adjust(seconds * 1000)
            // What comes next need not be the key rotation again; the status in between reads only.
            const seen = yield* process(path, (bridge) => bridge.status)
            yield* process(path, (bridge) => bridge.rotate)
            const { value } = yield* process(path, (bridge) => bridge.status)
            const shown = yield* bridgeOf(service, order.identity)
            assert.strictEqual(value?.key?.public_key_fingerprint, shown.public_key_fingerprint)
            assert.strictEqual(shown.public_key_fingerprint, fingerprint(keysIn(path).publicKey))
            assert.notInclude(readFileSync(join(path, "key.json"), "utf8"), "next")
            assert.isNull(value?.key?.pending_rotation)
            // The status has shown the same key unless the key was replaced after it.
            if (seen.value?.key?.public_key_fingerprint !== shown.public_key_fingerprint)
              assert.strictEqual(seen.value?.key?.public_key_fingerprint, fingerprint(before.publicKey))
            if (!first.killed) assert.notStrictEqual(shown.public_key_fingerprint, fingerprint(before.publicKey))
            for (const content of filesOf(path))
              for (const secret of [...seenOnWire.nonces, ...seenOnWire.signatures]) assert.notInclude(content, secret)
            return first.killed
          })
        )
        // Both keys, prepare, confirm, the new key.
        assert.strictEqual(points, 4 * 2)
      })
    )
  }

  it.effect("while it gives a new key up, keeps one of the two", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      // Killed after the answer to prepare, and after the answer to confirm.
      for (const [before, aborts] of [
        [4, true],
        [6, false]
      ] as const) {
        yield* everyPoint((killAt) =>
          Effect.gen(function* () {
            const { enroll, order, path } = yield* newcomer(service, project_id)
            yield* process(path, enroll)
            const old = fingerprint(keysIn(path).publicKey)
            yield* process(path, (bridge) => bridge.rotateKey, { killAt: before })
            const first = yield* process(path, (bridge) => bridge.abort, { killAt })
            yield* process(path, (bridge) => bridge.abort)
            const shown = yield* bridgeOf(service, order.identity)
            assert.strictEqual(shown.public_key_fingerprint === old, aborts)
            assert.strictEqual(fingerprint(keysIn(path).publicKey), shown.public_key_fingerprint)
            const { value } = yield* process(path, (bridge) => bridge.status)
            assert.isNull(value?.key?.pending_rotation)
            return first.killed
          })
        )
      }
    })
  )

  it.effect("while it replaces its key, can revoke its token or enroll again", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      for (const killAt of [2, 4, 6, 8]) {
        const { enroll, order, path } = yield* newcomer(service, project_id)
        yield* process(path, enroll)
        yield* process(path, (bridge) => bridge.rotateKey, { killAt })
        const { credential } = yield* issueCredential(service, project_id, {
          reenroll: order.identity.bridge_id
        })
        yield* process(path, (bridge) => bridge.enroll({ ...order, credential: Redacted.make(credential) }))
        assert.strictEqual(
          (yield* bridgeOf(service, order.identity)).public_key_fingerprint,
          fingerprint(keysIn(path).publicKey)
        )
        yield* process(path, (bridge) => Effect.andThen(bridge.rotateKey, bridge.rotate))
        yield* process(path, (bridge) => bridge.rotateKey, { killAt })
        yield* process(path, (bridge) => bridge.revoke)
        assert.notInclude(yield* tokensOf(service, order.identity), "active")
      }
    })
  )

  it.effect("while it enrolls again, keeps its key until that is finished", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { enroll, order, path } = yield* newcomer(service, yield* makeProject(service))
      yield* process(path, enroll)
      const { project_id, bridge_id } = order.identity
      const { credential } = yield* issueCredential(service, project_id, { reenroll: bridge_id })
      const again = { ...order, credential: Redacted.make(credential) }
      // Killed before the proof, which may still arrive.
      yield* process(path, (bridge) => bridge.enroll(again), { killAt: 5 })
      const refused = yield* Effect.flip(process(path, (bridge) => bridge.rotateKey))
      assert.strictEqual(refused._tag, "NotEnrolled")
      yield* process(path, (bridge) => Effect.andThen(bridge.enroll(again), bridge.rotateKey))
      assert.strictEqual(
        (yield* bridgeOf(service, order.identity)).public_key_fingerprint,
        fingerprint(keysIn(path).publicKey)
      )
    })
  )

  it.effect("while it aborts, keeps its token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      const points = yield* everyPoint((killAt) =>
        Effect.gen(function* () {
          const { enroll, order, path } = yield* newcomer(service, project_id)
          const enrolled = yield* process(path, enroll)
          // Killed after the answer to prepare: the service has the successor, the folder does not.
          yield* process(path, (bridge) => bridge.rotate, { killAt: 4 })
          const first = yield* process(path, (bridge) => bridge.abort, { killAt })
          yield* process(path, (bridge) => bridge.abort)
          const token = yield* process(path, (bridge) => Effect.andThen(bridge.status, bridge.token))
          assert.strictEqual(raw({ access_token: token.value! }), raw(enrolled.value?.token))
          assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
          return first.killed
        })
      )
      // Prepare, `stored`, abort, rotation deleted.
      assert.strictEqual(points, 4 * 2)
    })
  )

  it.effect("while it revokes, leaves no token, whatever was under way", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      for (const before of [0, 1, 2, 4, 6, 8, 10]) {
        yield* everyPoint((killAt) =>
          Effect.gen(function* () {
            const { enroll, order, path } = yield* newcomer(service, project_id)
            yield* process(path, enroll)
            if (before > 0) yield* process(path, (bridge) => bridge.rotate, { killAt: before })
            const first = yield* process(path, (bridge) => bridge.revoke, { killAt })
            if (first.killed)
              yield* process(path, (bridge) => Effect.catchTag(bridge.revoke, "NotEnrolled", () => Effect.void))
            const states = yield* tokensOf(service, order.identity)
            assert.deepEqual([...new Set(states)], ["revoked"])
            assert.notInclude(filesOf(path).join(), "sbt_")
            return first.killed
          })
        )
      }
    })
  )
})

layer(Service.layer)("a Bridge whose n-th answer is lost", (it) => {
  it.effect("retries the request by itself, at every step", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const project_id = yield* makeProject(service)
      for (const loseAt of [1, 2]) {
        const { enroll, order, path } = yield* newcomer(service, project_id)
        yield* TestClock.withLive(process(path, enroll, { loseAt }))
        assert.deepEqual(yield* tokensOf(service, order.identity), ["active"])
        yield* TestClock.withLive(process(path, (bridge) => bridge.rotate, { loseAt }))
        assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
        yield* process(path, (bridge) => bridge.rotate, { killAt: 6 })
        yield* TestClock.withLive(process(path, (bridge) => bridge.abort, { loseAt: 1 }))
        assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked", "revoked"])
        yield* TestClock.withLive(process(path, (bridge) => bridge.revoke, { loseAt: 1 }))
        assert.deepEqual(yield* tokensOf(service, order.identity), ["revoked", "revoked", "revoked"])
      }
    })
  )
})
