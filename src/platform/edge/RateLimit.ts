/**
 * Token buckets of this process, one per client address or credential (contract section 2).
 *
 * A bucket is the one number of the generic cell rate algorithm: the time at which it will be full again. Full buckets
 * are forgotten, so that the table stays as large as the last seconds' callers.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { Settings } from "../settings/Settings.ts"

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
    /** What `take` would answer, taking nothing. */
    readonly wait: (key: string, rate: Rate) => Effect.Effect<number>
  }
>()("service/edge/RateLimit") {
  static readonly layer = Layer.effect(
    RateLimit,
    Effect.gen(function* () {
      const { http } = yield* Settings
      const fullAt = new Map<string, number>()
      const after = (key: string, { burst, perSecond }: Rate, now: number, cost = 1) => {
        const interval = 1000 / perSecond
        const full = Math.max(fullAt.get(key) ?? now, now) + interval * cost
        return { full, wait: Math.max(0, Math.ceil((full - now - burst * interval) / 1000)) }
      }
      const take = (key: string, rate: Rate, cost = 1) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (fullAt.size >= most) for (const [other, at] of fullAt) if (at <= now) fullAt.delete(other)
          const { full, wait } = after(key, rate, now, cost)
          if (wait === 0 && (fullAt.size < most || fullAt.has(key))) fullAt.set(key, full)
          return wait
        })
      const wait = (key: string, rate: Rate) => Effect.map(Clock.currentTimeMillis, (now) => after(key, rate, now).wait)
      const unlimited = () => Effect.succeed(0)
      return http.rateLimits ? { take, wait } : { take: unlimited, wait: unlimited }
    })
  )
}
