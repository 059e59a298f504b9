/** The key rotation of the service that check-bridge plays (docs/protocol.md, POST /bridge/v1/keys/rotate/prepare). */
import { randomBytes, randomUUID } from "node:crypto"
import type { AbortKey, ConfirmKey, PrepareKey } from "../../wire/bridges/KeysApi.ts"
import { fingerprint } from "../Crypto.ts"
import { type Answer, canonical, inProgress, isSigned, refusal, success } from "./Answer.ts"

interface KeyRotation {
  readonly id: string
  readonly prepare_key: string
  readonly oldKey: Uint8Array
  /** The fingerprint of the new key. */
  readonly fingerprint: string
  readonly nonce: Buffer
  readonly ends_at: number
  readonly prepared: object
  state: "pending" | "confirmed" | "aborted"
  end: { readonly key: string; readonly request: string; readonly body: object } | undefined
}

export const makeKeyRotations = (of: {
  readonly project_id: string
  readonly identity: {
    readonly bridge_id: string
    publicKey: Uint8Array
    key_since: number
    wants_new_key: boolean
  }
  readonly now: () => number
  /** Seconds. */
  readonly window: number
  readonly pendingOfToken: () => { readonly ends_at: number } | undefined
  readonly keeps: (nonce_b64: string) => void
}) => {
  const { identity, now, project_id } = of
  const all: Array<KeyRotation> = []
  const instant = (millis: number) => new Date(millis).toISOString()
  const isOpen = ({ ends_at, state }: KeyRotation) => state === "pending" && ends_at > now()

  /** The code of a key rotation that is over. */
  const over = ({ ends_at, state }: KeyRotation): Answer | undefined => {
    if (state !== "pending") return refusal(`bridge_key_rotation_${state}`)
    return ends_at <= now() ? refusal("bridge_key_rotation_expired") : undefined
  }

  const prepare = ({ public_key_fingerprint }: PrepareKey, key: string): Answer => {
    const earlier = all.find(({ prepare_key }) => prepare_key === key)
    if (earlier !== undefined) {
      if (earlier.fingerprint !== public_key_fingerprint) return refusal("idempotency_conflict")
      return over(earlier) ?? success(201, earlier.prepared, true)
    }
    if (public_key_fingerprint === fingerprint(identity.publicKey)) return refusal("invalid_request")
    const underWay =
      inProgress("bridge_key_rotation_in_progress", all.find(isOpen), now()) ??
      inProgress("bridge_rotation_in_progress", of.pendingOfToken(), now())
    if (underWay !== undefined) return underWay
    const rotation: Omit<KeyRotation, "prepared"> = {
      id: randomUUID(),
      prepare_key: key,
      oldKey: identity.publicKey,
      fingerprint: public_key_fingerprint,
      nonce: randomBytes(32),
      ends_at: now() + of.window * 1000,
      state: "pending",
      end: undefined
    }
    const nonce_b64 = rotation.nonce.toString("base64url")
    of.keeps(nonce_b64)
    const prepared = {
      key_rotation_id: rotation.id,
      nonce_b64,
      confirmation_expires_at: instant(rotation.ends_at)
    }
    all.push({ ...rotation, prepared })
    return success(201, prepared)
  }

  /** `act` refuses, or answers and makes the change. */
  const end = (
    as: "confirmed" | "aborted",
    asked: ConfirmKey | AbortKey,
    key: string,
    act: (rotation: KeyRotation) => Answer
  ): Answer => {
    const rotation = all.find(({ id }) => id === asked.key_rotation_id)
    if (rotation === undefined) return refusal("bridge_key_rotation_not_found")
    const request = canonical(asked)
    if (rotation.state === as && rotation.end?.key === key) {
      return rotation.end.request === request ? success(200, rotation.end.body, true) : refusal("idempotency_conflict")
    }
    const because = over(rotation)
    if (because !== undefined) return because
    if (all.some((other) => other.state === as && other.end?.key === key)) return refusal("idempotency_conflict")
    const answer = act(rotation)
    if (answer.code === undefined) Object.assign(rotation, { state: as, end: { key, request, body: answer.body } })
    return answer
  }

  const confirm = (asked: ConfirmKey, key: string): Answer =>
    end("confirmed", asked, key, (rotation) => {
      const { nonce_b64, predecessor_signature_b64, public_key_b64, signature_b64 } = asked
      if (fingerprint(public_key_b64) !== rotation.fingerprint) return refusal("enrollment_key_mismatch")
      const isProven =
        rotation.nonce.equals(nonce_b64) &&
        isSigned(rotation.nonce, signature_b64, public_key_b64) &&
        isSigned(Buffer.concat([rotation.nonce, public_key_b64]), predecessor_signature_b64, rotation.oldKey)
      if (!isProven) return refusal("enrollment_proof_invalid")
      Object.assign(identity, { publicKey: public_key_b64, key_since: now(), wants_new_key: false })
      return success(200, {
        project_id,
        bridge_id: identity.bridge_id,
        public_key_fingerprint: rotation.fingerprint,
        rotated_at: instant(now())
      })
    })

  const abort = (asked: AbortKey, key: string): Answer =>
    end("aborted", asked, key, ({ id }) => success(200, { key_rotation_id: id, status: "aborted" }))

  return {
    prepare,
    confirm,
    abort,
    inProgress: () => inProgress("bridge_key_rotation_in_progress", all.find(isOpen), now()),
    /** The key that this confirmed key rotation has replaced. It still proves an exact retry. */
    replacedBy: (key_rotation_id: string) =>
      all.filter(({ id, state }) => id === key_rotation_id && state === "confirmed").map(({ oldKey }) => oldKey),
    /** As `tokens/self` shows it. */
    pending: () => {
      const open = all.find(isOpen)
      return open === undefined ? null : { key_rotation_id: open.id, confirmation_expires_at: instant(open.ends_at) }
    }
  }
}
