/**
 * The loop that rotates a Bridge's token before it expires, and its key when the operator asks for it.
 *
 * A token is replaced after a random 60 to 80 % of its life, so that Bridges enrolled together do not rotate together.
 * The time left is the service's expiry minus the service's clock (the Date header), counted down by the monotonic clock,
 * so a wrong local clock does no harm. The loop queries the service every hour, and when the wall clock jumps, which means
 * that the machine slept.
 */
import { Clock, Duration, Effect, Random } from "effect"
import { Refusal } from "../../wire/Refusal.ts"
import { type Client, isTransient, pauses } from "./Client.ts"
import { reactionTo } from "../../wire/bridges/Reactions.ts"
import { FolderUnavailable, ServiceUnreachable } from "../Errors.ts"
import { type Enrolled, lifetimeOf } from "./State.ts"

/** Seconds after which the service is asked again what the operator wants. */
const longestSleep = 3600

type Failure = { readonly _tag: string; readonly message: string }

/** Never returns. Fails only if a person has to act. */
export const make = <E extends Failure, E2 extends Failure, E3 extends Failure>(
  client: typeof Client.Service,
  operations: {
    readonly recover: Effect.Effect<Enrolled, E>
    readonly rotate: Effect.Effect<Enrolled, E2>
    readonly rotateKey: Effect.Effect<string, E3>
  }
) => {
  const { recover, rotate, rotateKey } = operations
  /** The share of its life after which the token is replaced. */
  const due = { token: "", share: 0 }
  const turn = Effect.gen(function* () {
    const { base_url, token } = yield* recover
    const self = yield* client.self(base_url, token.access_token)
    if (self.body.key?.rotation_required === true) return yield* Effect.flatMap(rotateKey, logKey)
    const left = lifetimeOf(self)
    if (due.token !== self.body.token_id)
      Object.assign(due, { token: self.body.token_id, share: yield* Random.nextBetween(0.6, 0.8) })
    const { share } = due
    const wait = left - (1 - share) * token.lifetime_seconds
    if (wait > 0) {
      yield* Effect.logInfo("The token is valid").pipe(
        Effect.annotateLogs({ seconds_left: left, rotating_in_seconds: Math.round(wait) })
      )
      const jumped = yield* sleepUnlessClockJumps(Math.min(wait, longestSleep) * 1000)
      if (jumped || wait > longestSleep) return
    }
    yield* logRotated(yield* rotate)
  })

  const persistent = waitForFolder(turn).pipe(
    Effect.tapError((failure) => logFailure(failure, isRetryable(failure))),
    Effect.retry({ while: isRetryable, schedule: pauses(Duration.infinity) })
  )
  return Effect.forever(persistent).pipe(Effect.withSpan("Bridge.run"))
}

/**
 * Tries again while the disk of the folder is full or gone, for as long as it takes, and says so once. Every step can be
 * repeated, because nothing is sent before it is stored.
 */
export const waitForFolder = <A, E extends { readonly _tag: string; readonly message: string }, R>(
  self: Effect.Effect<A, E, R>
) =>
  Effect.suspend(() => {
    let told = false
    const tell = (failure: E) => {
      if (told || !isUnavailable(failure)) return Effect.void
      told = true
      return logFailure(failure, true)
    }
    return self.pipe(Effect.tapError(tell), Effect.retry({ while: isUnavailable, schedule: pauses(Duration.infinity) }))
  })

const isUnavailable = (failure: unknown) => failure instanceof FolderUnavailable

const logFailure = ({ _tag, message }: { readonly _tag: string; readonly message: string }, isRetried: boolean) =>
  Effect.logWarning(message).pipe(Effect.annotateLogs({ code: _tag, fatal: !isRetried }))

const logRotated = ({ rotation, token }: Enrolled) =>
  Effect.logInfo("Rotated").pipe(
    Effect.annotateLogs({
      rotation_id: rotation?.state === "confirmed" ? rotation.rotation_id : "",
      lifetime_seconds: token.lifetime_seconds
    })
  )

const logKey = (public_key_fingerprint: string) =>
  Effect.logInfo("Replaced the key").pipe(Effect.annotateLogs({ public_key_fingerprint }))

const isRetryable = (failure: { readonly _tag: string }) =>
  failure instanceof ServiceUnreachable ||
  (failure instanceof Refusal &&
    (isTransient(failure) || reactionTo(failure) === "wait" || reactionTo(failure) === "prepare"))

/** Sleeps by the monotonic clock; true as soon as the wall clock has moved more than two seconds against it. */
const sleepUnlessClockJumps = Effect.fnUntraced(function* (millis: number) {
  const start = yield* monotonic
  const difference = (yield* Clock.currentTimeMillis) - start
  for (;;) {
    const now = yield* monotonic
    if (Math.abs((yield* Clock.currentTimeMillis) - now - difference) > 2000) return true
    const left = start + millis - now
    if (left <= 0) return false
    yield* Effect.sleep(Math.min(left, 15_000))
  }
})

const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
