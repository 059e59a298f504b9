/** What this process uses, under the names that every program with a Prometheus client has. */
import { Effect, Metric } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"

const gauge = (name: string, description: string) => Metric.gauge(name, { description })

const cpuSeconds = Metric.counter("process_cpu_seconds_total", { description: "CPU time used", incremental: true })
const gauges = {
  startTime: gauge("process_start_time_seconds", "When the process started, in seconds since 1970"),
  resident: gauge("process_resident_memory_bytes", "Memory that the process holds"),
  heapUsed: gauge("nodejs_heap_size_used_bytes", "JavaScript objects in use"),
  heapTotal: gauge("nodejs_heap_size_total_bytes", "Memory set aside for JavaScript objects"),
  lagMean: gauge("nodejs_eventloop_lag_mean_seconds", "Delay of the event loop since the last reading"),
  lagP99: gauge("nodejs_eventloop_lag_p99_seconds", "The 99th percentile of the same"),
  lagMax: gauge("nodejs_eventloop_lag_max_seconds", "The longest of the same")
}
/** Only where /proc tells. */
const openFiles = gauge("process_open_fds", "Open files and sockets")
const mostFiles = gauge("process_max_fds", "How many there may be")

/** CPU seconds that the counter has already; it is the same for every reader in this process. */
let counted = 0

const resolution = 10

/** Watches the event loop while the scope is open. The effect brings the metrics up to date. */
export const processMetrics = Effect.gen(function* () {
  const delay = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const histogram = monitorEventLoopDelay({ resolution })
      histogram.enable()
      return histogram
    }),
    (histogram) => Effect.sync(() => void histogram.disable())
  )
  return Effect.suspend(() => {
    const { system, user } = process.cpuUsage()
    const { heapTotal, heapUsed, rss } = process.memoryUsage()
    const used = (user + system) / 1e6 - counted
    counted += used
    const lag = { mean: lagOf(delay.mean), p99: lagOf(delay.percentile(99)), max: lagOf(delay.max) }
    delay.reset()
    const files = filesOf()
    return Effect.all(
      [
        Metric.update(cpuSeconds, used),
        Metric.update(gauges.startTime, performance.timeOrigin / 1000),
        Metric.update(gauges.resident, rss),
        Metric.update(gauges.heapUsed, heapUsed),
        Metric.update(gauges.heapTotal, heapTotal),
        Metric.update(gauges.lagMean, lag.mean),
        Metric.update(gauges.lagP99, lag.p99),
        Metric.update(gauges.lagMax, lag.max),
        ...(files === undefined ? [] : [Metric.update(openFiles, files.open), Metric.update(mostFiles, files.most)])
      ],
      { discard: true }
    )
  })
})

/** The histogram measures from tick to tick, in nanoseconds; without a tick yet it has no numbers. */
const lagOf = (nanoseconds: number) => {
  const lag = nanoseconds / 1e9 - resolution / 1000
  return Number.isFinite(lag) && lag > 0 && lag < 1e6 ? lag : 0
}

const filesOf = () => {
  try {
    const [, most] = /^Max open files {1,20}(\d{1,15})/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? []
    return { open: readdirSync("/proc/self/fd").length, most: Number(most) }
  } catch {
    return undefined
  }
}
