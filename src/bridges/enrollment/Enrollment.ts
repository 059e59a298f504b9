/**
 * Enrollment: a Bridge trades a one-time credential for its first token (spec 3.1, 3.4, 4.1, 4.2).
 *
 * 1. The operator issues a bootstrap credential for one project (Credentials.ts).
 * 2. The Bridge requests a challenge and declares the fingerprint of its key. The first challenge claims the credential
 *    for this Bridge (createChallenge.ts).
 * 3. It signs the nonce. One statement consumes the challenge, activates the identity and stores the token's hash
 *    (prove.ts).
 *
 * Nonce and token are derived from a server secret, a stored salt and what the Bridge sends again on a retry. So every
 * replica gives an exact retry the same answer, although no raw secret is stored. A refusal changes nothing.
 */
import { Clock, Context, Duration, Effect, Layer, type Redacted } from "effect"
import { CurrentShare, Shares } from "../../platform/database/Shares.ts"
import { recent } from "../../platform/edge/limits/Recent.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type {
  Challenge,
  CreateChallenge,
  EnrolledToken,
  Prove,
  EnrollmentRefusal
} from "../../wire/bridges/EnrollmentApi.ts"
import type { Replayable } from "../../wire/Headers.ts"
import * as CreateChallengeOperation from "./createChallenge.ts"
import * as ProveOperation from "./prove.ts"

export class Enrollment extends Context.Service<
  Enrollment,
  {
    readonly createChallenge: (
      request: CreateChallenge,
      key: string,
      credential: Redacted.Redacted<string>
    ) => Effect.Effect<Replayable<Challenge>, EnrollmentRefusal<"createChallenge">>
    readonly prove: (
      request: Prove,
      key: string
    ) => Effect.Effect<Replayable<EnrolledToken>, EnrollmentRefusal<"prove">>
  }
>()("service/bridges/Enrollment") {
  static readonly layer = Layer.effect(
    Enrollment,
    Effect.gen(function* () {
      const shares = yield* Shares
      const lifetime = Duration.toMillis((yield* Settings).bridge.challengeTtl)
      const createChallenge = yield* CreateChallengeOperation.make
      const prove = yield* ProveOperation.make
      const opened = recent<true>(mostOpened, lifetime)

      const remember = ({ answer }: Replayable<Challenge>) =>
        Effect.map(Clock.currentTimeMillis, (now) => opened.set(answer.challenge_id, true, now))
      /** A proof has no credential, but only the holder of one can name a challenge that was opened here. */
      const inShare = <A, E>(challenge_id: string, proof: Effect.Effect<A, E>) =>
        opened.get(challenge_id) === undefined
          ? proof
          : Effect.provideService(proof, CurrentShare, shares.known(challenge_id))

      return {
        createChallenge: (request, key, credential) => Effect.tap(createChallenge(request, key, credential), remember),
        prove: (request, key) => inShare(request.challenge_id, prove(request, key))
      }
    })
  )
}

/** Challenges whose proofs are known callers (Shares.ts). */
const mostOpened = 100_000
