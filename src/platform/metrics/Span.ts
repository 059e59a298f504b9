import { Effect, References, type Tracer } from "effect"

/**
 * A span, where somebody takes them (Otlp.ts). `Effect.withSpan`, and `Effect.fn` with a name, cost something in any case:
 * too much around every request.
 */
export const spanned =
  (name: string, options?: Tracer.SpanOptions) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
    Effect.flatMap(References.TracerEnabled, (heard) =>
      heard ? Effect.withSpan(self, name, options) : (self as Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>>)
    )
