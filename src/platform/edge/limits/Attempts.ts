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
 * 5. A credential with a proved key is another one than the credential alone: whoever has a copy of the token neither uses
 *    up its holder's limit nor makes the process forget the holder. The signature of a proof is verified only after 2. A
 *    copy of a known token comes past 2, so proofs for one token from one address have a limit of their own.
 */
import { Clock, Context, Effect, Exit, Layer, Redacted } from "effect"
import * as Tokens from "../../crypto/Tokens.ts"
import { CurrentShare, Shares } from "../../database/Shares.ts"
import { Settings } from "../../settings/Settings.ts"
import { Caller } from "../../../wire/Headers.ts"
import { siteOf } from "../Addresses.ts"
import { type Buckets, RateLimit } from "./RateLimit.ts"
import { recent } from "./Recent.ts"

const rate = { perSecond: 20, burst: 200 }
/** Of proofs for one known credential from one address: as many as any route admits requests with it. */
const proofRate = { perSecond: 50, burst: 500 }
/** Milliseconds. */
const remembered = 600_000
const maxRemembered = 100_000

/**
 * `rejected`: the answer says that the credential is not valid. `unproven`: whoever sent it has not proved its key, so it
 * says nothing about the credential. `undecided`: the request failed before or after that.
 */
export type Outcome = "accepted" | "rejected" | "unproven" | "undecided"

/** The key that the request says it holds. */
interface Claimed {
  /** Its thumbprint. */
  readonly jkt: Uint8Array
  readonly isSigned: Effect.Effect<boolean>
}

interface Authentication<A, E> {
  readonly credential: Redacted.Redacted<string>
  readonly claimed?: Claimed | undefined
  /** The route's limit per credential, if it has one. */
  readonly perCredential?: Pick<Buckets, "take" | "giveBack">
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
    /** Treats a credential that this process has just issued like one that it has accepted, with a key or without. */
    readonly remember: (credential: Redacted.Redacted<string>) => Effect.Effect<void>
  }
>()("service/edge/Attempts") {
  static readonly layer = Layer.effect(
    Attempts,
    Effect.gen(function* () {
      const { http } = yield* Settings
      const shares = yield* Shares
      const limits = yield* RateLimit
      const failures = limits.networks(rate)
      const proofs = limits.buckets(proofRate)
      // Hashes only: no credential stays in memory after its request. The value is the time of the acceptance.
      const accepted = recent<number>(maxRemembered, remembered)

      const attempt = Effect.fnUntraced(function* <A, E, R>(
        { claimed, credential, limited, outcomeOf, perCredential }: Authentication<A, E>,
        authenticate: Effect.Effect<A, E, R>
      ) {
        const now = yield* Clock.currentTimeMillis
        const { network } = yield* Caller
        const alone = keyOf(credential)
        const withKey = claimed === undefined ? alone : keyOf(boundTo(credential, claimed.jkt))
        const isAccepted = (key: string) => now - (accepted.get(key) ?? -Infinity) < remembered
        const isKnown = isAccepted(alone) || isAccepted(withKey)
        const ofProofs =
          claimed === undefined ? Effect.succeed(0) : proofs.take(`${alone} ${siteOf(network) ?? network}`)
        const early = yield* isKnown ? ofProofs : failures.take(network)
        if (early > 0) return yield* limited(early)

        const isProved = claimed !== undefined && (yield* claimed.isSigned)
        const key = isProved ? withKey : alone
        const settle = Effect.fnUntraced(function* (outcome: Outcome) {
          if (outcome === "accepted") accepted.set(key, now, now)
          if (outcome === "rejected") for (const ended of [alone, withKey]) accepted.delete(ended)
          // A copy of a proof draws on nothing of its holder's.
          if (outcome === "unproven" && isProved) yield* perCredential?.giveBack(key) ?? Effect.void
          const hasFailed = outcome === "rejected" || outcome === "unproven"
          if (isKnown && hasFailed) yield* failures.take(network)
          if (!isKnown && !hasFailed) yield* failures.giveBack(network)
        })
        const wait = perCredential === undefined ? 0 : yield* perCredential.take(key)
        if (wait > 0) {
          yield* settle("undecided")
          return yield* limited(wait)
        }
        const owner = isAccepted(key) ? key : alone
        const shared = isKnown ? Effect.provideService(authenticate, CurrentShare, shares.known(owner)) : authenticate
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

/** What limits know a token by whose caller has proved a key: the two together. */
export const boundTo = (token: Redacted.Redacted<string>, jkt: Uint8Array | undefined): Redacted.Redacted<string> =>
  jkt === undefined ? token : Redacted.make(`${Redacted.value(token)} ${Buffer.from(jkt).toString("base64url")}`)

/** The key of a credential in limits: its hash, whatever the header looked like. */
export const keyOf = (credential: Redacted.Redacted<string>): string =>
  Buffer.from(Tokens.hash(credential)).toString("base64")
