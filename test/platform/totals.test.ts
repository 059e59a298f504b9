/** The metrics of several processes, added up. */
import { assert, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
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
