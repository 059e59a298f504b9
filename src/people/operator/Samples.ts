/**
 * What the processes of this machine and their database did lately, for the charts of the console: one sample every 15
 * seconds, the last hour of them in the memory of the first process. They start with it; a monitoring system keeps the
 * metrics for longer (docs/run.md).
 */
import { Clock, Context, Effect, Layer, Metric, Option, Schedule } from "effect"
import { Settings } from "../../platform/settings/Settings.ts"
import { Workers } from "../../platform/workers/Workers.ts"
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
      const workers = yield* Workers
      const samples: Array<Sample> = []
      yield* workers.answers("load", load)
      yield* workers.answers(
        "samples",
        Effect.sync(() => samples)
      )
      let before = yield* loads(workers)

      const take = Effect.gen(function* () {
        const measured = Option.getOrUndefined(yield* gauges.measured)
        const now = yield* loads(workers)
        const elapsed = Number(now.at - before.at) / 1e9
        if (elapsed <= 0) return
        const done = since(before.of, now.of)
        remember(samples, {
          requests: done.requests / elapsed,
          answer: done.answers > 0 ? (1000 * done.seconds) / done.answers : undefined,
          cpu: done.cpu / 1e6 / elapsed,
          memory_bytes: now.of.reduce((sum, { memory }) => sum + memory, 0),
          database_bytes: measured?.database_size,
          connections_busy: measured && measured.connections_active + measured.connections_in_transaction,
          push_due: measured?.push_due
        })
        before = now
      })

      const read = Effect.map(workers.askFirst("samples"), (known) =>
        Option.match(known, { onNone: () => [], onSome: (samples) => [...(samples as ReadonlyArray<Sample>)] })
      )
      return { read, take }
    })
  ).pipe(Layer.provide(Gauges.layer))
}

/** The oldest one goes after an hour. */
export const remember = (samples: Array<Sample>, sample: Sample): void => {
  samples.push(sample)
  samples.splice(0, samples.length - kept)
}

/** The charts are on a page of the console: without it, nothing is measured for them. */
export const sampleForever = Effect.gen(function* () {
  const { console } = yield* Settings
  const { take } = yield* Samples
  if (console.enabled) yield* Effect.repeat(take, Schedule.spaced(`${sampleSeconds} seconds`))
})

/** What only grows, the memory in use, and the process of which they are. */
interface Load {
  readonly pid: number
  readonly memory: number
  readonly cpu: number
  readonly requests: number
  readonly answers: number
  readonly seconds: number
}

const load = Effect.gen(function* () {
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
  return { pid: process.pid, memory: process.memoryUsage.rss(), cpu: system + user, ...totals } satisfies Load
})

const loads = Effect.fnUntraced(function* ({ askAll }: Workers["Service"]) {
  const at = yield* Clock.monotonicTimeNanos
  return { at, of: (yield* askAll("load")) as ReadonlyArray<Load> }
})

/** What happened between two readings, at processes that may have begun after the first one. */
const since = (before: ReadonlyArray<Load>, now: ReadonlyArray<Load>) => {
  const earlier = new Map(before.map((load) => [load.pid, load]))
  const sum = (key: "cpu" | "requests" | "answers" | "seconds") =>
    now.reduce((total, load) => total + load[key] - (earlier.get(load.pid)?.[key] ?? 0), 0)
  return { cpu: sum("cpu"), requests: sum("requests"), answers: sum("answers"), seconds: sum("seconds") }
}
