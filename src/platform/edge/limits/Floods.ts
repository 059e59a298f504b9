/**
 * Slows down floods (decisions.md, Rate limits): a caller who does not wait would get its next answer at once, and thousands
 * of the cheapest answers a second would occupy the process. Callers who do wait notice nothing.
 *
 * The more answers of a network wait, the longer each of them does. So a network gets as many late answers a second however
 * many connections it has, and none of them is closed: a proxy's carries the requests of many people.
 */
import { Effect } from "effect"
import { siteOf } from "../Addresses.ts"

/** Refusals that are answered at once in each second. */
const free = 200
/** Milliseconds that an answer waits; as a timer of Node, because it delays answers, not what they depend on. */
const pauseMillis = 250
/** Proxies wait for an answer longer than that. */
const longestMillis = 10_000
/** Answers that wait no longer than `pauseMillis`: of a network, of an IPv6 site, and of all. */
const mostOfNetwork = 64
const mostOfSite = 8 * mostOfNetwork
const mostOfAll = 2_000

export const makeFloodPauses = () => {
  let second = 0
  let refused = 0
  const waiting = new Map<string, number>()
  const slowed = new WeakSet<object>()

  const count = (crowd: string, by: 1 | -1) => {
    const size = (waiting.get(crowd) ?? 0) + by
    if (size === 0) waiting.delete(crowd)
    else waiting.set(crowd, size)
    return size
  }

  /**
   * Among whom an answer waits, and how many of these wait no longer than usual. The first late answer of a connection does
   * not wait among the further ones: it may be a probe's, or that of somebody behind the address of a flood.
   */
  const crowdsOf = (
    network: string,
    turn: "first" | "further"
  ): ReadonlyArray<readonly [crowd: string, most: number]> => {
    const site = siteOf(network)
    return [
      [`${turn} ${network}`, mostOfNetwork],
      ...(site === undefined ? [] : [[`${turn} ${site}`, mostOfSite] as const]),
      ["all", mostOfAll]
    ]
  }

  const sleep = (millis: number) =>
    Effect.callback<void>((resume) => {
      const timer = setTimeout(() => resume(Effect.void), millis)
      return Effect.sync(() => clearTimeout(timer))
    })

  /** Run before what comes too often from a network is answered. */
  const wait = (network: string, connection: object) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const crowds = crowdsOf(network, slowed.has(connection) ? "further" : "first")
        slowed.add(connection)
        return crowds.map(([crowd, most]) => ({ crowd, times: count(crowd, 1) / most }))
      }),
      (crowds) => sleep(Math.min(longestMillis, pauseMillis * Math.max(1, ...crowds.map(({ times }) => times)))),
      (crowds) => Effect.sync(() => crowds.forEach(({ crowd }) => count(crowd, -1)))
    )

  return {
    wait,
    /** Run before a refusal is sent. */
    waitIfMany: (network: string, connection: object) =>
      Effect.suspend(() => {
        const now = Math.floor(performance.now() / 1000)
        if (now !== second) [second, refused] = [now, 0]
        refused += 1
        return refused <= free ? Effect.void : wait(network, connection)
      })
  }
}
