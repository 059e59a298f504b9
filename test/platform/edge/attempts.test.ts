/** What counts as a failed authentication, and against whom, rule by rule (decisions.md, Rate limits). */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { CurrentShare, type Share, Shares } from "../../../src/platform/database/Shares.ts"
import { Attempts, boundTo, keyOf, type Outcome } from "../../../src/platform/edge/limits/Attempts.ts"
import { type Buckets, RateLimit } from "../../../src/platform/edge/limits/RateLimit.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { Caller } from "../../../src/wire/Headers.ts"
import { environment } from "../../support/service/Service.ts"

interface Try {
  readonly token?: string
  /** The key that the request says it holds. */
  readonly key?: string
  readonly isSigned?: boolean
  readonly outcome?: Outcome | "interrupted"
  readonly network?: string
  readonly perCredential?: Pick<Buckets, "take" | "giveBack">
}

const jkt = (key: string) => Buffer.from(key)
const nameOf = (token: string, key?: string) =>
  keyOf(boundTo(Redacted.make(token), key === undefined ? undefined : jkt(key)))

const withLimits = Effect.fnUntraced(function* (limits: "on" | "off") {
  const shares = new Map<Share, string>()
  const shareOf = (owner: string) => {
    const share = { connection: (one) => one, lookup: (one) => one, change: (one) => one } satisfies Share
    shares.set(share, owner)
    return share
  }
  const settings = Settings.layer.pipe(
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SERVICE_RATE_LIMITS: limits })))
  )
  const layer = Attempts.layer.pipe(
    Layer.provide(RateLimit.layer),
    Layer.provide(Layer.succeed(Shares, { known: shareOf, unknown: shareOf })),
    Layer.provide(settings)
  )
  const { attempt, remember } = yield* Effect.provide(Effect.service(Attempts), layer, { local: true })

  /** Returns the owner of the share in which the credential was looked up, "" for that of its address, or "limited". */
  const tried = ({ isSigned = true, key, network = "here", outcome = "rejected", perCredential, token = "" }: Try) =>
    attempt(
      {
        credential: Redacted.make(token),
        claimed: key === undefined ? undefined : { jkt: jkt(key), isSigned: Effect.succeed(isSigned) },
        ...(perCredential && { perCredential }),
        outcomeOf: () => (outcome === "interrupted" ? "undecided" : outcome),
        limited: () => Effect.succeed("limited")
      },
      outcome === "interrupted" ? Effect.interrupt : Effect.map(CurrentShare, (share) => shares.get(share) ?? "")
    ).pipe(Effect.provideService(Caller, { address: network, network, userAgent: "" }))
  let guesses = 0
  /** How many guesses an address has left. Afterwards it has none. */
  const left = Effect.fnUntraced(function* (network = "here") {
    let admitted = 0
    while ((yield* tried({ token: `guess ${guesses++}`, network })) !== "limited") admitted += 1
    return admitted
  })
  return { left, remember, tried }
})

const limited = withLimits("on")
const token = "token"

describe("a credential that was not accepted before", () => {
  const counted = [
    ["rejected", 199],
    ["unproven", 199],
    ["interrupted", 199],
    ["accepted", 200],
    ["undecided", 200]
  ] as const
  it.effect.each(counted)("is counted or not when it is %s", ([outcome, remaining]) =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      yield* Effect.exit(tried({ token, outcome }))
      assert.strictEqual(yield* left(), remaining)
      assert.strictEqual(yield* left("elsewhere"), 200)
    })
  )

  it.effect("is not counted when its own limit refuses it", () =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      const perCredential = { take: () => Effect.succeed(1), giveBack: () => Effect.void }
      assert.strictEqual(yield* tried({ token, perCredential }), "limited")
      assert.strictEqual(yield* left(), 200)
    })
  )
})

describe("a credential that was accepted", () => {
  it.effect("is known for ten minutes, whatever its address has left, and is no credit for others", () =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      assert.strictEqual(yield* tried({ token, outcome: "accepted" }), "", "the first time as one of its address")
      assert.strictEqual(yield* left(), 200)
      assert.strictEqual(yield* tried({ token, outcome: "accepted" }), nameOf(token))
      assert.strictEqual(yield* left(), 0)
      yield* TestClock.adjust(599_999)
      yield* left()
      assert.strictEqual(yield* tried({ token, outcome: "undecided" }), nameOf(token))
      yield* TestClock.adjust(1)
      yield* left()
      assert.strictEqual(yield* tried({ token }), "limited")
    })
  )

  it.effect("is known at once if this process has issued it", () =>
    Effect.gen(function* () {
      const { left, remember, tried } = yield* limited
      yield* remember(Redacted.make(token))
      yield* left()
      assert.strictEqual(yield* tried({ token }), nameOf(token))
    })
  )

  it.effect.each([
    ["rejected", 199],
    ["unproven", 199],
    ["interrupted", 200],
    ["undecided", 200]
  ] as const)("counts or not when it is %s", ([outcome, remaining]) =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      yield* tried({ token, outcome: "accepted" })
      yield* Effect.exit(tried({ token, outcome }))
      assert.strictEqual(yield* left(), remaining)
      assert.strictEqual(yield* tried({ token }), outcome === "rejected" ? "limited" : nameOf(token))
    })
  )
})

describe("a credential with a key", () => {
  it.effect("is another one than the credential alone", () =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      yield* tried({ token, key: "mine", outcome: "accepted" })
      yield* left()
      assert.strictEqual(yield* tried({ token, key: "mine", outcome: "accepted" }), nameOf(token, "mine"))
      assert.strictEqual(yield* tried({ token }), "limited")
      assert.strictEqual(yield* tried({ token, key: "another" }), "limited")
    })
  )

  it.effect("is known by the credential alone, and looked up as that until it is accepted", () =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      yield* tried({ token, outcome: "accepted" })
      yield* left()
      assert.strictEqual(yield* tried({ token, key: "mine", outcome: "accepted" }), nameOf(token))
      assert.strictEqual(yield* tried({ token, key: "mine", outcome: "accepted" }), nameOf(token, "mine"))
    })
  )

  it.effect("is forgotten both ways when it is rejected", () =>
    Effect.gen(function* () {
      const { left, tried } = yield* limited
      yield* tried({ token, outcome: "accepted" })
      yield* tried({ token, key: "mine", outcome: "accepted" })
      yield* tried({ token, key: "mine", outcome: "rejected" })
      yield* left()
      assert.strictEqual(yield* tried({ token, key: "mine" }), "limited")
      assert.strictEqual(yield* tried({ token }), "limited")
    })
  )

  it.effect("draws on the limit of credential and key if it is proved, and gets it back for a copy of a proof", () =>
    Effect.gen(function* () {
      const { tried } = yield* limited
      const drawn: Array<string> = []
      const perCredential = {
        take: (key: string) => Effect.sync(() => (drawn.push(`take ${key}`), 0)),
        giveBack: (key: string) => Effect.sync(() => void drawn.push(`give back ${key}`))
      }
      yield* tried({ token, key: "mine", outcome: "accepted", perCredential })
      yield* tried({ token, key: "mine", outcome: "unproven", perCredential })
      yield* tried({ token, key: "mine", isSigned: false, outcome: "unproven", perCredential })
      const mine = nameOf(token, "mine")
      assert.deepStrictEqual(drawn, [`take ${mine}`, `take ${mine}`, `give back ${mine}`, `take ${nameOf(token)}`])
    })
  )

  it.effect("that is known is tried 500 times at once by one address, with whatever key", () =>
    Effect.gen(function* () {
      const { tried } = yield* limited
      yield* tried({ token, outcome: "accepted" })
      for (let n = 0; n < 500; n++) {
        assert.notStrictEqual(yield* tried({ token, key: `key ${n}`, outcome: "undecided" }), "limited")
      }
      assert.strictEqual(yield* tried({ token, key: "mine", outcome: "undecided" }), "limited")
      assert.strictEqual(
        yield* tried({ token, key: "mine", outcome: "undecided", network: "elsewhere" }),
        nameOf(token)
      )
      assert.strictEqual(yield* tried({ token, outcome: "undecided" }), nameOf(token), "without a key")
    })
  )
})

describe("without limits", () => {
  it.effect("every credential has a share of its own at once, and nothing is counted", () =>
    Effect.gen(function* () {
      const { tried } = yield* withLimits("off")
      for (let n = 0; n < 300; n++) assert.strictEqual(yield* tried({ token }), nameOf(token))
    })
  )
})
