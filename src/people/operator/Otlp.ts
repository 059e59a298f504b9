/** Traces, metrics and logs to an OpenTelemetry collector (OTLP over HTTP, JSON), when SERVICE_OTLP_URL names one. */
import { Cause, Effect, Exit, Layer, References, Schedule, Tracer } from "effect"
import { FetchHttpClient } from "effect/http"
import * as Exporter from "effect/observability/Otlp"
import { Settings } from "../../platform/settings/Settings.ts"
import { Gauges } from "./Gauges.ts"

export const otlp = Layer.unwrap(
  Effect.map(Settings, ({ identity, telemetry: { otlpUrl } }) =>
    otlpUrl === undefined
      ? unheard
      : guarded.pipe(
          Layer.provideMerge(
            Exporter.layerJson({
              baseUrl: otlpUrl,
              resource: {
                serviceName: "bridge-service",
                serviceVersion: identity.service_revision,
                attributes: { "deployment.environment.name": identity.environment }
              },
              loggerExcludeLogSpans: true
            })
          ),
          Layer.provide(FetchHttpClient.layer)
        )
  )
)

/** Spans that nobody takes would be a tenth of the work of a request or more. A tracer of somebody else's is left alone. */
const unheard = Layer.effect(
  References.TracerEnabled,
  Effect.map(Tracer.Tracer, (tracer) => tracer !== Tracer.nativeTracer)
)

/** Keeps the gauges of the database up to date for an exporter that takes them as they are. */
export const pushedGauges = Layer.effectDiscard(
  Effect.gen(function* () {
    const { otlpUrl } = (yield* Settings).telemetry
    const { refresh } = yield* Gauges
    if (otlpUrl !== undefined) yield* Effect.forkScoped(Effect.repeat(refresh, Schedule.spaced("10 seconds")))
  })
)

/** A span of something that failed carries messages and causes, and those of PostgreSQL carry values: only the name stays. */
const guarded = Layer.effect(
  Tracer.Tracer,
  Effect.map(Tracer.Tracer, (tracer) =>
    Tracer.make({
      ...tracer,
      span: (options) => {
        const span = tracer.span(options)
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
