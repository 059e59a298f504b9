/**
 * Enrollment: a Bridge trades a one-time credential for its first token (spec 3.1, 3.4, 4.1, 4.2).
 *
 * 1. The operator issues a bootstrap credential for one project (Credentials.ts).
 * 2. The Bridge asks for a challenge and declares the fingerprint of its key. The first challenge claims the credential
 *    for this Bridge (Challenges.ts).
 * 3. It signs the nonce. One statement consumes the challenge, activates the identity and stores the token's hash
 *    (Proofs.ts).
 *
 * Nonce and token are derived from a server secret, a stored salt and what the Bridge sends again on a retry, so an
 * exact retry gets the same answer from any replica although nothing raw is stored. A refusal changes nothing.
 */
import { Context, Effect, Layer, type Redacted } from "effect"
import type { Replayable } from "../../wire/Headers.ts"
import type { Challenge, CreateChallenge, EnrolledToken, Prove } from "../../wire/bridges/EnrollmentApi.ts"
import * as Challenges from "./createChallenge.ts"
import * as Proofs from "./prove.ts"

export class Enrollment extends Context.Service<
  Enrollment,
  {
    readonly createChallenge: (
      asked: CreateChallenge,
      key: string,
      credential: Redacted.Redacted<string>
    ) => Effect.Effect<Replayable<Challenge>, Challenges.ChallengeRefusal>
    readonly prove: (asked: Prove, key: string) => Effect.Effect<Replayable<EnrolledToken>, Proofs.ProofRefusal>
  }
>()("service/enrollment/Enrollment") {
  static readonly layer = Layer.effect(Enrollment, Effect.all({ createChallenge: Challenges.make, prove: Proofs.make }))
}
