/** Tests in a real browser. Where there is none they are skipped, and nothing is started for them. */
import { layer } from "@effect/vitest"
import { Effect, Layer, type Scope } from "effect"
import { Chromium, noChromium } from "./Chromium.ts"

/** Adds a test; it gets the browser beside the services. */
type Test<R> = (name: string, steps: () => Effect.Effect<void, unknown, R | Chromium | Scope.Scope>) => void

export const inChromium = <R, E>(services: Layer.Layer<R, E>, name: string, tests: (test: Test<R>) => void) => {
  const all = noChromium === undefined ? Layer.merge(services, Chromium.layer) : (Layer.empty as never)
  layer(all, { timeout: 60_000 })(name, (it) => {
    tests((called, steps) => {
      it.effect(
        called,
        (context) => (noChromium === undefined ? steps() : Effect.sync(() => context.skip(noChromium!))),
        60_000
      )
    })
  })
}
