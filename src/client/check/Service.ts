/**
 * The service as a Bridge sees it, in memory: one project, and the states and codes of docs/protocol.md. A test compares it
 * with the service, request by request. It has no rate limits.
 */
import { Option, Schema } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import { CreateChallenge, Prove } from "../../wire/bridges/EnrollmentApi.ts"
import { AbortKey, ConfirmKey, PrepareKey } from "../../wire/bridges/KeysApi.ts"
import { RotationRequest } from "../../wire/bridges/RotationApi.ts"
import { IdempotencyKey } from "../../wire/Ids.ts"
import { fingerprint } from "../Crypto.ts"
import { type Answer, canonical, inProgress, isSigned, refusal, success } from "./Answer.ts"
import { makeKeyRotations } from "./KeyRotations.ts"
import { validProof } from "./Proof.ts"

export const operations = {
  challenge: "POST /bridge/v1/enrollment/challenges",
  proof: "POST /bridge/v1/enrollment/proofs",
  prepare: "POST /bridge/v1/tokens/rotate/prepare",
  confirm: "POST /bridge/v1/tokens/rotate/confirm",
  abort: "POST /bridge/v1/tokens/rotate/abort",
  revoke: "POST /bridge/v1/tokens/revoke",
  self: "GET /bridge/v1/tokens/self",
  prepareKey: "POST /bridge/v1/keys/rotate/prepare",
  confirmKey: "POST /bridge/v1/keys/rotate/confirm",
  abortKey: "POST /bridge/v1/keys/rotate/abort"
} as const
export type Operation = keyof typeof operations

export interface Request {
  readonly bearer: string | undefined
  readonly key: string | undefined
  /** The DPoP header. */
  readonly proof?: string | undefined
  readonly contentType: string | undefined
  readonly body: string
}

interface Token {
  readonly text: string
  readonly id: string
  state: "active" | "pending" | "revoked"
  revoked_at: number | null
  /** Null until a successor is confirmed. */
  expires_at: number | null
}

interface Rotation {
  readonly id: string
  readonly predecessor: Token
  readonly successor: Token
  readonly prepare_key: string
  readonly ends_at: number
  readonly prepared: object
  state: "pending" | "confirmed" | "aborted"
  end: { readonly key: string; readonly body: object } | undefined
}

interface Challenge {
  readonly id: string
  readonly nonce: Buffer
  readonly of: CreateChallenge
  readonly expires_at: number
  proof: { readonly key: string; readonly request: string; readonly body: object; readonly token: Token } | undefined
}

export interface Settings {
  /** A fresh token in the form that the service gives it. */
  readonly mint: (kind: "sbe" | "sbt") => string
  /** The service's clock, in milliseconds since 1970. */
  readonly now: () => number
  /** Seconds. */
  readonly lifetimes: { readonly token: number; readonly challenge: number; readonly confirmation: number }
}

/** Clear text: the files and the output of a Bridge are searched for it. */
export interface Secret {
  readonly what: "credential" | "token" | "nonce"
  readonly text: string
}

const strict = { onExcessProperty: "error" } as const
const challengeOf = Schema.decodeUnknownOption(Schema.fromJsonString(CreateChallenge), strict)
const proofOf = Schema.decodeUnknownOption(Schema.fromJsonString(Prove), strict)
const rotationOf = Schema.decodeUnknownOption(Schema.fromJsonString(RotationRequest), strict)
const newKeyOf = Schema.decodeUnknownOption(Schema.fromJsonString(PrepareKey), strict)
const confirmKeyOf = Schema.decodeUnknownOption(Schema.fromJsonString(ConfirmKey), strict)
const abortKeyOf = Schema.decodeUnknownOption(Schema.fromJsonString(AbortKey), strict)
const isKey = Schema.is(IdempotencyKey)

export const makeService = ({ lifetimes, mint, now }: Settings) => {
  const project_id = randomUUID()
  const secrets: Array<Secret> = []
  const fresh = (kind: "sbe" | "sbt") => {
    const text = mint(kind)
    secrets.push({ what: kind === "sbe" ? "credential" : "token", text })
    return text
  }
  const credential = { text: fresh("sbe"), expires_at: now() + 3_600_000, revoked: false }
  const challenges: Array<Challenge> = []
  /** What the credential has answered, by Idempotency-Key. */
  const opened = new Map<string, { readonly request: string; readonly body: object }>()
  const tokens = new Map<string, Token>()
  const rotations: Array<Rotation> = []
  const identity = {
    bridge_id: "",
    device_id: "",
    display_name: "",
    publicKey: new Uint8Array() as Uint8Array,
    key_since: 0,
    /** The operator wants another key. */
    wants_new_key: false,
    enrolled: false,
    revoked: false,
    /** It has proved its key once, and has to with every request. */
    proves: false
  }
  const usedProofs = new Set<string>()

  const instant = (millis: number) => new Date(millis).toISOString()
  const hasPassed = (at: number | null) => at !== null && at <= now()
  const issue = (state: Token["state"], expires_at: number | null) => {
    const token: Token = { text: fresh("sbt"), id: randomUUID(), state, revoked_at: null, expires_at }
    tokens.set(token.text, token)
    return token
  }
  const isPending = (rotation: Rotation) =>
    rotation.state === "pending" && !hasPassed(rotation.ends_at) && rotation.predecessor.state === "active"
  const end = (token: Token) => void Object.assign(token, { state: "revoked", revoked_at: now() })
  const keys = makeKeyRotations({
    project_id,
    identity,
    now,
    window: lifetimes.confirmation,
    pendingOfToken: () => rotations.find(isPending),
    keeps: (nonce_b64) => secrets.push({ what: "nonce", text: nonce_b64 })
  })
  const bearerTerms = { token_type: "Bearer", scope: "bridge:transport" } as const

  const challenge = ({ bearer, body, contentType, key }: Request): Answer => {
    if (bearer === undefined) return refusal("bridge_enrollment_credential_required")
    if (key === undefined) return refusal("idempotency_key_required")
    if (!isKey(key)) return refusal("invalid_request")
    if (contentType !== "application/json") return refusal("unsupported_media_type")
    const asked = Option.getOrUndefined(challengeOf(body))
    if (asked === undefined) return refusal("invalid_request")
    if (bearer !== credential.text) return refusal("bridge_enrollment_credential_invalid")
    if (credential.revoked) return refusal("bridge_enrollment_credential_revoked")
    const request = canonical(asked)
    const earlier = opened.get(key)
    if (earlier !== undefined) {
      return earlier.request === request ? success(201, earlier.body, true) : refusal("idempotency_conflict")
    }
    const last = challenges.at(-1)
    if (last !== undefined) {
      const isAgain =
        last.proof === undefined &&
        hasPassed(last.expires_at) &&
        !hasPassed(credential.expires_at) &&
        last.of.bridge_id === asked.bridge_id &&
        last.of.device_id === asked.device_id &&
        last.of.public_key_fingerprint === asked.public_key_fingerprint
      if (!isAgain) return refusal("bridge_enrollment_credential_used")
    } else if (hasPassed(credential.expires_at)) return refusal("bridge_enrollment_credential_expired")
    if (asked.project_id !== project_id) return refusal("project_mismatch")
    const opening: Challenge = {
      id: randomUUID(),
      nonce: randomBytes(32),
      of: asked,
      expires_at: now() + lifetimes.challenge * 1000,
      proof: undefined
    }
    challenges.push(opening)
    const nonce_b64 = opening.nonce.toString("base64url")
    secrets.push({ what: "nonce", text: nonce_b64 })
    const answer = {
      challenge_id: opening.id,
      project_id,
      bridge_id: asked.bridge_id,
      public_key_fingerprint: asked.public_key_fingerprint,
      nonce_b64,
      expires_at: instant(opening.expires_at)
    }
    opened.set(key, { request, body: answer })
    return success(201, answer)
  }

  const proof = ({ body, contentType, key }: Request): Answer => {
    if (key === undefined) return refusal("idempotency_key_required")
    if (!isKey(key)) return refusal("invalid_request")
    if (contentType !== "application/json") return refusal("unsupported_media_type")
    const given = Option.getOrUndefined(proofOf(body))
    if (given === undefined) return refusal("invalid_request")
    const found = challenges.find(({ id }) => id === given.challenge_id)
    if (found === undefined) return refusal("enrollment_challenge_not_found")
    const { nonce, of } = found
    if (given.project_id !== project_id || given.bridge_id !== of.bridge_id || !nonce.equals(given.nonce_b64))
      return refusal("enrollment_challenge_mismatch")
    if (fingerprint(given.public_key_b64) !== of.public_key_fingerprint) return refusal("enrollment_key_mismatch")
    if (!isSigned(nonce, given.signature_b64, given.public_key_b64)) return refusal("enrollment_proof_invalid")
    if (identity.revoked) return refusal("bridge_revoked")
    const request = canonical(given)
    if (found.proof !== undefined) {
      const isExact = found.proof.key === key && found.proof.request === request && isActive(found.proof.token)
      return isExact ? success(200, found.proof.body, true) : refusal("enrollment_challenge_consumed")
    }
    if (hasPassed(found.expires_at) || credential.revoked) return refusal("enrollment_challenge_expired")
    if (identity.enrolled) return refusal("bridge_not_pending")
    const expires_at = now() + lifetimes.token * 1000
    const token = issue("active", expires_at)
    const { bridge_id, device_id, display_name } = of
    const publicKey = given.public_key_b64
    Object.assign(identity, { bridge_id, device_id, display_name, publicKey, enrolled: true, key_since: now() })
    const answer = { project_id, bridge_id, access_token: token.text, ...bearerTerms, expires_at: instant(expires_at) }
    found.proof = { key, request, body: answer, token }
    return success(200, answer)
  }

  const isActive = ({ expires_at, state }: Token) => state === "active" && !hasPassed(expires_at)

  /** Also a successor whose rotation has ended without a confirmation. */
  const isRevoked = (token: Token) =>
    token.state === "revoked" ||
    (token.state === "pending" && !rotations.some((rotation) => rotation.successor === token && isPending(rotation)))

  /** The first reason why a token cannot do normal work. */
  const unfit = (token: Token): Answer | undefined => {
    if (identity.revoked) return refusal("bridge_revoked")
    if (isRevoked(token)) return refusal("bridge_token_revoked")
    if (token.state === "pending") return refusal("bridge_token_pending")
    return hasPassed(token.expires_at) ? refusal("bridge_token_expired") : undefined
  }

  /** Refuses a request that lacks a proof by one of the keys, if it has to have one, or has a wrong one. */
  const unproven = (
    operation: Operation,
    { text }: Token,
    { proof }: Request,
    isRequired = identity.proves,
    publicKeys = [identity.publicKey]
  ): Answer | undefined => {
    const refused = refusal("bridge_proof_of_possession_invalid")
    if (proof === undefined) return isRequired ? refused : undefined
    const [method, path] = operations[operation].split(" ") as [string, string]
    const about = { method, path, token: text }
    const jti = publicKeys.map((key) => validProof(proof, about, key, now())).find((jti) => jti !== undefined)
    if (jti === undefined || usedProofs.has(jti)) return refused
    usedProofs.add(jti)
    identity.proves = true
    return undefined
  }

  const self = (request: Request): Answer => {
    const token = tokens.get(request.bearer ?? "")
    if (token === undefined) return refusal("bridge_token_invalid")
    const pending = rotations.find(isPending)
    return (
      unproven("self", token, request) ??
      unfit(token) ??
      success(200, {
        project_id,
        bridge_id: identity.bridge_id,
        device_id: identity.device_id,
        display_name: identity.display_name,
        account_references: ["github:octo"],
        scope: bearerTerms.scope,
        token_id: token.id,
        expires_at: instant(token.expires_at!),
        pending_rotation:
          pending === undefined ? null : { rotation_id: pending.id, confirmation_expires_at: instant(pending.ends_at) },
        key: {
          public_key_fingerprint: fingerprint(identity.publicKey),
          since: instant(identity.key_since),
          rotation_required: identity.wants_new_key,
          pending_rotation: keys.pending()
        }
      })
    )
  }

  const prepare = (request: Request): Answer => {
    const { key } = request
    const token = tokens.get(request.bearer ?? "")
    if (token === undefined) return refusal("bridge_token_invalid")
    if (key === undefined) return refusal("idempotency_key_required")
    if (!isKey(key)) return refusal("invalid_request")
    return unproven("prepare", token, request) ?? prepared(token, key)
  }

  const prepared = (token: Token, key: string): Answer => {
    const because = unfit(token)
    if (because !== undefined) return because
    const earlier = rotations.find(({ prepare_key }) => prepare_key === key)
    if (earlier !== undefined) {
      if (earlier.predecessor !== token) return refusal("idempotency_conflict")
      if (earlier.state === "aborted") return refusal("bridge_rotation_aborted")
      return isPending(earlier) ? success(201, earlier.prepared, true) : refusal("bridge_rotation_expired")
    }
    const underWay = keys.inProgress() ?? inProgress("bridge_rotation_in_progress", rotations.find(isPending), now())
    if (underWay !== undefined) return underWay
    const ends_at = now() + lifetimes.confirmation * 1000
    const successor = issue("pending", null)
    const rotation_id = randomUUID()
    const answer = {
      rotation_id,
      successor_token: successor.text,
      ...bearerTerms,
      confirmation_expires_at: instant(ends_at)
    }
    rotations.push({
      id: rotation_id,
      predecessor: token,
      successor,
      prepare_key: key,
      ends_at,
      prepared: answer,
      state: "pending",
      end: undefined
    })
    return success(201, answer)
  }

  const ends =
    (as: "confirmed" | "aborted") =>
    (request: Request): Answer => {
      const { body, contentType, key } = request
      const token = tokens.get(request.bearer ?? "")
      if (token === undefined) return refusal("bridge_token_invalid")
      if (key === undefined) return refusal("idempotency_key_required")
      if (!isKey(key)) return refusal("invalid_request")
      if (contentType !== "application/json") return refusal("unsupported_media_type")
      const asked = Option.getOrUndefined(rotationOf(body))
      if (asked === undefined) return refusal("invalid_request")
      return unproven(as === "confirmed" ? "confirm" : "abort", token, request) ?? ended(as, token, asked, key)
    }

  const ended = (as: "confirmed" | "aborted", token: Token, asked: RotationRequest, key: string): Answer => {
    if (identity.revoked) return refusal("bridge_revoked")
    const rotation = rotations.find(({ id }) => id === asked.rotation_id)
    const isOwn = rotation?.successor === token
    if (!isOwn || rotation.state === "confirmed") {
      if (isRevoked(token)) return refusal("bridge_token_revoked")
      if (hasPassed(token.expires_at)) return refusal("bridge_token_expired")
    }
    if (rotation === undefined) return refusal("bridge_rotation_not_found")
    if (!isOwn) return refusal("bridge_rotation_invalid_state")
    if (rotation.state !== "pending") {
      if (rotation.state === as && rotation.end?.key === key) return success(200, rotation.end.body, true)
      return refusal(rotation.state === "confirmed" ? "bridge_rotation_confirmed" : "bridge_rotation_aborted")
    }
    // What came first ended the rotation.
    const { expires_at: expired_at, revoked_at } = rotation.predecessor
    if (revoked_at !== null && revoked_at < rotation.ends_at) return refusal("bridge_rotation_predecessor_revoked")
    if (as === "confirmed" && hasPassed(expired_at) && expired_at! <= rotation.ends_at)
      return refusal("bridge_rotation_predecessor_expired")
    if (hasPassed(rotation.ends_at)) return refusal("bridge_rotation_expired")
    if (rotations.some((other) => other.state === as && other.end?.key === key)) return refusal("idempotency_conflict")
    rotation.state = as
    const { bridge_id } = identity
    const answer = { rotation_id: rotation.id, status: as, project_id, bridge_id }
    if (as === "aborted") {
      end(token)
      rotation.end = { key, body: answer }
    } else {
      const expires_at = now() + lifetimes.token * 1000
      Object.assign(token, { state: "active", expires_at })
      end(rotation.predecessor)
      rotation.end = { key, body: { ...answer, ...bearerTerms, expires_at: instant(expires_at) } }
    }
    return success(200, rotation.end.body)
  }

  const revoke = (request: Request): Answer => {
    const token = tokens.get(request.bearer ?? "")
    if (token === undefined) return refusal("bridge_token_invalid")
    const because = unproven("revoke", token, request) ?? unfit(token)
    if (because !== undefined) return because
    end(token)
    return success(200, { status: "revoked", revoked_at: instant(now()) })
  }

  /** A request of a key rotation: it always needs a proof. */
  const ofKey =
    <Body extends PrepareKey | ConfirmKey | AbortKey>(
      operation: "prepareKey" | "confirmKey" | "abortKey",
      decode: (body: string) => Option.Option<Body>,
      act: (body: Body, key: string) => Answer
    ) =>
    (request: Request): Answer => {
      const { body, contentType, key } = request
      const token = tokens.get(request.bearer ?? "")
      if (token === undefined) return refusal("bridge_token_invalid")
      if (key === undefined) return refusal("idempotency_key_required")
      if (!isKey(key)) return refusal("invalid_request")
      if (contentType !== "application/json") return refusal("unsupported_media_type")
      const asked = Option.getOrUndefined(decode(body))
      if (asked === undefined) return refusal("invalid_request")
      const accepted = [identity.publicKey, ...keys.replacedBy("key_rotation_id" in asked ? asked.key_rotation_id : "")]
      return unproven(operation, token, request, true, accepted) ?? unfit(token) ?? act(asked, key)
    }

  const handlers = {
    challenge,
    proof,
    prepare,
    confirm: ends("confirmed"),
    abort: ends("aborted"),
    revoke,
    self,
    prepareKey: ofKey("prepareKey", newKeyOf, keys.prepare),
    confirmKey: ofKey("confirmKey", confirmKeyOf, keys.confirm),
    abortKey: ofKey("abortKey", abortKeyOf, keys.abort)
  }
  return {
    project_id,
    credential: credential.text,
    secrets: secrets as ReadonlyArray<Secret>,
    handle: (operation: Operation, request: Request) => handlers[operation](request),
    /** The token that does normal work now. */
    activeToken: () => [...tokens.values()].find(isActive)?.text,
    /** What somebody does who has a copy of the token, and of the key if the Bridge proves it. */
    steal: {
      prepare: () => prepared(tokens.get(activeText()!)!, "stolen"),
      rotate: () => {
        const { rotation_id, successor_token } = prepared(tokens.get(activeText()!)!, "stolen").body as {
          readonly rotation_id: string
          readonly successor_token: string
        }
        return ended("confirmed", tokens.get(successor_token)!, new RotationRequest({ rotation_id }), "stolen")
      }
    },
    /** The fingerprint of the key that the service knows. */
    knownKey: () => fingerprint(identity.publicKey),
    /** The operator wants the Bridge to replace its key. */
    requireNewKey: () => void (identity.wants_new_key = true),
    wantsNewKey: () => identity.wants_new_key,
    /** The operator revokes the Bridge. */
    revokeIdentity: () => void (identity.revoked = true),
    /** The operator revokes the credential. */
    revokeCredential: () => void (credential.revoked = true)
  }

  function activeText() {
    return [...tokens.values()].find(isActive)?.text
  }
}
export type Service = ReturnType<typeof makeService>
