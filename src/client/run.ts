/**
 * The loop that keeps a Bridge's token alive.
 *
 * A token is replaced after 60 to 80 % of its life, drawn anew for each, so that Bridges enrolled together part. How much
 * is left is the service's expiry less the service's clock (the Date header), counted down by the monotonic clock: that the
 * local wall clock is wrong does not matter. It is only asked whether it jumped, for that is how a machine that slept is
 * noticed; then the service is asked again.
 */
import { Clock, Duration, Effect, Random } from "effect"
import { Refusal } from "../wire/Refusal.ts"
import { type Client, isPassing, pauses } from "./Client.ts"
import { reactionTo } from "../wire/bridges/Reactions.ts"
import { ServiceUnreachable } from "./Errors.ts"
import type * as Rotating from "./rotate.ts"
import { type Holding, lifetimeOf } from "./State.ts"

/** Never returns; fails with what only a person can mend. */
export const make = (client: typeof Client.Service, { recover, rotate }: ReturnType<typeof Rotating.make>) => {
  const turn = Effect.gen(function* () {
    const { base_url, token } = yield* recover
    const left = lifetimeOf(yield* client.self(base_url, token.access_token))
    const share = yield* Random.nextBetween(0.6, 0.8)
    const wait = left - (1 - share) * token.lifetime_seconds
    if (wait > 0) {
      yield* Effect.logInfo("The token is good").pipe(
        Effect.annotateLogs({ seconds_left: left, rotating_in_seconds: Math.round(wait) })
      )
      if (yield* jumpedWithin(wait * 1000)) return
    }
    yield* logRotated(yield* rotate)
  })

  const patient = turn.pipe(
    Effect.tapError((failure) =>
      Effect.logWarning(failure.message).pipe(Effect.annotateLogs({ code: failure._tag, fatal: !mayPass(failure) }))
    ),
    Effect.retry({ while: mayPass, schedule: pauses(Duration.infinity) })
  )
  return Effect.forever(patient).pipe(Effect.withSpan("Bridge.run"))
}

const logRotated = ({ rotation, token }: Holding) =>
  Effect.logInfo("Rotated").pipe(
    Effect.annotateLogs({
      rotation_id: rotation?.state === "confirmed" ? rotation.rotation_id : "",
      lifetime_seconds: token.lifetime_seconds
    })
  )

const mayPass = (failure: { readonly _tag: string }) =>
  failure instanceof ServiceUnreachable ||
  (failure instanceof Refusal &&
    (isPassing(failure) || reactionTo(failure) === "wait" || reactionTo(failure) === "prepare"))

/** Sleeps so long by the monotonic clock; true as soon as the wall clock has gone elsewhere by two seconds. */
const jumpedWithin = Effect.fnUntraced(function* (millis: number) {
  const start = yield* monotonic
  const parted = (yield* Clock.currentTimeMillis) - start
  for (;;) {
    const now = yield* monotonic
    if (Math.abs((yield* Clock.currentTimeMillis) - now - parted) > 2000) return true
    const left = start + millis - now
    if (left <= 0) return false
    yield* Effect.sleep(Math.min(left, 15_000))
  }
})

const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
