/**
 * What this process and its database did lately, for the charts of the console: one sample every 15 seconds, the last hour
 * of them in memory. They start with the process; a monitoring system keeps the metrics for longer (docs/run.md).
 */
import { Clock, Context, Effect, Layer, Metric, Option, Schedule } from "effect"
import { Settings } from "../../platform/settings/Settings.ts"
import { Gauges } from "./Gauges.ts"

/** Between two samples. */
export const sampleSeconds = 15
const kept = 240

/** Undefined where the database did not answer. */
export interface Sample {
  /** Requests answered per second, since the sample before. */
  readonly requests: number
  /** Milliseconds that an answer took on average; undefined without requests. */
  readonly answer: number | undefined
  /** Share of one processor. */
  readonly cpu: number
  readonly memory_bytes: number
  readonly database_bytes: number | undefined
  readonly connections_busy: number | undefined
  readonly push_due: number | undefined
}

export class Samples extends Context.Service<
  Samples,
  {
    /** Oldest first. */
    readonly read: Effect.Effect<ReadonlyArray<Sample>>
    readonly take: Effect.Effect<void>
  }
>()("service/operator/Samples") {
  static readonly layer = Layer.effect(
    Samples,
    Effect.gen(function* () {
      const gauges = yield* Gauges
      const samples: Array<Sample> = []
      let before = yield* counters

      const take = Effect.gen(function* () {
        const measured = Option.getOrUndefined(yield* gauges.measured)
        const now = yield* counters
        const elapsed = Number(now.at - before.at) / 1e9
        if (elapsed <= 0) return
        const answered = now.answers - before.answers
        samples.push({
          requests: (now.requests - before.requests) / elapsed,
          answer: answered > 0 ? (1000 * (now.seconds - before.seconds)) / answered : undefined,
          cpu: (now.cpu - before.cpu) / 1e6 / elapsed,
          memory_bytes: process.memoryUsage.rss(),
          database_bytes: measured?.database_size,
          connections_busy: measured && measured.connections_active + measured.connections_in_transaction,
          push_due: measured?.push_due
        })
        samples.splice(0, samples.length - kept)
        before = now
      })

      return { read: Effect.sync(() => [...samples]), take }
    })
  ).pipe(Layer.provide(Gauges.layer))
}

/** The charts are on a page of the console: without it, nothing is measured for them. */
export const sampleForever = Effect.gen(function* () {
  const { console } = yield* Settings
  const { take } = yield* Samples
  if (console.enabled) yield* Effect.repeat(take, Schedule.spaced(`${sampleSeconds} seconds`))
})

/** What only grows: the difference of two readings is what happened between them. */
const counters = Effect.gen(function* () {
  const at = yield* Clock.monotonicTimeNanos
  const { system, user } = process.cpuUsage()
  const totals = { requests: 0, answers: 0, seconds: 0 }
  for (const metric of yield* Metric.snapshot) {
    if (metric.id === "service_http_requests_total" && metric.type === "Counter") {
      totals.requests += Number(metric.state.count)
    }
    if (metric.id === "service_http_request_duration_seconds" && metric.type === "Histogram") {
      totals.answers += metric.state.count
      totals.seconds += metric.state.sum
    }
  }
  return { at, cpu: system + user, ...totals }
})
