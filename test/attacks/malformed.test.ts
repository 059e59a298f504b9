/** Any input is answered with a refusal in the documented shape and never with a 5xx (SEED repeats a run). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { assertRefusal } from "../support/bridges/Codes.ts"
import { bodyOf, headersOf } from "../support/attacks/Malformed.ts"
import { request } from "../support/network/Raw.ts"
import { unchanged } from "../support/database/Rows.ts"
import { seed } from "../support/run/Seed.ts"
import { Service } from "../support/service/Service.ts"
import { challenged, fresh, revokeCredential } from "../support/bridges/Steps.ts"

const count = 2000

layer(Service.layer)("of 2,000 malformed requests", (it) => {
  const none = Effect.fnUntraced(function* (path: string, credential: string, good: object) {
    const { url } = yield* Service
    const headers = {
      authorization: `Bearer ${credential}`,
      "content-type": "application/json",
      "idempotency-key": "other"
    }
    const requests = fc.sample(fc.tuple(headersOf(headers), bodyOf(good)), { numRuns: count / 2, seed })
    const statuses = new Map<number, number>()
    const sent = Effect.forEach(
      requests,
      ([headers, body], index) =>
        Effect.map(request(url, "POST", path, headers, body), (answer) => {
          const which = `SEED=${seed}, request ${index}: ${answer.status} ${answer.text}`
          statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
          assert.isTrue(answer.status >= 400 && answer.status < 500, which)
          if (answer.text !== "") assertRefusal(answer)
        }),
      { concurrency: 16, discard: true }
    )
    yield* unchanged(sent)
    assert.isAbove(statuses.get(400) ?? 0, count / 8)
  })

  it.effect("none creates a challenge, and none is answered with a 5xx", () =>
    Effect.gen(function* () {
      // Revoked, because now and then a spoiled body is still valid.
      const bridge = yield* Effect.tap(fresh(), revokeCredential)
      yield* none("/bridge/v1/enrollment/challenges", bridge.credential, bridge.challengeBody)
    })
  )

  it.effect("none proves anything, and none is answered with a 5xx", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const body = yield* bridge.proofBody(challenge)
      const signature_b64 = Buffer.alloc(64).toString("base64")
      yield* none("/bridge/v1/enrollment/proofs", bridge.credential, { ...body, signature_b64 })
    })
  )
})
