/** GET /metrics in the Prometheus text format, on a separate port that only this machine can reach. */
import { NodeHttpServer } from "@effect/platform-node"
import { Effect, Layer, Metric } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerResponse } from "effect/http"
import { createServer } from "node:http"
import { processMetrics } from "../../platform/metrics/ProcessMetrics.ts"
import { isLoopback, Settings } from "../../platform/settings/Settings.ts"
import { type Snapshot, textOf, totalsOf } from "../../platform/workers/Totals.ts"
import { Workers } from "../../platform/workers/Workers.ts"
import { Gauges } from "./Gauges.ts"

const page = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const { refresh } = yield* Gauges
    const refreshProcess = yield* processMetrics
    const { answers, askAll } = yield* Workers
    yield* answers("metrics", Effect.andThen(refreshProcess, Metric.snapshot))
    const metrics = refresh.pipe(
      Effect.andThen(askAll("metrics")),
      Effect.flatMap((all) => textOf(totalsOf(all as ReadonlyArray<ReadonlyArray<Snapshot>>)))
    )
    const contentType = "text/plain; version=0.0.4; charset=utf-8"
    yield* router.add("GET", "/metrics", ({ headers }) =>
      isLoopbackHost(headers["host"])
        ? Effect.map(metrics, (text) => HttpServerResponse.text(text, { contentType }))
        : Effect.succeed(misdirected)
    )
  })
)

/** A web page could make a name of its own resolve to 127.0.0.1 and read the answer (RFC 9110 7.4). */
const misdirected = HttpServerResponse.text("Use http://127.0.0.1 or http://localhost here.\n", { status: 421 })

const isLoopbackHost = (host = "") => URL.canParse(`http://${host}`) && isLoopback(new URL(`http://${host}`))

export const prometheus = Layer.unwrap(
  Effect.map(Settings, ({ telemetry: { metricsPort: port } }) => {
    if (port === undefined) return Layer.empty
    // Always loopback, whatever SERVICE_HOST is: the page needs no credential and reveals too much to strangers.
    const listener = NodeHttpServer.layer(createServer, {
      host: "127.0.0.1",
      port,
      gracefulShutdownTimeout: "1 second"
    })
    return HttpRouter.serve(page, { disableListenLog: true, disableLogger: true }).pipe(
      Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
      Layer.provide(listener)
    )
  })
)
