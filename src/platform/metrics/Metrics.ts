/**
 * The metrics, by the names that Prometheus and OTLP see. Each has a row in docs/reference.md.
 *
 * Label values come from code (route templates, codes, names of tools and sweeps), never from a request: input can
 * contain secrets, and would make the number of series unbounded.
 */
import { Cause, Clock, Effect, Exit, Metric, Option } from "effect"

/** A metric with labels. Each series is created once; after that, counting is a lookup and an addition. */
const family = <Input>(
  make: (attributes: Readonly<Record<string, string>>) => Metric.Metric<Input, unknown>,
  labels: ReadonlyArray<string>
) => {
  const series = new Map<string, Metric.Metric<Input, unknown>>()
  return (...values: ReadonlyArray<string>) => {
    const key = values.join(" ")
    const known = series.get(key)
    if (known !== undefined) return known
    const made = make(Object.fromEntries(labels.map((label, at) => [label, values[at]!])))
    series.set(key, made)
    return made
  }
}

const counters = (name: string, description: string, ...labels: ReadonlyArray<string>) =>
  family<number>((attributes) => Metric.counter(name, { description, attributes, incremental: true }), labels)

const histograms = (name: string, description: string, ...labels: ReadonlyArray<string>) => {
  const boundaries = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
  return family<number>((attributes) => Metric.histogram(name, { description, attributes, boundaries }), labels)
}

export const requests = counters("service_http_requests_total", "Requests answered", "method", "route", "status")
export const requestSeconds = histograms("service_http_request_duration_seconds", "Time until the answer", "route")

const operation = ["operation", "code"]
export const enrollments = counters("service_bridge_enrollments_total", "Steps of enrollment", ...operation)
export const rotations = counters("service_bridge_rotations_total", "Steps of a Bridge token's life", ...operation)
export const suspicions = counters("service_bridge_suspicions_total", "Signs of a copied token", "action")

export const grantSuspicions = counters("service_oauth_suspicions_total", "Signs of a copied code or token", "code")

export const toolCalls = counters("service_mcp_tool_calls_total", "Tool calls", "tool", "code")
export const toolSeconds = histograms("service_mcp_tool_duration_seconds", "Duration of a tool call", "tool")

export const limitRefusals = counters("service_project_limit_refusals_total", "Calls refused by a limit", "limit")

/** Outcomes of a claimed notification. */
export const pushOutcomes = ["delivered", "retried", "held", "paused", "suppressed", "gone", "dead"] as const
const deliveries = counters("service_push_deliveries_total", "Outcomes of claims", "environment", "outcome")
export const pushed = (environment: string, outcome: (typeof pushOutcomes)[number]) => deliveries(environment, outcome)
export const pushPauses = counters("service_push_pauses_total", "Pauses of delivery", "environment", "cause")

export const embeddingRequests = counters(
  "service_embedding_requests_total",
  "Requests to the endpoint for embeddings",
  "purpose",
  "outcome"
)

export const sweptRows = counters("service_sweep_rows_total", "Rows that a sweep ended or deleted", "sweep")
export const sweepFailures = counters("service_sweep_failures_total", "Sweeps that failed", "sweep")

/** `by` 0 creates the series before its first event: an alert cannot see the first increment of an absent series. */
export const count = (metric: Metric.Metric<number, unknown>, by = 1) => Metric.update(metric, by)

/** `since` is an instant of Clock.monotonicTimeNanos. */
const elapsed = (metric: Metric.Metric<number, unknown>, since: bigint) =>
  Effect.flatMap(Clock.monotonicTimeNanos, (now) => Metric.update(metric, Number(now - since) / 1e9))

export const timed =
  (metric: Metric.Metric<number, unknown>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Clock.monotonicTimeNanos, (since) => Effect.onExit(self, () => elapsed(metric, since)))

/** Counts by outcome: `ok`, the code of the refusal, `internal_error`, or `cancelled` when the client went away. */
export const counted =
  (steps: typeof enrollments, name: string) =>
  <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.onExit(self, (exit) => count(steps(name, codeOf(exit))))

const codeOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>): string => {
  if (Exit.isSuccess(exit)) return "ok"
  if (Cause.hasInterruptsOnly(exit.cause)) return "cancelled"
  return Option.match(Cause.findErrorOption(exit.cause), {
    onNone: () => "internal_error",
    onSome: ({ _tag }) => _tag
  })
}
