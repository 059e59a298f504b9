import { Effect, References, type Tracer } from "effect"

/**
 * A span if spans are exported (Otlp.ts), else nothing. `Effect.withSpan`, and `Effect.fn` with a name, cost time even
 * when nothing is exported: too much around every request.
 */
export const spanned =
  (name: string, options?: Tracer.SpanOptions) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
    Effect.flatMap(References.TracerEnabled, (exported) =>
      exported ? Effect.withSpan(self, name, options) : (self as Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>>)
    )
