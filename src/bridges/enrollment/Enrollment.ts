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
import { Context, Effect, Layer, type Redacted } from "effect"
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
    Effect.all({ createChallenge: CreateChallengeOperation.make, prove: ProveOperation.make })
  )
}
