/**
 * Limits failed authentications per client address, on every route together (decisions.md, Rate limits).
 *
 * 1. A credential that was accepted by this process in the last ten minutes is looked up without a limit, so that nobody
 *    behind a shared address is locked out by a neighbour.
 * 2. Any other credential takes a token of its address before it is looked up. Without one it is refused.
 * 3. A known credential has a share of the connections of its own (Shares.ts), so a flood of guesses delays no caller who
 *    was there before.
 * 4. The address gets its token back if the credential is accepted, or if the request failed for another reason. So no
 *    more than the burst is looked up at once.
 */
import { Clock, Context, Effect, Exit, Layer, Redacted } from "effect"
import * as Tokens from "../crypto/Tokens.ts"
import { CurrentShare, Shares } from "../database/Shares.ts"
import { Settings } from "../settings/Settings.ts"
import { Caller } from "../../wire/Headers.ts"
import { type Buckets, RateLimit } from "./RateLimit.ts"
import { recent } from "./Recent.ts"

const rate = { perSecond: 20, burst: 200 }
/** Milliseconds. */
const remembered = 600_000
const maxRemembered = 100_000

/** `rejected`: the answer says that the credential is not valid. `undecided`: the request failed before or after that. */
export type Outcome = "accepted" | "rejected" | "undecided"

interface Authentication<A, E> {
  readonly credential: Redacted.Redacted<string>
  /** The route's limit per credential, if it has one. */
  readonly perCredential?: Buckets
  /** What the exit of the authentication means. */
  readonly outcomeOf: (exit: Exit.Exit<A, E>) => Outcome
  /** Answers instead of the authentication; `seconds` is Retry-After. */
  readonly limited: (seconds: number) => Effect.Effect<A, E>
}

export class Attempts extends Context.Service<
  Attempts,
  {
    /** Runs an effect that authenticates the credential. If it is interrupted, an unknown credential counts as rejected. */
    readonly attempt: <A, E, R>(
      authentication: Authentication<A, E>,
      authenticate: Effect.Effect<A, E, R>
    ) => Effect.Effect<A, E, R>
    /** Treats a credential that this process has just issued like one that it has accepted. */
    readonly remember: (credential: Redacted.Redacted<string>) => Effect.Effect<void>
  }
>()("service/edge/Attempts") {
  static readonly layer = Layer.effect(
    Attempts,
    Effect.gen(function* () {
      const { http } = yield* Settings
      const shares = yield* Shares
      const failures = (yield* RateLimit).buckets(rate)
      // Hashes only: no credential stays in memory after its request. The value is the time of the acceptance.
      const accepted = recent<number>(maxRemembered, remembered)

      const attempt = Effect.fnUntraced(function* <A, E, R>(
        { credential, limited, outcomeOf, perCredential }: Authentication<A, E>,
        authenticate: Effect.Effect<A, E, R>
      ) {
        const now = yield* Clock.currentTimeMillis
        const key = keyOf(credential)
        const { network } = yield* Caller
        const isKnown = now - (accepted.get(key) ?? -Infinity) < remembered
        const settle = (outcome: Outcome): Effect.Effect<unknown> => {
          if (outcome === "accepted") accepted.set(key, now, now)
          if (outcome === "rejected") accepted.delete(key)
          if (isKnown) return outcome === "rejected" ? failures.take(network) : Effect.void
          return outcome === "rejected" ? Effect.void : failures.giveBack(network)
        }
        const failuresWait = isKnown ? 0 : yield* failures.take(network)
        if (failuresWait > 0) return yield* limited(failuresWait)
        const wait = perCredential === undefined ? 0 : yield* perCredential.take(key)
        if (wait > 0) {
          yield* settle("undecided")
          return yield* limited(wait)
        }
        const shared = isKnown ? Effect.provideService(authenticate, CurrentShare, shares.known(key)) : authenticate
        return yield* Effect.onExit(shared, (exit) =>
          settle(Exit.hasInterrupts(exit) ? (isKnown ? "undecided" : "rejected") : outcomeOf(exit))
        )
      })

      const remember = (credential: Redacted.Redacted<string>) =>
        Effect.map(Clock.currentTimeMillis, (now) => accepted.set(keyOf(credential), now, now))

      return http.rateLimits
        ? { attempt, remember }
        : {
            attempt: ({ credential }, authenticate) =>
              Effect.provideService(authenticate, CurrentShare, shares.known(keyOf(credential))),
            remember: () => Effect.void
          }
    })
  )
}

/**
 * What limits know a token by that is bound to a key: the two together, once the key is proved. So whoever has the token
 * alone does not use up what its holder may.
 */
export const boundTo = (token: Redacted.Redacted<string>, jkt: Uint8Array | undefined): Redacted.Redacted<string> =>
  jkt === undefined ? token : Redacted.make(`${Redacted.value(token)} ${Buffer.from(jkt).toString("base64url")}`)

/** The key of a credential in limits: its hash, whatever the header looked like. */
export const keyOf = (credential: Redacted.Redacted<string>): string =>
  Buffer.from(Tokens.hash(credential)).toString("base64")
