/**
 * Token buckets of this process, one per client address or credential (contract section 2).
 *
 * A bucket is the one number of the generic cell rate algorithm: the time at which it will be full again. Full buckets
 * are forgotten, so that the table stays as large as the last seconds' callers.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { Settings } from "../Config.ts"

/** How many callers are remembered before full buckets are swept out. */
const most = 50_000

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

export class RateLimit extends Context.Service<
  RateLimit,
  {
    /** Takes one token, or as many as `cost`, and answers 0, or the whole seconds until there are as many. */
    readonly take: (key: string, rate: Rate, cost?: number) => Effect.Effect<number>
  }
>()("service/edge/RateLimit") {
  static readonly layer = Layer.effect(
    RateLimit,
    Effect.gen(function* () {
      const { http } = yield* Settings
      const fullAt = new Map<string, number>()
      const take = (key: string, { burst, perSecond }: Rate, cost = 1) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (fullAt.size >= most) for (const [other, at] of fullAt) if (at <= now) fullAt.delete(other)
          const interval = 1000 / perSecond
          const full = Math.max(fullAt.get(key) ?? now, now) + interval * cost
          const wait = full - now - burst * interval
          if (wait > 0) return Math.ceil(wait / 1000)
          if (fullAt.size < most || fullAt.has(key)) fullAt.set(key, full)
          return 0
        })
      return { take: http.rateLimits ? take : () => Effect.succeed(0) }
    })
  )
}
