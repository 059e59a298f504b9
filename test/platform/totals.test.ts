/** The metrics of a process, and those of several added up. */
import { assert, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { processMetrics } from "../../src/platform/metrics/ProcessMetrics.ts"
import { lasting, type Snapshot, textOf, totalsOf } from "../../src/platform/workers/Totals.ts"

/** What a process has counted. */
const process = (requests: number, seconds: ReadonlyArray<number>, memory: number, open: number, due?: number) =>
  Effect.gen(function* () {
    const labels = { description: "Requests", attributes: { route: "/mcp" } }
    yield* Metric.update(Metric.counter("requests_total", { ...labels, incremental: true }), requests)
    const duration = Metric.histogram("duration_seconds", { description: "Time", boundaries: [0.1, 1] })
    for (const second of seconds) yield* Metric.update(duration, second)
    yield* Metric.update(Metric.gauge("process_resident_memory_bytes"), memory)
    yield* Metric.update(Metric.gauge("process_open_fds"), open)
    if (due !== undefined) yield* Metric.update(Metric.gauge("service_push_due"), due)
    return yield* Metric.snapshot
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))

/** As a message between processes carries them. */
const sent = (snapshots: ReadonlyArray<Snapshot>) => structuredClone(snapshots)

it.effect("counters, histograms and memory are added up; of open files the most, and gauges of the database once", () =>
  Effect.gen(function* () {
    const asking = yield* process(3, [0.05, 0.5], 100, 7, 4)
    const other = yield* process(4, [0.5, 5], 50, 9, 3)
    const ended = lasting(yield* process(10, [0.05], 70, 99))
    const text = yield* textOf(totalsOf([asking, other, ended].map(sent)))
    assert.deepStrictEqual(
      text.split("\n").filter((line) => line !== "" && !line.startsWith("#")),
      [
        'requests_total{route="/mcp"} 17',
        'duration_seconds_bucket{le="0.1"} 2',
        'duration_seconds_bucket{le="1"} 4',
        'duration_seconds_bucket{le="+Inf"} 5',
        "duration_seconds_sum 6.1",
        "duration_seconds_count 5",
        "process_resident_memory_bytes 150",
        "process_open_fds 9",
        "service_push_due 4"
      ]
    )
  })
)

it.effect("a gauge of the process is the sum, the most or the least; one that whoever asks lacks is left out", () =>
  Effect.gen(function* () {
    const expected = {
      service_workers: 5,
      process_start_time_seconds: 3,
      process_resident_memory_bytes: 8,
      process_open_fds: 5,
      process_max_fds: 3,
      nodejs_heap_size_used_bytes: 8,
      nodejs_heap_size_total_bytes: 8,
      nodejs_eventloop_lag_mean_seconds: 5,
      nodejs_eventloop_lag_p99_seconds: 5,
      nodejs_eventloop_lag_max_seconds: 5
    }
    const gauges = (value: number, more: ReadonlyArray<string> = []) =>
      Effect.forEach([...Object.keys(expected), ...more], (name) => Metric.update(Metric.gauge(name), value)).pipe(
        Effect.andThen(Metric.snapshot),
        Effect.provideService(Metric.MetricRegistry, new Map())
      )
    for (const values of [
      [3, 5],
      [5, 3]
    ] as const) {
      const totals = totalsOf([sent(yield* gauges(values[0])), sent(yield* gauges(values[1], ["service_push_due"]))])
      const found = totals.map(({ id, state }) => [id, (state as Metric.GaugeState<number>).value])
      assert.deepStrictEqual(Object.fromEntries(found), expected)
    }
  })
)

it.effect("the delay of the event loop is the one since the last reading", () =>
  Effect.gen(function* () {
    const update = yield* processMetrics
    const tick = Effect.promise(() => new Promise((resume) => setTimeout(resume, 30)))
    const longest = Effect.gen(function* () {
      yield* Effect.andThen(tick, update)
      const found = (yield* Metric.snapshot).find(({ id }) => id === "nodejs_eventloop_lag_max_seconds")
      return Number((found!.state as Metric.GaugeState<number>).value)
    })
    yield* tick
    // Sleeps without a turn of the event loop.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
    const slow = yield* longest
    assert.isAtLeast(slow, 0.4)
    assert.isBelow(yield* longest, slow)
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
)
