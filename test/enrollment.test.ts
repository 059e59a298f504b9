/** Enrollment: spec 3.1, 3.4, 4.1, 4.2. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Bridge } from "./support/Bridge.ts"
import { Service } from "./support/Service.ts"

layer(Service.layer)("enrollment", (it) => {
  it.effect("a proof activates the Bridge and returns its token", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      assert.strictEqual(challenge.status, 201, challenge.text)
      const proof = yield* bridge.prove(service, challenge)
      assert.strictEqual(proof.status, 200, proof.text)
      assert.match(proof.body.access_token, /^sbt_[0-9A-Za-z]{49}$/)
    })
  )
})
