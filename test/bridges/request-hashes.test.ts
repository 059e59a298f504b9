/** What an Idempotency-Key is bound to: each field of its request (spec 2.6, 3.4). */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { expectReplayOf } from "../support/bridges/Answers.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { instance, Service } from "../support/service/Service.ts"
import { ask, challenged, prove } from "../support/bridges/Steps.ts"

layer(Service.layer)("a repeated Idempotency-Key", (it) => {
  const changes = {
    project_id: randomUUID(),
    bridge_id: "another-bridge",
    device_id: "another-device",
    display_name: "Another name",
    public_key_fingerprint: `sha256:${"0".repeat(64)}`
  }
  it.effect.each(Object.entries(changes))("of a challenge is refused with another %s", ([field, value]) =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      const answer = yield* ask(bridge, { body: { [field]: value } })
      assert.strictEqual(answer.code, "idempotency_conflict", answer.text)
    })
  )
})

layer(Service.layer)("a proof", (it) => {
  const replay = Duration.seconds(60)
  it.effect("is replayed for as long as SERVICE_BRIDGE_PROOF_REPLAY_SECONDS says, and no longer", () =>
    Effect.gen(function* () {
      const on = yield* instance({ SERVICE_BRIDGE_PROOF_REPLAY_SECONDS: "60" })
      const bridge = yield* Bridge.make(on)
      const challenge = yield* bridge.askChallenge(on)
      const first = yield* bridge.prove(on, challenge)
      yield* TestClock.adjust(Duration.subtract(replay, Duration.millis(1)))
      expectReplayOf(yield* bridge.prove(on, challenge), first)
      yield* TestClock.adjust(Duration.millis(1))
      const late = yield* bridge.prove(on, challenge)
      assert.strictEqual(late.code, "enrollment_challenge_consumed", late.text)
    })
  )

  it.effect("is not replayed once its token has expired", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const on = yield* instance({ SERVICE_BRIDGE_TOKEN_TTL_SECONDS: "60" })
      const first = yield* bridge.prove(on, challenge)
      yield* TestClock.adjust(Duration.subtract(replay, Duration.millis(1)))
      expectReplayOf(yield* prove(bridge, challenge), first)
      yield* TestClock.adjust(Duration.millis(1))
      const late = yield* prove(bridge, challenge)
      assert.strictEqual(late.code, "enrollment_challenge_consumed", late.text)
    })
  )
})
