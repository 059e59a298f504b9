/**
 * Token buckets of this process, one per client address or credential (decisions.md, Rate limits).
 *
 * As in the generic cell rate algorithm, a bucket is one number: the time at which it will be full again. Full buckets
 * are deleted, so the table holds only the callers of the last seconds.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { Settings } from "../settings/Settings.ts"

/** Full buckets are deleted when the table reaches this size. */
const maxBuckets = 50_000

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

export class RateLimit extends Context.Service<
  RateLimit,
  {
    /** Takes `cost` tokens and returns 0, or takes none and returns the whole seconds until there are enough. */
    readonly take: (key: string, rate: Rate, cost?: number) => Effect.Effect<number>
    /** Returns what `take` would return for one token, without taking it. */
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
          if (fullAt.size >= maxBuckets) for (const [other, at] of fullAt) if (at <= now) fullAt.delete(other)
          const { full, wait } = after(key, rate, now, cost)
          if (wait === 0 && (fullAt.size < maxBuckets || fullAt.has(key))) fullAt.set(key, full)
          return wait
        })
      const wait = (key: string, rate: Rate) => Effect.map(Clock.currentTimeMillis, (now) => after(key, rate, now).wait)
      const unlimited = () => Effect.succeed(0)
      return http.rateLimits ? { take, wait } : { take: unlimited, wait: unlimited }
    })
  )
}
