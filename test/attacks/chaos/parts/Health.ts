/** Polls a server's /healthz every 50 ms until the scope closes. */
import { Effect } from "effect"
import { send } from "../../../support/network/Http.ts"
import { percentile, sliced } from "../harness.ts"

export const watchHealth = Effect.fnUntraced(function* ({ url }: { readonly url: string }) {
  const millis: Array<number> = []
  let failures = 0
  const look = Effect.gen(function* () {
    const from = performance.now()
    const status = yield* send(`${url}/healthz`, { method: "GET" }).pipe(
      Effect.map((answer) => answer.status),
      Effect.timeout("5 seconds"),
      Effect.catchCause(() => Effect.succeed(0))
    )
    if (status === 200) millis.push(performance.now() - from)
    else failures++
    yield* Effect.sleep("50 millis")
  })
  yield* Effect.forkScoped(Effect.forever(look))
  return {
    figures: () => ({
      healthz_asked: millis.length + failures,
      healthz_p99_ms: Math.round(percentile(millis, 0.99)),
      healthz_slowest_ms: Math.round(Math.max(...millis))
    }),
    violations: (): ReadonlyArray<string> => [
      ...(failures > 0 ? [`/healthz failed ${failures} times`] : []),
      ...(!sliced && percentile(millis, 0.99) >= 100
        ? ["one in a hundred answers of /healthz took 100 ms or more"]
        : [])
    ]
  }
})
