/**
 * How a Bridge gets its first token, or a new one with a re-enrollment credential (spec 4.1, 4.2).
 *
 * | crash or lost answer after       | the next `enroll` with the same credential                                  |
 * |----------------------------------|-----------------------------------------------------------------------------|
 * | key pair stored                  | uses the same key pair                                                      |
 * | Idempotency-Keys stored          | gets a first challenge, or the one that was created                         |
 * | challenge created or answered    | gets the same challenge: the same Idempotency-Key, so the same nonce        |
 * | proof accepted or answered       | gets the same token: the same nonce and signature, so an exact retry        |
 * | challenge expired before a proof | gets `enrollment_challenge_expired`, and a new challenge under new keys     |
 * | token stored                     | sends nothing, because the enrollment is done                               |
 */
import { Effect, Redacted } from "effect"
import { CreateChallenge, Prove } from "../../wire/bridges/EnrollmentApi.ts"
import { fingerprint, sha256, sign, uuid } from "../Crypto.ts"
import type { Client } from "./Client.ts"
import { reactionTo } from "../../wire/bridges/Reactions.ts"
import { OtherBridge } from "../Errors.ts"
import type { Journal } from "./Journal.ts"
import { type Enrolled, type Identity, lifetimeOf, type State } from "./State.ts"

export interface EnrollRequest {
  readonly base_url: string
  readonly identity: Identity
  readonly credential: Redacted.Redacted<string>
}

/** A state with an enrollment, done or under way. */
type Enrolling = State & { readonly enrollment: NonNullable<State["enrollment"]> }

export const make = (client: typeof Client.Service, journal: typeof Journal.Service) => {
  const enroll = Effect.fn("Bridge.enroll")(
    function* (request: EnrollRequest) {
      const keys = yield* journal.keys
      const enrolling = yield* begin(request, yield* journal.read)
      if (isDone(enrolling)) return enrolling

      const { base_url, enrollment, identity } = enrolling
      const challenge = yield* client
        .createChallenge(
          base_url,
          request.credential,
          new CreateChallenge({ ...identity, public_key_fingerprint: fingerprint(keys.publicKey) }),
          enrollment.challenge_key
        )
        .pipe(Effect.tapError((refusal) => (isFinal(refusal) ? giveUp(enrolling) : Effect.void)))
      const { challenge_id, nonce_b64 } = challenge.body
      const proof = new Prove({
        project_id: identity.project_id,
        bridge_id: identity.bridge_id,
        challenge_id,
        nonce_b64,
        signature_b64: yield* sign(keys.privateKey, nonce_b64),
        public_key_b64: keys.publicKey
      })
      const proved = yield* client
        .prove(base_url, proof, enrollment.proof_key)
        .pipe(Effect.tapError((refusal) => (reactionTo(refusal) === "challenge" ? giveUp(enrolling) : Effect.void)))
      const enrolled: Enrolled = {
        ...enrolling,
        enrollment: { ...enrollment, done: true },
        token: { access_token: proved.body.access_token, lifetime_seconds: lifetimeOf(proved) },
        rotation: null
      }
      yield* journal.write(enrolled)
      // The enrollment has ended a key rotation under way; the key that enrolled counts.
      if ((yield* journal.keyRotation) !== undefined) yield* journal.writeKeys(keys)
      return enrolled
    },
    Effect.retry({ while: (failure) => reactionTo(failure) === "challenge", times: 2 })
  )

  const begin = Effect.fnUntraced(function* (
    { base_url, credential, identity }: EnrollRequest,
    known: State | undefined
  ) {
    const credential_hash = sha256(Redacted.value(credential), "hex")
    const open = known?.enrollment?.done === false
    if (known !== undefined && (open || known.token !== null) && !same(known.identity, identity)) {
      return yield* new OtherBridge({
        message: `The state folder belongs to ${known.identity.bridge_id} of project ${known.identity.project_id}: repeat its flags, or use another folder.`
      })
    }
    if (known?.enrollment?.credential_hash === credential_hash && (open || known.token !== null)) {
      // The service may have a new address.
      const again = { ...(known as Enrolling), base_url }
      if (base_url !== known.base_url) yield* journal.write(again)
      return again
    }
    const enrolling: Enrolling = {
      version: 1,
      base_url,
      identity,
      enrollment: {
        credential_hash,
        challenge_key: `bridge-enroll-${yield* uuid}`,
        proof_key: `bridge-proof-${yield* uuid}`,
        done: false
      },
      // A re-enrollment that fails leaves the Bridge with its present token.
      token: known?.token ?? null,
      rotation: known?.rotation ?? null
    }
    yield* journal.write(enrolling)
    return enrolling
  })

  /** Discards the Idempotency-Keys, which can no longer lead to a token. */
  const giveUp = (enrolling: Enrolling) => journal.write({ ...enrolling, enrollment: null })

  return { enroll }
}

const isDone = (state: Enrolling): state is Enrolling & Enrolled => state.enrollment.done && state.token !== null

const isFinal = (failure: { readonly _tag: string }) => {
  const reaction = reactionTo(failure)
  return reaction === "operator" || reaction === "report"
}

const same = (left: Identity, right: Identity) =>
  left.project_id === right.project_id &&
  left.bridge_id === right.bridge_id &&
  left.device_id === right.device_id &&
  left.display_name === right.display_name
