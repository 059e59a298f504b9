/** Rotation and revocation: spec 3.2 to 3.4, 4.3 to 4.7. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Bridge } from "./support/Bridge.ts"
import { Service } from "./support/Service.ts"
import { send } from "./support/Http.ts"

layer(Service.layer)("rotation", (it) => {
  it.effect("a confirmed successor is the token, and its predecessor is revoked", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = `${service.url}/bridge/v1/tokens`
      const bridge = yield* Bridge.make(service)
      const predecessor = yield* bridge.enroll(service)
      const prepared = yield* send(`${tokens}/rotate/prepare`, { bearer: predecessor, key: "bridge-rotate-1" })
      assert.strictEqual(prepared.status, 201, prepared.text)
      const again = yield* send(`${tokens}/rotate/prepare`, { bearer: predecessor, key: "bridge-rotate-1" })
      assert.strictEqual(again.text, prepared.text)
      const { rotation_id, successor_token } = prepared.body
      const pending = yield* send(`${tokens}/self`, { method: "GET", bearer: successor_token })
      assert.strictEqual(pending.code, "bridge_token_pending")
      const confirm = send(`${tokens}/rotate/confirm`, { bearer: successor_token, key: "c", body: { rotation_id } })
      const confirmed = yield* confirm
      assert.strictEqual(confirmed.status, 200, confirmed.text)
      assert.strictEqual((yield* confirm).text, confirmed.text)
      const self = yield* send(`${tokens}/self`, { method: "GET", bearer: successor_token })
      assert.strictEqual(self.body.bridge_id, bridge.bridge_id, self.text)
      const before = yield* send(`${tokens}/self`, { method: "GET", bearer: predecessor })
      assert.strictEqual(before.code, "bridge_token_revoked")
      const revoked = yield* send(`${tokens}/revoke`, { bearer: successor_token })
      assert.strictEqual(revoked.body.status, "revoked", revoked.text)
      const retired = yield* send(`${tokens}/rotate`)
      assert.strictEqual(retired.code, "bridge_rotation_protocol_upgrade_required", retired.text)
    })
  )
})
