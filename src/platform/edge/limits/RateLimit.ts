/**
 * Token buckets of this process, one per client address or credential (decisions.md, Rate limits).
 *
 * As in the generic cell rate algorithm, a bucket is one number: the time at which it will be full again. Each limit has
 * a table of its own, of bounded size. If more keys come than it holds, those that were not seen for longest are
 * forgotten, so a caller who keeps sending stays limited.
 */
import { Clock, Context, Effect, Layer } from "effect"
import type { HttpServerResponse } from "effect/http"
import { refuse } from "../../../wire/Errors.ts"
import { Caller } from "../../../wire/Headers.ts"
import { answer } from "../../../wire/Refusal.ts"
import { Settings } from "../../settings/Settings.ts"
import { siteOf } from "../Addresses.ts"
import { recent } from "./Recent.ts"

/** Buckets per limit. */
const maxBuckets = 50_000

export interface Rate {
  readonly perSecond: number
  readonly burst: number
}

export interface Buckets {
  /** Takes `cost` tokens and returns 0, or takes none and returns the whole seconds until there are enough. */
  readonly take: (key: string, cost?: number) => Effect.Effect<number>
  /** Takes `cost` tokens, also those that are not there yet: the next caller waits for them. */
  readonly charge: (key: string, cost: number) => Effect.Effect<void>
  /** Gives back a token that was taken. */
  readonly giveBack: (key: string) => Effect.Effect<void>
  /** How many buckets are in memory. */
  readonly size: () => number
}

export const bucketsOf = ({ burst, perSecond }: Rate, capacity = maxBuckets): Buckets => {
  const interval = 1000 / perSecond
  // A bucket that nobody takes from is full again within this period, and no longer needed.
  const fullAt = recent<number>(capacity, burst * interval)
  const full = (key: string, now: number) => Math.max(fullAt.get(key) ?? now, now)
  const secondsUntil = (then: number, now: number) => Math.max(0, Math.ceil((then - now - burst * interval) / 1000))
  return {
    take: (key, cost = 1) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const before = full(key, now)
        const after = before + interval * cost
        const seconds = secondsUntil(after, now)
        // A refused caller's bucket is set, too: it must not be forgotten while the caller keeps sending.
        fullAt.set(key, seconds === 0 ? after : before, now)
        return seconds
      }),
    charge: (key, cost) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        fullAt.set(key, full(key, now) + interval * cost, now)
      }),
    giveBack: (key) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const at = fullAt.get(key)
        if (at !== undefined) fullAt.set(key, at - interval, now)
      }),
    size: fullAt.size
  }
}

/**
 * The buckets of one of so many processes, which together grant the rate. A burst is at least one token, and what costs
 * more than a full bucket takes a full bucket: otherwise it would never be admitted.
 */
export const bucketsOfPart = ({ burst, perSecond }: Rate, processes: number): Buckets => {
  if (processes === 1) return bucketsOf({ burst, perSecond })
  const part = {
    perSecond: perSecond / processes,
    burst: burst > 1 ? Math.max(1, burst / processes) : burst / processes
  }
  const buckets = bucketsOf(part)
  return { ...buckets, take: (key, cost = 1) => buckets.take(key, Math.min(cost, part.burst)) }
}

/** The buckets of one limit in this process. They admit everything with SERVICE_RATE_LIMITS=off. */
export const bucketsIn =
  ({ http, processes }: Settings["Service"]) =>
  (rate: Rate): Buckets =>
    http.rateLimits ? bucketsOfPart(rate, processes) : unlimited

const unlimited: Buckets = {
  take: () => Effect.succeed(0),
  charge: () => Effect.void,
  giveBack: () => Effect.void,
  size: () => 0
}

/** How many of its networks an IPv6 site can use up. */
const networksOfSite = 8

/** Buckets by the network of a caller; the networks of one IPv6 site also share one. */
export interface NetworkBuckets {
  readonly take: (network: string) => Effect.Effect<number>
  readonly giveBack: (network: string) => Effect.Effect<void>
}

export const networksWith =
  (buckets: (rate: Rate) => Buckets) =>
  ({ burst, perSecond }: Rate): NetworkBuckets => {
    const networks = buckets({ burst, perSecond })
    const sites = buckets({ burst: burst * networksOfSite, perSecond: perSecond * networksOfSite })
    return {
      take: (network) => {
        const site = siteOf(network)
        const own = networks.take(network)
        if (site === undefined) return own
        // What the network's own limit refuses draws nothing from its neighbours.
        return Effect.flatMap(own, (seconds) =>
          seconds > 0
            ? Effect.succeed(seconds)
            : Effect.tap(sites.take(site), (shared) => (shared > 0 ? networks.giveBack(network) : Effect.void))
        )
      },
      giveBack: (network) => {
        const site = siteOf(network)
        const own = networks.giveBack(network)
        return site === undefined ? own : Effect.andThen(sites.giveBack(site), own)
      }
    }
  }

/** Handles a request of an address that is within its limit. */
export const limitedTo =
  (buckets: NetworkBuckets) =>
  <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.gen(function* () {
      const seconds = yield* buckets.take((yield* Caller).network)
      return seconds === 0 ? yield* handled : answer(refuse("rate_limited", seconds))
    })

export class RateLimit extends Context.Service<
  RateLimit,
  {
    /** The buckets of one limit; made where a layer is built. */
    readonly buckets: (rate: Rate) => Buckets
    /** The same for the networks of callers (Addresses.ts). */
    readonly networks: (rate: Rate) => NetworkBuckets
  }
>()("service/edge/RateLimit") {
  static readonly layer = Layer.effect(
    RateLimit,
    Effect.map(Settings, (settings) => {
      const buckets = bucketsIn(settings)
      return { buckets, networks: networksWith(buckets) }
    })
  )
}
