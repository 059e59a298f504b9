/**
 * Slows down floods (decisions.md, Rate limits): a caller who does not wait would get its next answer at once, and thousands
 * of the cheapest answers a second would occupy the process. Callers who do wait notice nothing.
 *
 * The more answers of a network wait, the longer each of them does. So a network gets as many late answers a second however
 * many connections it has. What would wait too long, or has no room in memory, is answered at once and loses its connection.
 * None that waits does: a proxy's connection carries the requests of many people.
 */
import { Context, Effect } from "effect"
import { oldGeneration } from "../../settings/Heap.ts"
import { siteOf } from "../Addresses.ts"

/** Refusals that are answered at once in each second. */
const free = 200
/** Milliseconds that an answer waits; as a timer of Node, because it delays answers, not what they depend on. */
const pauseMillis = 250
/** Proxies wait for an answer longer than that. What would wait longer does not wait at all. */
const longestMillis = 10_000
/** Answers that wait no longer than `pauseMillis`: of a network, of an IPv6 site, and of all. */
const mostOfNetwork = 64
const mostOfSite = 8 * mostOfNetwork
const mostOfAll = 2_000
/** Bytes of the heap that a request takes while it waits, and more for each name and value of its headers (measured). */
const bytesOfRequest = 12 * 1024
const bytesOfText = 100

/** What is answered, as node:http has it. */
interface Asked {
  readonly rawHeaders: ReadonlyArray<string>
  readonly socket: object
  readonly url?: string | undefined
}

const bytesOf = ({ rawHeaders, url = "" }: Asked) =>
  rawHeaders.reduce((bytes, text) => bytes + bytesOfText + text.length, bytesOfRequest + url.length)

/** Bytes for all that wait. No network has a share of its own: what finds no room is only answered sooner. */
export const RoomToWait = Context.Reference<number>("service/edge/RoomToWait", {
  defaultValue: () => oldGeneration() / 16
})

export const makeFloodPauses = (room: number) => {
  let second = 0
  let refused = 0
  let bytesWaiting = 0
  const waiting = new Map<string, number>()
  const slowed = new WeakSet<object>()

  const sizeOf = (crowd: string) => waiting.get(crowd) ?? 0
  const count = (crowd: string, by: 1 | -1) => {
    const size = sizeOf(crowd) + by
    if (size === 0) waiting.delete(crowd)
    else waiting.set(crowd, size)
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

  /** A place among those that wait; undefined if there is none. */
  const enter = (network: string, asked: Asked) => {
    const crowds = crowdsOf(network, slowed.has(asked.socket) ? "further" : "first")
    slowed.add(asked.socket)
    const bytes = bytesOf(asked)
    const millis = pauseMillis * Math.max(1, ...crowds.map(([crowd, most]) => (sizeOf(crowd) + 1) / most))
    if (millis > longestMillis || bytesWaiting + bytes > room) return undefined
    const change = (by: 1 | -1) => {
      bytesWaiting += by * bytes
      for (const [crowd] of crowds) count(crowd, by)
    }
    change(1)
    return { millis, leave: () => change(-1) }
  }

  /**
   * Run before what comes too often from a network is answered. False if there is no room to wait: then the connection
   * has to be closed. The wait ends when the client is gone.
   */
  const wait = (network: string, asked: Asked) =>
    Effect.acquireUseRelease(
      Effect.sync(() => enter(network, asked)),
      (place) =>
        place === undefined
          ? Effect.succeed(false)
          : Effect.as(Effect.exit(Effect.interruptible(sleep(place.millis))), true),
      (place) => Effect.sync(() => place?.leave())
    )

  return {
    wait,
    /** Run before a refusal is sent; as `wait`. */
    waitIfMany: (network: string, asked: Asked) =>
      Effect.suspend(() => {
        const now = Math.floor(performance.now() / 1000)
        if (now !== second) [second, refused] = [now, 0]
        refused += 1
        return refused <= free ? Effect.succeed(true) : wait(network, asked)
      })
  }
}
