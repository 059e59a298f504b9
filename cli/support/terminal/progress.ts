/** Progress of a long command with its rate and the time that is left, on stderr, and only if stderr is a terminal. */
import { Clock, Effect } from "effect"
import { Progress } from "../../../src/platform/metrics/Progress.ts"
import { asJson } from "./Print.ts"

type Unit = "rows" | "MB" | "items" | "tables"

/** A command that ends before that shows nothing. */
const quiet = 1000
const interval = 250

/** Runs work that reports to Progress: bytes for MB, else whole things. */
export const watching =
  (verb: string, unit: Unit) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    process.stderr.isTTY && !asJson
      ? Effect.suspend(() => watched(verb, unit, (text) => void process.stderr.write(text), work))
      : work

/** One line, written again and again, and gone when the work ends. */
export const watched = Effect.fnUntraced(function* <A, E, R>(
  verb: string,
  unit: Unit,
  write: (text: string) => void,
  work: Effect.Effect<A, E, R>
) {
  const began = yield* Clock.currentTimeMillis
  let [done, total, shownAt, width] = [0, 0, began + quiet - interval, 0]
  const show = (line: string) => {
    write(`\r${line.padEnd(width)}`)
    width = line.length
  }
  const report = (amount: number) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      done += amount
      if (now < shownAt + interval) return
      shownAt = now
      show(progressLine(verb, unit, { done, total, seconds: (now - began) / 1000 }))
    })
  return yield* work.pipe(
    Effect.provideService(Progress, {
      expect: (amount) => Effect.map(amount, (more) => void (total += more)),
      done: report
    }),
    Effect.ensuring(
      Effect.sync(() => {
        if (width > 0) write(`\r${" ".repeat(width)}\r`)
      })
    )
  )
})

interface Reached {
  readonly done: number
  /** An estimate; 0 if nobody knows. */
  readonly total: number
  readonly seconds: number
}

export const progressLine = (verb: string, unit: Unit, { done, total, seconds }: Reached) => {
  const scale = unit === "MB" ? 1e6 : 1
  const amount = (number: number) =>
    (number / scale).toLocaleString("en", { maximumFractionDigits: unit === "MB" ? 1 : 0 })
  const rate = done / seconds
  const known = total > 0 && done <= total
  return [
    `${verb} ${amount(done)}${known ? ` of ${amount(total)}` : ""} ${unit}`,
    ...(known ? [`${Math.floor((100 * done) / total)} %`] : []),
    `${amount(rate)} ${unit}/s`,
    ...(known && done > 0 ? [`${duration((total - done) / rate)} left`] : [])
  ].join(", ")
}

const duration = (seconds: number) => {
  if (seconds < 100) return `${Math.ceil(seconds)} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 100 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
}
