/**
 * How a Bridge replaces its key (decisions.md, Key rotation), and how it resumes that after a crash.
 *
 * 1. Write the new key beside the old one, with the Idempotency-Keys of the three requests. Then prepare.
 * 2. Confirm, with the nonce signed by both keys.
 * 3. Write the new key alone.
 *
 * | crash or lost answer after | `key.json` | next request                | answer                                            |
 * |----------------------------|------------|-----------------------------|---------------------------------------------------|
 * | both keys written          | both       | prepare, same key           | a nonce                                           |
 * | prepare done or answered   | both       | prepare, same key           | the same nonce                                    |
 * | ... and window over        | both       | the same, then a new key    | `bridge_key_rotation_expired`, a nonce            |
 * | confirm done or answered   | both       | prepare by old, self by new | `bridge_proof_of_possession_invalid`, the new key |
 * | abort done or answered     | both       | prepare, same key           | `bridge_key_rotation_aborted`                     |
 * | new key written            | new        | none                        |                                                   |
 *
 * So at every point the folder holds the key that the service knows. Every request is proved by the old key, until the
 * service says that the new one counts.
 */
import { Data, Effect } from "effect"
import { ConfirmKey, type KeyRefusal } from "../../wire/bridges/KeysApi.ts"
import type { Client } from "./Client.ts"
import { fingerprint, generateKeyPair, sign, uuid } from "../Crypto.ts"
import { NotEnrolled } from "../Errors.ts"
import type { Journal, KeyRotation } from "./Journal.ts"
import type * as Rotate from "./rotate.ts"
import type { Enrolled } from "./State.ts"

/** The key rotation under way ended without a new key; the old one stays. */
class KeyDropped extends Data.TaggedError("KeyDropped")<{ readonly because: KeyRefusal }> {}

export const make = (
  client: typeof Client.Service,
  journal: typeof Journal.Service,
  { enrolled }: Pick<ReturnType<typeof Rotate.make>, "enrolled">
) => {
  const drop = Effect.fnUntraced(function* (because: KeyRefusal) {
    yield* journal.writeKeys(yield* journal.keys)
    return yield* new KeyDropped({ because })
  })

  const promote = ({ keys }: KeyRotation) => Effect.as(journal.writeKeys(keys), fingerprint(keys.publicKey))

  /** The old key is refused, or its rotation is over: if the service knows the new key, it counts. */
  const settle = Effect.fnUntraced(function* <E>(state: Enrolled, rotation: KeyRotation, refusal: E) {
    const { body } = yield* Effect.catchTag(
      client.self(state.base_url, state.token.access_token, rotation.keys),
      "bridge_proof_of_possession_invalid",
      () => Effect.fail(refusal)
    )
    if (body.key?.public_key_fingerprint !== fingerprint(rotation.keys.publicKey)) return yield* Effect.fail(refusal)
    return undefined
  })

  /** The nonce; undefined if the new key counts already. */
  const prepare = (state: Enrolled, rotation: KeyRotation) =>
    client
      .prepareKey(state.base_url, state.token.access_token, fingerprint(rotation.keys.publicKey), rotation.prepare_key)
      .pipe(
        Effect.map(({ body }) => body),
        Effect.catchTag("bridge_proof_of_possession_invalid", (refusal) => settle(state, rotation, refusal)),
        // Confirmed, and yet the old key counts: a re-enrollment has brought it back.
        Effect.catchTag([...ended, "bridge_key_rotation_confirmed"], drop)
      )

  const finish = Effect.fnUntraced(function* (rotation: KeyRotation) {
    const state = yield* enrolled
    const prepared = yield* prepare(state, rotation)
    if (prepared === undefined) return yield* promote(rotation)
    const { key_rotation_id, nonce_b64 } = prepared
    const { privateKey, publicKey } = rotation.keys
    const old = yield* journal.keys
    const request = new ConfirmKey({
      key_rotation_id,
      nonce_b64,
      public_key_b64: new Uint8Array(publicKey),
      signature_b64: yield* signed(privateKey, nonce_b64),
      predecessor_signature_b64: yield* signed(old.privateKey, Buffer.concat([nonce_b64, publicKey]))
    })
    yield* client.confirmKey(state.base_url, state.token.access_token, request, rotation.confirm_key).pipe(
      Effect.catchTag(["bridge_proof_of_possession_invalid", "bridge_key_rotation_confirmed"], (refusal) =>
        settle(state, rotation, refusal)
      ),
      Effect.catchTag([...ended, "bridge_key_rotation_not_found"], drop)
    )
    return yield* promote(rotation)
  })

  /**
   * The key rotation under way; undefined also during an enrollment. The proof of a killed `enroll` may still arrive, and
   * brings back the key that it was made with, so until it is finished the key stays.
   */
  const underWay = Effect.gen(function* () {
    const state = yield* journal.read
    return state?.enrollment?.done === false ? undefined : yield* journal.keyRotation
  })

  const begin = Effect.gen(function* () {
    if ((yield* enrolled).enrollment?.done === false) {
      return yield* new NotEnrolled({
        message: "An enrollment is under way: run enroll again with the same credential file."
      })
    }
    const known = yield* journal.keyRotation
    if (known !== undefined) return known
    const rotation: KeyRotation = {
      keys: yield* generateKeyPair,
      prepare_key: `bridge-prepare-key-${yield* uuid}`,
      confirm_key: `bridge-confirm-key-${yield* uuid}`,
      abort_key: `bridge-abort-key-${yield* uuid}`
    }
    yield* journal.writeKeys(yield* journal.keys, rotation)
    return rotation
  })

  /** Replaces the key, or resumes the key rotation under way; the fingerprint of the new key. */
  const rotateKey = Effect.flatMap(begin, finish).pipe(
    Effect.retry({ while: (failure) => failure._tag === "KeyDropped", times: 2 }),
    Effect.catchTag("KeyDropped", ({ because }) => Effect.fail(because)),
    Effect.withSpan("Bridge.rotateKey")
  )

  /** Finishes a key rotation under way, if there is one. */
  const recoverKey = Effect.gen(function* () {
    const rotation = yield* underWay
    if (rotation !== undefined) yield* Effect.catchTag(finish(rotation), "KeyDropped", () => Effect.void)
  })

  /** Ends a key rotation under way and keeps the old key. False if there was none, or the new key counts already. */
  const abortKey = Effect.gen(function* () {
    const rotation = yield* underWay
    if (rotation === undefined) return false
    const state = yield* enrolled
    const prepared = yield* prepare(state, rotation)
    const isAborted =
      prepared !== undefined &&
      (yield* client
        .abortKey(state.base_url, state.token.access_token, prepared.key_rotation_id, rotation.abort_key)
        .pipe(
          Effect.as(true),
          Effect.catchTag(["bridge_proof_of_possession_invalid", "bridge_key_rotation_confirmed"], (refusal) =>
            Effect.as(settle(state, rotation, refusal), false)
          ),
          Effect.catchTag([...ended, "bridge_key_rotation_not_found"], drop)
        ))
    yield* isAborted ? journal.writeKeys(yield* journal.keys) : promote(rotation)
    return isAborted
  }).pipe(
    Effect.catchTag("KeyDropped", () => Effect.succeed(false)),
    Effect.withSpan("Bridge.abortKey")
  )

  return { rotateKey, recoverKey, abortKey }
}

const ended = ["bridge_key_rotation_expired", "bridge_key_rotation_aborted"] as const

const signed = (privateKey: KeyRotation["keys"]["privateKey"], message: Uint8Array) =>
  Effect.map(sign(privateKey, message), (signature) => new Uint8Array(signature))
