/** Whatever is sent, the answer is a refusal in the one shape and never a 5xx (reliability R8; SEED repeats a run). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { assertRefusal } from "./support/Codes.ts"
import { request } from "./support/Raw.ts"
import { unchanged } from "./support/Rows.ts"
import { Service } from "./support/Service.ts"
import { challenged, fresh, revokeCredential } from "./support/Steps.ts"

const count = 2000
const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 2 ** 31))

const hostile = fc.oneof(
  fc.string({ unit: "binary", maxLength: 300 }),
  fc.constantFrom("", "\0", "\ud800", "__proto__", "constructor", "'; drop table project; --", "\u0085", "%00"),
  fc.constantFrom(0, -1, 1e308, 2 ** 53 + 1, 0.1, true, false, null, [], {}, [null], { $ne: 1 })
)

/** A good body with some of its fields spoiled, added or gone. */
const spoiled = (good: object) =>
  fc
    .tuple(
      fc.dictionary(fc.constantFrom(...Object.keys(good), "__proto__", "x"), hostile, { minKeys: 1 }),
      fc.subarray(Object.keys(good))
    )
    .map(([changed, gone]) => {
      const body: Record<string, unknown> = { ...good, ...changed }
      for (const key of gone) delete body[key]
      return JSON.stringify(body)
    })

const bodyOf = (good: object): fc.Arbitrary<Uint8Array> =>
  fc
    .oneof(
      { weight: 6, arbitrary: spoiled(good) },
      { weight: 1, arbitrary: fc.json({ maxDepth: 8 }) },
      { weight: 1, arbitrary: fc.nat(15_000).map((depth) => "[".repeat(depth)) },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 400 }) },
      { weight: 1, arbitrary: fc.nat(JSON.stringify(good).length).map((end) => JSON.stringify(good).slice(0, end)) },
      { weight: 1, arbitrary: fc.constant("x".repeat(17_000)) }
    )
    .map((body) => Buffer.from(body))

const headersOf = (credential: string) =>
  fc
    .record(
      {
        authorization: fc.constantFrom(
          `Bearer ${credential}`,
          "Bearer x",
          `bearer  ${credential}x`,
          "Basic eDp4",
          "\xff"
        ),
        "idempotency-key": fc.constantFrom("k", "", " ", "k".repeat(300), "a b", "\xe9", '"quoted"'),
        "content-type": fc.constantFrom(
          "application/json",
          "application/json;charset=latin1",
          "text/plain",
          "/",
          ";",
          ""
        ),
        accept: fc.constantFrom("text/html", "*/*;q=0", "\xff"),
        "content-encoding": fc.constantFrom("gzip", "br", "x"),
        upgrade: fc.constantFrom("h2c", "websocket"),
        "user-agent": fc.string({ unit: "grapheme-ascii", maxLength: 300 }).map((text) => text.trim())
      },
      { requiredKeys: [] }
    )
    // Mostly past the first gates, so that most of them reach the schema or the domain.
    .map((headers) => ({
      authorization: `Bearer ${credential}`,
      "content-type": "application/json",
      "idempotency-key": "another",
      ...headers
    }))

layer(Service.layer)("of 2,000 malformed requests", (it) => {
  const none = Effect.fnUntraced(function* (path: string, credential: string, good: object) {
    const { url } = yield* Service
    const requests = fc.sample(fc.tuple(headersOf(credential), bodyOf(good)), { numRuns: count / 2, seed })
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

  it.effect("no challenge is made, and none is answered by a 5xx", () =>
    Effect.gen(function* () {
      // Revoked, because now and then what is left of a spoiled body is a good one.
      const bridge = yield* Effect.tap(fresh(), revokeCredential)
      yield* none("/bridge/v1/enrollment/challenges", bridge.credential, bridge.challengeBody)
    })
  )

  it.effect("no proof succeeds, and none is answered by a 5xx", () =>
    Effect.gen(function* () {
      const { bridge, challenge } = yield* challenged
      const body = yield* bridge.proofBody(challenge)
      const signature_b64 = Buffer.alloc(64).toString("base64")
      yield* none("/bridge/v1/enrollment/proofs", bridge.credential, { ...body, signature_b64 })
    })
  )
})
