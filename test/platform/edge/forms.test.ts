/** What the edge reads from a form and from the headers of a proof, and what a page counts and answers. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { HttpRouter, HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { readForm } from "../../../src/platform/edge/Form.ts"
import { pageRoutes } from "../../../src/platform/edge/routes/PageRoutes.ts"
import { presentedBy } from "../../../src/platform/edge/Presented.ts"
import { bucketsOf, networksWith, projectsWith, RateLimit } from "../../../src/platform/edge/limits/RateLimit.ts"

type Request = HttpServerRequest.HttpServerRequest

describe("a form", () => {
  const read = (text: string, type = "application/x-www-form-urlencoded") =>
    readForm({ headers: { "content-type": type }, text: Effect.succeed(text) } as unknown as Request)
  const fields = (count: number) => Array.from({ length: count }, (_, n) => `f${n}=x`).join("&")

  it.effect("has at most a hundred fields", () =>
    Effect.gen(function* () {
      assert.strictEqual([...(yield* read(fields(100)))].length, 100)
      assert.strictEqual((yield* Effect.flip(read(fields(101)))).reason, "unreadable")
    })
  )

  it.effect("keeps a question mark at its beginning", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        [...(yield* read("?a=1&b=?"))],
        [
          ["?a", "1"],
          ["b", "?"]
        ]
      )
    })
  )

  it.effect("has its media type, in any case and with parameters", () =>
    Effect.gen(function* () {
      yield* read("a=1", "Application/X-WWW-Form-Urlencoded ;charset=utf-8")
      for (const type of ["application/x-www-form-urlencodedx", "text/plain", ""]) {
        assert.strictEqual((yield* Effect.flip(read("a=1", type))).reason, "media_type")
      }
    })
  )
})

describe("what a request presents", () => {
  it("has the scheme DPoP in any case, and the path without its query", () => {
    const presented = (authorization?: string) =>
      presentedBy({ method: "GET", url: "/self?x=?", headers: { authorization } } as unknown as Request)
    assert.deepInclude(presented("Bearer x"), { path: "/self", scheme: "Bearer", proof: undefined })
    for (const scheme of ["DPoP", "dpop", "DPOP"]) assert.strictEqual(presented(`${scheme} x`).scheme, "DPoP")
    for (const other of ["DPoPx x", "DPoP", undefined]) assert.strictEqual(presented(other).scheme, "Bearer")
  })
})

describe("a page", () => {
  const router = { add: () => Effect.void } as unknown as HttpRouter.HttpRouter
  const routes = Effect.provideService(
    pageRoutes(router, {}, () => ({ status: 503, body: "" })),
    RateLimit,
    { buckets: bucketsOf, networks: networksWith(bucketsOf), projects: projectsWith(bucketsOf) }
  )

  /** Tries a secret in which `attempt` results; "limited" if there were too many wrong ones. */
  const tries = Effect.map(
    routes,
    ({ countingWrong }) =>
      (attempt: Effect.Effect<string, string>) =>
        countingWrong(
          attempt,
          (error) => error === "wrong",
          () => Effect.succeed("limited")
        ).pipe(Effect.catch(Effect.succeed))
  )

  it.effect.each([
    ["accepted", Effect.succeed("in"), 20],
    ["wrong", Effect.fail("wrong"), 19],
    ["given up by the browser", Effect.interrupt, 19],
    ["refused for another reason", Effect.fail("busy"), 20],
    ["met by a defect", Effect.die("defect"), 20]
  ] as const)("counts a secret or not that is %s", ([, attempt, left]) =>
    Effect.gen(function* () {
      const trying = yield* tries
      yield* Effect.exit(trying(attempt))
      let wrong = 0
      while ((yield* trying(Effect.fail("wrong"))) === "wrong") wrong += 1
      assert.strictEqual(wrong, left)
    })
  )

  it.effect("takes twenty wrong secrets of an address at once, then one every three seconds, and any valid one", () =>
    Effect.gen(function* () {
      const trying = yield* tries
      const wrong = trying(Effect.fail("wrong"))
      assert.deepStrictEqual(
        yield* Effect.replicateEffect(wrong, 21),
        Array.from({ length: 21 }, (_, n) => (n < 20 ? "wrong" : "limited"))
      )
      assert.strictEqual(yield* trying(Effect.succeed("in")), "in")
      yield* TestClock.adjust("2999 millis")
      assert.strictEqual(yield* wrong, "limited")
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* wrong, "wrong")
    })
  )

  it.effect("that failed says when to try again", () =>
    Effect.gen(function* () {
      const { fail, show } = yield* routes
      assert.strictEqual(fail("failed").headers["retry-after"], "5")
      assert.strictEqual(fail("busy", 3).headers["retry-after"], "3")
      assert.notProperty(show(200, "").headers, "retry-after")
    })
  )
})
