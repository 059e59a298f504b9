/** Records every log line as an operator would get it, and every span with its attributes. */
import { Effect, Layer, Logger, Tracer } from "effect"

export const recording = () => {
  const lines: Array<string> = []
  const spans: Array<Tracer.NativeSpan> = []
  const logger = Logger.map(Logger.formatJson, (line) => {
    lines.push(line)
  })
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return {
    lines,
    spansAsText: () =>
      spans.map((span) => JSON.stringify([span.name, [...span.attributes], span.events.map(String)], bigints)),
    /** Runs an effect so that it logs and traces into this recording. */
    record: <A, E, R>(self: Effect.Effect<A, E, R>) =>
      Effect.provide(self, Layer.merge(Logger.layer([logger]), Layer.succeed(Tracer.Tracer, tracer)))
  }
}

const bigints = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value)
