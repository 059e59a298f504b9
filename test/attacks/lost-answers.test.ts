/**
 * A lost response never strands a Bridge (spec 3.4): the answer is lost on the wire after the commit, and the exact retry
 * gets it from another instance, or from one that was started later.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit } from "effect"
import type { Answer } from "../support/network/Http.ts"
import { relay } from "../support/network/Relay.ts"
import { unchanged } from "../support/database/Rows.ts"
import { environment, instance, Service } from "../support/service/Service.ts"
import { challenged, enrolled, fresh } from "../support/bridges/Steps.ts"

const renewed = {
  SERVICE_BRIDGE_ENROLLMENT_SECRET: "another-enrollment-secret-0123456789abcdef",
  SERVICE_BRIDGE_TOKEN_SECRET: "another-token-secret-0123456789abcdefghijk"
}
const withPrevious = {
  ...renewed,
  SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS: environment.SERVICE_BRIDGE_ENROLLMENT_SECRET,
  SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS: environment.SERVICE_BRIDGE_TOKEN_SECRET
}

/** Sends it over a relay that drops the answer, then stops the instance that served it. */
const losing = (send: (on: { readonly url: string }) => Effect.Effect<Answer>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { url } = yield* instance()
      const line = yield* relay({ host: "127.0.0.1", port: Number(new URL(url).port) })
      yield* line.loseAnswers
      const sent = yield* Effect.exit(send({ url: `http://127.0.0.1:${line.port}` }))
      assert.isTrue(Exit.isFailure(sent))
      assert.strictEqual(line.lost(), 1)
    })
  )

const isReplay = (answer: Answer) => {
  assert.isBelow(answer.status, 300, answer.text)
  assert.strictEqual(answer.headers.get("idempotency-replayed"), "true")
}

layer(Service.layer)("an answer lost after the commit", (it) => {
  it.effect("to a challenge is repeated for the exact retry by two other instances", () =>
    Effect.gen(function* () {
      const bridge = yield* fresh()
      yield* losing((on) => bridge.askChallenge(on))
      const retry = yield* unchanged(bridge.askChallenge(yield* Service))
      isReplay(retry)
      const again = yield* unchanged(bridge.askChallenge(yield* instance()))
      assert.strictEqual(again.text, retry.text)
      assert.strictEqual((yield* bridge.prove(yield* Service, retry)).status, 200)
    })
  )

  it.effect("to a proof is repeated for the exact retry by two other instances", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      yield* losing((on) => bridge.prove(on, challenge))
      const retry = yield* unchanged(bridge.prove(yield* Service, challenge))
      isReplay(retry)
      const again = yield* unchanged(bridge.prove(yield* instance(), challenge))
      assert.strictEqual(again.text, retry.text)
    })
  )
})

layer(Service.layer)("after a server secret was rotated", (it) => {
  it.effect("an exact retry of a challenge is answered as long as the previous secret is configured", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const retry = yield* unchanged(bridge.askChallenge(yield* instance(withPrevious)))
      isReplay(retry)
      assert.strictEqual(retry.text, challenge.text)
    })
  )

  it.effect("an exact retry of a proof is answered as long as the previous secret is configured", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const first = yield* bridge.prove(yield* Service, challenge)
      const retry = yield* unchanged(bridge.prove(yield* instance(withPrevious), challenge))
      isReplay(retry)
      assert.strictEqual(retry.text, first.text)
    })
  )

  const cannotReproduce = (answer: Answer) => {
    assert.deepStrictEqual([answer.status, answer.code], [503, "bridge_persistence_error"])
    assert.match(answer.headers.get("retry-after")!, /^[1-9]\d*$/)
  }

  it.effect("without the previous secret an exact retry of a challenge is refused and mints nothing", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      cannotReproduce(yield* unchanged(bridge.askChallenge(yield* instance(renewed))))
    })
  )

  it.effect("without the previous secret an exact retry of a proof is refused and mints nothing", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* enrolled
      cannotReproduce(yield* unchanged(bridge.prove(yield* instance(renewed), challenge)))
    })
  )

  it.effect("an open challenge can still be proved, whichever secrets are configured", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      assert.strictEqual((yield* bridge.prove(yield* instance(renewed), challenge)).status, 200)
    })
  )
})
