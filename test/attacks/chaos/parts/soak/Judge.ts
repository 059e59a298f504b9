/**
 * What the soak judges by arithmetic alone: answers, times, memory and rings. Times are milliseconds of one clock.
 */
import { slope } from "../../../../support/run/Heap.ts"
import { percentile } from "../../harness.ts"
import type { Exchange } from "../Load.ts"

/** A fault, from its beginning until the service answers again. */
export interface Window {
  readonly why: string
  readonly from: number
  readonly to: number
  /** When it is as fast as before: a failed node has come back. */
  readonly calm: number
  /** The outcomes that the fault explains, besides documented refusals of what came twice. */
  readonly explains: ReadonlyArray<string>
}

const overlap = (at: number, millis: number, from: number, to: number) => at < to && at + millis > from
const isSuccess = (outcome: string) => /^20\d$/.test(outcome)

/** Answers that are neither success nor explained by a window. `documented`: the codes. */
export const unexplained = (
  exchanges: ReadonlyArray<Exchange>,
  windows: ReadonlyArray<Window>,
  documented: ReadonlySet<string>
): ReadonlyArray<string> => {
  const isExplained = ({ at, millis, outcome }: Exchange) =>
    windows.some(({ explains, from, to }) => {
      if (!overlap(at, millis, from, to)) return false
      const [, status, code] = /^(\d{3}) (\S+)( \S+)?$/.exec(outcome) ?? []
      return explains.includes(outcome) || (Number(status) < 500 && documented.has(code!))
    })
  const found = exchanges.filter((one) => !isSuccess(one.outcome) && !isExplained(one))
  return Object.entries(Object.groupBy(found, ({ kind, outcome }) => `${kind}: ${outcome}`)).map(
    ([what, of]) => `${of!.length} answers that no fault explains: ${what}, the first after ${seconds(of![0]!.at)} s`
  )
}
const seconds = (millis: number) => Math.round(millis / 1000)

/** The answers of another process, which are counted and not timed: each code is documented, or it is a JSON-RPC number. */
export const undocumented = (outcomes: ReadonlyArray<string>, documented: ReadonlySet<string>): ReadonlyArray<string> =>
  [...new Set(outcomes)].filter((outcome) => {
    if (outcome === "ok" || outcome === "no answer" || /^\d{3}( -\d+)?$/.test(outcome)) return false
    return !documented.has(outcome.split(" ")[1] ?? "")
  })

export const parts = 6

interface Times {
  readonly requests: number
  readonly p50: number
  readonly p99: number
}

/**
 * The times of successful requests that no fault has touched, by kind: of each sixth, and of the two spans that are judged,
 * the second and third sixth, and the fifth and sixth. Each of these has a planned switch and a lost node; a single sixth has
 * one of them, and the p99 of many kinds would be its fifth slowest request.
 */
export const timesOf = (
  exchanges: ReadonlyArray<Exchange>,
  span: { readonly from: number; readonly to: number },
  windows: ReadonlyArray<Window>
) => {
  const undisturbed = exchanges.filter(
    ({ at, millis, outcome }) =>
      isSuccess(outcome) && !windows.some(({ calm, from }) => overlap(at, millis, from, calm))
  )
  const sixthOf = ({ at }: Exchange) =>
    Math.min(parts - 1, Math.floor(((at - span.from) / (span.to - span.from)) * parts))
  const of = (some: ReadonlyArray<Exchange>, ...sixths: ReadonlyArray<number>): Times => {
    const millis = some.filter((one) => sixths.includes(sixthOf(one))).map((one) => one.millis)
    return {
      requests: millis.length,
      p50: rounded(percentile(millis, 0.5)),
      p99: rounded(percentile(millis, 0.99))
    }
  }
  return new Map(
    [...Map.groupBy(undisturbed, ({ kind }) => kind)].map(([kind, some]) => [
      kind,
      {
        sixths: Array.from({ length: parts }, (_, n) => of(some, n)),
        before: of(some, 1, 2),
        after: of(some, 4, 5)
      }
    ])
  )
}
const rounded = (value: number) => Math.round(value * 10) / 10

/** How much slower the last third may be, and the milliseconds by which two measurements differ anyway. */
const [slower, apart] = [1.5, 5]
/** Requests of a third below which its percentile is one of the slowest few. */
export const enough = { p50: 40, p99: 600 }

/** Kinds that were slower in the last third. */
export const slowed = (table: ReturnType<typeof timesOf>): ReadonlyArray<string> =>
  [...table].flatMap(([kind, { after, before }]) =>
    (["p50", "p99"] as const).flatMap((share) =>
      Math.min(before.requests, after.requests) >= enough[share] && after[share] > before[share] * slower + apart
        ? [
            `${kind}: ${share} rose from ${before[share]} ms in the 2nd and 3rd sixth to ${after[share]} ms in the last two`
          ]
        : []
    )
  )

/** What a process had at a minute. */
export interface Look {
  readonly process: string
  readonly pid: number
  readonly minute: number
  readonly mib: number
  readonly files: number
}

/** What may grow in a minute over the last two thirds: MiB, files. */
export const mostGrowth = { mib: 1, files: 0.5 }

/** Of each process that lived through the last two thirds: what it gains in a minute, by least squares. */
export const growths = (looks: ReadonlyArray<Look>, minutes: number) => {
  const late = looks.filter(({ minute }) => minute >= minutes / 3)
  const [first, last] = [Math.min(...late.map((look) => look.minute)), Math.max(...late.map((look) => look.minute))]
  return [...Map.groupBy(late, ({ pid, process }) => `${process} (${pid})`)]
    .map(([process, of]) => ({ process, of }))
    .filter(({ of }) => of.length > 2 && of[0]!.minute === first && of.at(-1)!.minute === last)
    .map(({ of, process }) => ({
      process,
      mib: rounded100(slope(of.map((look) => [look.minute, look.mib]))),
      files: rounded100(slope(of.map((look) => [look.minute, look.files]))),
      top_mib: Math.round(Math.max(...of.map((look) => look.mib)))
    }))
}
const rounded100 = (value: number) => Math.round(value * 100) / 100

export const grown = (of: ReturnType<typeof growths>): ReadonlyArray<string> =>
  of.flatMap(({ process, ...gains }) =>
    (["mib", "files"] as const).flatMap((what) =>
      gains[what] >= mostGrowth[what]
        ? [`${process} gains ${gains[what]} ${what === "mib" ? "MiB" : "open files"} a minute`]
        : []
    )
  )

/** A delivery as its row tells. */
export interface Ring {
  readonly delivery_id: string
  readonly device_id: string
  readonly subject: string
  readonly state: string
  readonly attempts: number
  readonly last_status: number | null
  /** Whether the device got a newer one about the same. */
  readonly replaced: boolean
}

/**
 * Each subject rings each device once: it was delivered, or is dead as docs/protocol.md says, after eight attempts or an
 * answer that is none of 2xx, 410, 429 and 5xx, or it gave way to a newer one. `accepted`: when a receiver took each delivery. It may take one twice only
 * if its answer was lost: there was an interruption between.
 */
export const amiss = (
  subjects: ReadonlySet<string>,
  devices: ReadonlyArray<string>,
  rings: ReadonlyArray<Ring>,
  accepted: ReadonlyMap<string, ReadonlyArray<number>>,
  interruptions: ReadonlyArray<Pick<Window, "from" | "to">>
): ReadonlyArray<string> => {
  const found: Array<string> = []
  const count = (many: number, what: string) => void (many > 0 && found.push(`${many} ${what}`))
  const there = Map.groupBy(rings, ({ device_id, subject }) => `${device_id} ${subject}`)
  const pairs = [...subjects].flatMap((subject) => devices.map((device) => `${device} ${subject}`))
  count(pairs.filter((pair) => !there.has(pair)).length, `of ${pairs.length} rings have no row`)
  count([...there.values()].filter(({ length }) => length > 1).length, "rings have two rows")
  const isDocumented = ({ attempts, last_status: status }: Ring) =>
    attempts >= 8 || (status !== null && status !== 410 && status !== 429 && status >= 300 && status < 500)
  for (const [state, of] of Map.groupBy(rings, ({ state }) => state)) {
    if (state === "delivered")
      count(of.filter(({ delivery_id }) => !accepted.has(delivery_id)).length, "delivered rings reached nobody")
    else if (state === "dead") count(of.filter((ring) => !isDocumented(ring)).length, "rings are dead without a reason")
    else if (state === "superseded") count(of.filter(({ replaced }) => !replaced).length, "rings gave way to nothing")
    else count(of.length, `rings ended as ${state}`)
  }
  const repeated = rings.filter(({ delivery_id }) => {
    const times = accepted.get(delivery_id) ?? []
    const [first, last] = [Math.min(...times), Math.max(...times)]
    return times.length > 1 && !interruptions.some(({ from, to }) => overlap(first, last - first, from, to))
  })
  count(repeated.length, "rings came twice although nothing was interrupted")
  return found
}
