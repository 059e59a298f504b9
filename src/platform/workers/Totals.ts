/** Adds up the metrics of several processes, so that a scrape sees one service. */
import { Effect, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"

export type Snapshot = Metric.Metric.Snapshot

const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)
const most = (values: ReadonlyArray<number>) => Math.max(...values)
const least = (values: ReadonlyArray<number>) => Math.min(...values)

/** Gauges of the process. Every other gauge is one of the database, which one process has read for all. */
const gauges: Readonly<Record<string, (values: ReadonlyArray<number>) => number>> = {
  service_workers: most,
  process_start_time_seconds: least,
  process_resident_memory_bytes: sum,
  process_open_fds: most,
  process_max_fds: least,
  nodejs_heap_size_used_bytes: sum,
  nodejs_heap_size_total_bytes: sum,
  nodejs_eventloop_lag_mean_seconds: most,
  nodejs_eventloop_lag_p99_seconds: most,
  nodejs_eventloop_lag_max_seconds: most
}

/** The gauges of the database are those of the first process. */
export const totalsOf = (processes: ReadonlyArray<ReadonlyArray<Snapshot>>): ReadonlyArray<Snapshot> => {
  const own = new Set(processes[0])
  const series = Map.groupBy(processes.flat(), ({ attributes, id }) => `${id} ${JSON.stringify(attributes ?? {})}`)
  return [...series.values()].flatMap((same) => {
    const [first] = same
    if (first!.type !== "Gauge") return [added(same)]
    const combine = gauges[first!.id]
    if (combine !== undefined)
      return [{ ...first!, state: { value: combine(same.map(({ state }) => Number((state as Value).value))) } }]
    return own.has(first!) ? [first!] : []
  })
}

type Value = Metric.GaugeState<number>

/** Counters and histograms of the same series; whatever else there is stays as it is. */
const added = (same: ReadonlyArray<Snapshot>): Snapshot => {
  const [first] = same
  if (first!.type === "Counter") {
    const counts = same.map(({ state }) => Number((state as Metric.CounterState<number>).count))
    return { ...first!, state: { ...first!.state, count: sum(counts) } }
  }
  if (first!.type !== "Histogram") return first!
  const states = same.map(({ state }) => state as Metric.HistogramState)
  return {
    ...first!,
    state: {
      buckets: states[0]!.buckets.map(([boundary], at) => [
        boundary,
        sum(states.map(({ buckets }) => buckets[at]![1]))
      ]),
      count: sum(states.map(({ count }) => count)),
      min: least(states.map(({ min }) => min)),
      max: most(states.map(({ max }) => max)),
      sum: sum(states.map((state) => state.sum))
    }
  }
}

/** What is only ever added to, of a process that has ended: its gauges have ended with it. */
export const lasting = (snapshots: ReadonlyArray<Snapshot>) => snapshots.filter(({ type }) => type !== "Gauge")

/** In the text format of Prometheus. */
export const textOf = (snapshots: ReadonlyArray<Snapshot>) =>
  PrometheusMetrics.format().pipe(
    Effect.provideService(
      Metric.MetricRegistry,
      new Map(
        snapshots.map(({ state, ...metric }, at) => [
          String(at),
          { ...metric, hooks: { get: () => state, update: () => {}, modify: () => {} } }
        ])
      )
    )
  )
