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
import type { Owner } from "./MemoryBudget.ts"
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
  /** Gives back `cost` tokens that were taken together. */
  readonly giveBack: (key: string, cost?: number) => Effect.Effect<void>
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
    giveBack: (key, cost = 1) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const at = fullAt.get(key)
        if (at !== undefined) fullAt.set(key, at - interval * cost, now)
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

/** So many tokens of one bucket. */
type Draw = readonly [buckets: Buckets, key: string, cost?: number]

/**
 * Takes all draws and returns 0, or takes none and returns the whole seconds until the first bucket that refuses has
 * enough. Buckets after that one are not asked, so a caller's own comes before those that it shares: what it is refused
 * takes nothing from its neighbours.
 */
export const takeAll = Effect.fnUntraced(function* (draws: ReadonlyArray<Draw>) {
  for (const [index, [buckets, key, cost]] of draws.entries()) {
    const seconds = yield* buckets.take(key, cost)
    if (seconds === 0) continue
    yield* giveBackAll(draws.slice(0, index))
    return seconds
  }
  return 0
})

/** Gives back what was taken together. */
export const giveBackAll = (draws: ReadonlyArray<Draw>) =>
  Effect.forEach(draws, ([buckets, key, cost]) => buckets.giveBack(key, cost), { discard: true })

/**
 * The draws on the rate of a project, of which one project token has half. Its sign-ins and refreshes make any number
 * of credentials, which together leave the other half to the project's other tokens.
 */
export const projectsWith =
  (buckets: (rate: Rate) => Buckets) =>
  ({ burst, perSecond }: Rate) => {
    const tokens = buckets({ burst: burst / 2, perSecond: perSecond / 2 })
    const projects = buckets({ burst, perSecond })
    return ({ project_id, subject }: Owner, cost = 1): ReadonlyArray<Draw> => [
      [tokens, subject, cost],
      [projects, project_id, cost]
    ]
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
    const drawsOf = (network: string): ReadonlyArray<Draw> => {
      const site = siteOf(network)
      return site === undefined
        ? [[networks, network]]
        : [
            [networks, network],
            [sites, site]
          ]
    }
    return {
      take: (network) => takeAll(drawsOf(network)),
      giveBack: (network) => giveBackAll(drawsOf(network))
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
    /** The same for projects: what a request of a project token draws. */
    readonly projects: ReturnType<typeof projectsWith>
  }
>()("service/edge/RateLimit") {
  static readonly layer = Layer.effect(
    RateLimit,
    Effect.map(Settings, (settings) => {
      const buckets = bucketsIn(settings)
      return { buckets, networks: networksWith(buckets), projects: projectsWith(buckets) }
    })
  )
}
