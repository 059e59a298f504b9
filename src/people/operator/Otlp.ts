/** Sends traces, metrics and logs to the OpenTelemetry collector in SERVICE_OTLP_URL (OTLP over HTTP, JSON), if set. */
import { Cause, Effect, Exit, Layer, References, Schedule, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import * as Exporter from "effect/observability/Otlp"
import { hostname } from "node:os"
import { processMetrics } from "../../platform/metrics/ProcessMetrics.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { workerNumber, Workers } from "../../platform/workers/Workers.ts"
import { Gauges } from "./Gauges.ts"

export const otlp = Layer.unwrap(
  Effect.map(Settings, ({ identity, telemetry: { otlpUrl } }) =>
    otlpUrl === undefined
      ? untraced
      : redacted.pipe(
          Layer.provideMerge(
            Exporter.layerJson({
              baseUrl: otlpUrl,
              resource: {
                serviceName: "bridge-service",
                serviceVersion: identity.service_revision,
                attributes: {
                  "deployment.environment.name": identity.environment,
                  ...(workerNumber !== undefined && { "service.instance.id": `${hostname()}-${workerNumber}` })
                }
              },
              loggerExcludeLogSpans: true
            })
          ),
          Layer.provide(FetchHttpClient.layer)
        )
  )
)

/** Without a collector, spans cost a tenth of a request's time for nothing. A tracer that a test installed stays on. */
const untraced = Layer.effect(
  References.TracerEnabled,
  Effect.map(Tracer.Tracer, (tracer) => tracer !== Tracer.nativeTracer)
)

/** Refreshes the gauges every ten seconds: the exporter pushes their last values and does not ask for new ones. */
export const pushedGauges = Layer.effectDiscard(
  Effect.gen(function* () {
    const { otlpUrl } = (yield* Settings).telemetry
    const { refresh } = yield* Gauges
    if (otlpUrl === undefined) return
    const refreshProcess = yield* processMetrics
    const { isFirst } = yield* Workers
    const each = isFirst ? Effect.andThen(refreshProcess, refresh) : refreshProcess
    yield* Effect.forkScoped(Effect.repeat(each, Schedule.spaced("10 seconds")))
  })
)

/** Reduces the error on a span to its name: messages and causes from PostgreSQL quote values. */
const redacted = Layer.effect(
  Tracer.Tracer,
  Effect.map(Tracer.Tracer, (tracer) =>
    Tracer.make({
      ...tracer,
      span: (options) => {
        const span = tracer.span(options)
        // The tracer has just made this span, so nothing else sees the method replaced.
        const end = span.end.bind(span)
        return Object.assign(span, {
          end: (time: bigint, exit: Exit.Exit<unknown, unknown>) => end(time, nameOnly(exit))
        })
      }
    })
  )
)

const nameOnly = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> => {
  if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) return exit
  const failure = Cause.squash(exit.cause)
  const name = failure instanceof Error ? ("_tag" in failure ? String(failure._tag) : failure.name) : "Error"
  return Exit.fail({ name, message: name })
}
