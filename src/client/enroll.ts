/**
 * How a Bridge gets its first token, or a new one with a re-enrollment credential (spec 4.1, 4.2).
 *
 * | lost after                     | the next `enroll` with the same credential finds                             |
 * |--------------------------------|------------------------------------------------------------------------------|
 * | key pair kept                  | the same key pair                                                            |
 * | idempotency keys kept          | a first challenge, or the one that was made                                  |
 * | challenge made or answered     | the same challenge: same key, so the same nonce                              |
 * | proof accepted or answered     | the same token: same nonce, so the same signature, and an exact retry        |
 * | challenge expired before proof | `enrollment_challenge_expired`, hence new keys and with them a new challenge |
 * | token kept                     | that it is done, and asks nothing                                            |
 */
import { Effect, Redacted } from "effect"
import { CreateChallenge, Prove } from "../wire/bridges/EnrollmentApi.ts"
import { fingerprint, sha256, sign, uuid } from "./Crypto.ts"
import type { Client } from "./Client.ts"
import { reactionTo } from "../wire/bridges/Reactions.ts"
import { OtherBridge } from "./Errors.ts"
import type { Journal } from "./Journal.ts"
import { type Holding, type Identity, lifetimeOf, type State } from "./State.ts"

export interface Order {
  readonly base_url: string
  readonly identity: Identity
  readonly credential: Redacted.Redacted<string>
}

/** An enrollment whose outcome is open. */
type Begun = State & { readonly enrollment: NonNullable<State["enrollment"]> }

export const make = (client: typeof Client.Service, journal: typeof Journal.Service) => {
  const enroll = Effect.fn("Bridge.enroll")(
    function* (order: Order) {
      const keys = yield* journal.keys
      const begun = yield* begin(order, yield* journal.read)
      if (holds(begun)) return begun

      const { base_url, enrollment, identity } = begun
      const challenge = yield* client
        .createChallenge(
          base_url,
          order.credential,
          new CreateChallenge({ ...identity, public_key_fingerprint: fingerprint(keys.publicKey) }),
          enrollment.challenge_key
        )
        .pipe(Effect.tapError((refusal) => (isFinal(refusal) ? giveUp(begun) : Effect.void)))
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
        .pipe(Effect.tapError((refusal) => (reactionTo(refusal) === "challenge" ? giveUp(begun) : Effect.void)))
      const enrolled: Holding = {
        ...begun,
        enrollment: { ...enrollment, done: true },
        token: { access_token: proved.body.access_token, lifetime_seconds: lifetimeOf(proved) },
        rotation: null
      }
      yield* journal.write(enrolled)
      return enrolled
    },
    Effect.retry({ while: (failure) => reactionTo(failure) === "challenge", times: 2 })
  )

  const begin = Effect.fnUntraced(function* ({ base_url, credential, identity }: Order, known: State | undefined) {
    const credential_hash = sha256(Redacted.value(credential), "hex")
    const open = known?.enrollment?.done === false
    if (known !== undefined && (open || known.token !== null) && !same(known.identity, identity)) {
      return yield* new OtherBridge({
        message: `The state folder belongs to ${known.identity.bridge_id} of project ${known.identity.project_id}: repeat its flags, or name another folder.`
      })
    }
    if (known?.enrollment?.credential_hash === credential_hash && (open || known.token !== null)) {
      // The service may have moved.
      const again = { ...(known as Begun), base_url }
      if (base_url !== known.base_url) yield* journal.write(again)
      return again
    }
    const begun: Begun = {
      version: 1,
      base_url,
      identity,
      enrollment: {
        credential_hash,
        challenge_key: `bridge-enroll-${yield* uuid}`,
        proof_key: `bridge-proof-${yield* uuid}`,
        done: false
      },
      // A re-enrollment that does not succeed leaves the Bridge with what it has.
      token: known?.token ?? null,
      rotation: known?.rotation ?? null
    }
    yield* journal.write(begun)
    return begun
  })

  /** Nothing will come of these keys. */
  const giveUp = (begun: Begun) => journal.write({ ...begun, enrollment: null })

  return { enroll }
}

const holds = (state: Begun): state is Begun & Holding => state.enrollment.done && state.token !== null

const isFinal = (failure: { readonly _tag: string }) => {
  const reaction = reactionTo(failure)
  return reaction === "operator" || reaction === "report"
}

const same = (left: Identity, right: Identity) =>
  left.project_id === right.project_id &&
  left.bridge_id === right.bridge_id &&
  left.device_id === right.device_id &&
  left.display_name === right.display_name
