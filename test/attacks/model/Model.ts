/**
 * Section 3 of the specification as a pure function: one Bridge, its credentials, challenges, tokens and rotations, and the
 * answer to each request. Here everything expires at its instant; nothing is lazy, concurrent or lost.
 *
 * Each thing is named after its origin: a challenge is `credential/key`, a token has the name of its challenge or of
 * its rotation's key, a rotation that of its key. An outcome is a status, a status and "replayed", or a code.
 */

export const lifetimes = { credential: 3600, challenge: 600, token: 2000, rotation: 300, proofReplay: 700 }

type KeyPairName = "a" | "b"

export type Op =
  | { readonly op: "issue"; readonly credential: string; readonly reenroll: boolean }
  | { readonly op: "revokeCredential"; readonly credential: string }
  | { readonly op: "challenge"; readonly credential: string; readonly key: string; readonly keys: KeyPairName }
  | { readonly op: "prove"; readonly challenge: string; readonly key: string }
  | { readonly op: "prepare"; readonly token: string; readonly key: string }
  | { readonly op: "confirm" | "abort"; readonly token: string; readonly rotation: string; readonly key: string }
  | { readonly op: "revoke" | "self"; readonly token: string }
  | { readonly op: "emergency" | "disable" | "enable" | "sweep" }
  | { readonly op: "wait"; readonly seconds: number }

interface Credential {
  readonly reenroll: boolean
  readonly until: number
  revoked: boolean
  /** The key pair of its first use, and the expiry of its latest challenge. */
  claim: { readonly keys: KeyPairName; readonly until: number } | null
}
interface Challenge {
  readonly credential: string
  readonly keys: KeyPairName
  until: number
  consumed: { readonly key: string; readonly at: number } | null
}
interface Token {
  state: "pending" | "active" | "revoked" | "expired"
  until: number | null
}
interface Rotation {
  readonly predecessor: string
  readonly until: number
  state: "pending" | "confirmed" | "aborted" | "expired" | "cancelled"
  endKey: string | null
}

export interface State {
  now: number
  disabled: boolean
  identity: {
    status: "pending" | "active" | "revoked"
    keys: KeyPairName
    reservedUntil: number
    enrolledBy: string | null
  } | null
  readonly credentials: Record<string, Credential>
  readonly challenges: Record<string, Challenge>
  readonly tokens: Record<string, Token>
  readonly rotations: Record<string, Rotation>
}

export const initial: State = {
  now: 0,
  disabled: false,
  identity: null,
  credentials: {},
  challenges: {},
  tokens: {},
  rotations: {}
}

/** A refusal changes nothing. */
export const apply = (before: State, op: Op): readonly [after: State, outcome: string] => {
  const after = structuredClone(before)
  const outcome = step(after, op)
  return isRefusal(outcome) ? [before, outcome] : [after, outcome]
}

export const isRefusal = (outcome: string) => /^[a-z_]+$/.test(outcome) && outcome !== "done"

const step = (s: State, op: Op): string => {
  switch (op.op) {
    case "issue":
      return issue(s, op)
    case "revokeCredential":
      return revokeCredential(s, op.credential)
    case "challenge":
      return challenge(s, op)
    case "prove":
      return prove(s, op)
    case "prepare":
      return prepare(s, op)
    case "confirm":
    case "abort":
      return end(s, op)
    case "revoke":
      return revoke(s, op.token)
    case "self":
      return guard(s, op.token) ?? `200 ${pendingRotation(s)?.[0] ?? "nothing"} pending`
    case "emergency":
      return emergency(s)
    case "disable":
    case "enable":
      s.disabled = op.op === "disable"
      return "done"
    case "wait":
      return wait(s, op.seconds)
    case "sweep":
      return "done"
  }
}

// --- Enrollment (spec 3.1; 4.1, 4.2) ---

const issue = (s: State, { credential, reenroll }: Op & { op: "issue" }) => {
  if (s.disabled) return "project_disabled"
  if (reenroll) {
    if (s.identity === null) return "bridge_not_found"
    if (s.identity.status === "revoked") return "bridge_revoked"
    if (s.identity.status === "pending") return "bridge_not_active"
  }
  s.credentials[credential] = { reenroll, until: s.now + lifetimes.credential, revoked: false, claim: null }
  return "done"
}

const revokeCredential = (s: State, name: string) => {
  s.credentials[name]!.revoked = true
  const open = Object.values(s.challenges).filter(({ consumed }) => consumed === null)
  const ended = open.filter(({ credential, until }) => credential === name && until > s.now)
  for (const challenge of ended) challenge.until = s.now
  if (ended.length > 0 && s.identity?.status === "pending") {
    const others = open.filter((challenge) => !ended.includes(challenge)).map(({ until }) => until)
    s.identity.reservedUntil = others.length > 0 ? Math.max(...others) : s.now
  }
  return "done"
}

const challenge = (s: State, { credential: name, key, keys }: Op & { op: "challenge" }) => {
  const credential = s.credentials[name]!
  if (credential.revoked || s.disabled) return "bridge_enrollment_credential_revoked"
  const earlier = s.challenges[`${name}/${key}`]
  if (earlier !== undefined) return earlier.keys === keys ? "201 replayed" : "idempotency_conflict"
  const expired = credential.until <= s.now
  if (credential.claim !== null) {
    const consumed = Object.values(s.challenges).some((other) => other.credential === name && other.consumed !== null)
    const again = credential.claim.keys === keys && !consumed && credential.claim.until <= s.now
    if (!again || expired) return "bridge_enrollment_credential_used"
  }
  if (expired) return "bridge_enrollment_credential_expired"
  if (s.identity?.status === "revoked") return "bridge_revoked"
  const until = s.now + lifetimes.challenge
  if (!credential.reenroll) {
    const identity = s.identity ?? { status: "pending", keys, reservedUntil: until, enrolledBy: null }
    if (identity.status === "active") return identity.keys === keys ? "bridge_not_pending" : "bridge_identity_conflict"
    if (identity.keys !== keys && identity.reservedUntil > s.now) return "bridge_identity_conflict"
    s.identity = { ...identity, keys, reservedUntil: Math.max(identity.reservedUntil, until) }
  }
  s.challenges[`${name}/${key}`] = { credential: name, keys, until, consumed: null }
  credential.claim = { keys, until }
  return "201"
}

const prove = (s: State, { challenge: name, key }: Op & { op: "prove" }) => {
  const challenge = s.challenges[name]!
  const identity = s.identity!
  const credential = s.credentials[challenge.credential]!
  if (identity.status === "revoked" || s.disabled) return "bridge_revoked"
  if (challenge.consumed !== null) {
    const fresh = s.now < challenge.consumed.at + lifetimes.proofReplay && s.tokens[name]!.state === "active"
    return challenge.consumed.key === key && fresh ? "200 replayed" : "enrollment_challenge_consumed"
  }
  if (credential.revoked || challenge.until <= s.now) return "enrollment_challenge_expired"
  if (identity.status === "active" && !(credential.reenroll && identity.enrolledBy !== challenge.credential)) {
    return "bridge_not_pending"
  }
  if (Object.values(s.challenges).some(({ consumed }) => consumed?.key === key)) return "idempotency_conflict"
  endTokens(s)
  challenge.consumed = { key, at: s.now }
  s.identity = { ...identity, status: "active", keys: challenge.keys, enrolledBy: challenge.credential }
  s.tokens[name] = { state: "active", until: s.now + lifetimes.token }
  return "200"
}

// --- Tokens and rotation (spec 3.2, 3.3; 4.3 to 4.7) ---

const pendingRotation = (s: State) => Object.entries(s.rotations).find(([, { state }]) => state === "pending")

const guard = (s: State, name: string) => {
  const { state } = s.tokens[name]!
  if (s.identity!.status === "revoked" || s.disabled) return "bridge_revoked"
  return state === "active" ? undefined : `bridge_token_${state}`
}

const prepare = (s: State, { key, token }: Op & { op: "prepare" }) => {
  const refusal = guard(s, token)
  if (refusal !== undefined) return refusal
  const same = s.rotations[key]
  if (same !== undefined) {
    if (same.predecessor !== token) return "idempotency_conflict"
    return same.state === "pending" ? "201 replayed" : `bridge_rotation_${same.state}`
  }
  if (pendingRotation(s) !== undefined) return "bridge_rotation_in_progress"
  s.rotations[key] = { predecessor: token, until: s.now + lifetimes.rotation, state: "pending", endKey: null }
  s.tokens[key] = { state: "pending", until: null }
  return "201"
}

const end = (s: State, { key, op, rotation: name, token: bearer }: Op & { op: "confirm" | "abort" }) => {
  if (s.identity!.status === "revoked" || s.disabled) return "bridge_revoked"
  const token = s.tokens[bearer]!
  const over = token.state === "revoked" || token.state === "expired" ? `bridge_token_${token.state}` : undefined
  const rotation = s.rotations[name]
  if (rotation === undefined) return over ?? "bridge_rotation_not_found"
  if (bearer !== name) return over ?? "bridge_rotation_invalid_state"

  const done = op === "confirm" ? "confirmed" : "aborted"
  if (rotation.state === "confirmed" && over !== undefined) return over
  if (rotation.state === done && rotation.endKey === key) return "200 replayed"
  if (rotation.state === "confirmed" || rotation.state === "aborted") return `bridge_rotation_${rotation.state}`

  const predecessor = s.tokens[rotation.predecessor]!
  const predecessorFirst = predecessor.state === "expired" && predecessor.until! <= rotation.until
  if (op === "confirm" && predecessorFirst) return "bridge_rotation_predecessor_expired"
  if (rotation.state === "cancelled") return "bridge_rotation_predecessor_revoked"
  if (rotation.state === "expired") return "bridge_rotation_expired"

  const used = Object.values(s.rotations).some((other) => other.state === done && other.endKey === key)
  if (used) return "idempotency_conflict"
  rotation.state = done
  rotation.endKey = key
  if (op === "confirm") {
    predecessor.state = "revoked"
    s.tokens[name] = { state: "active", until: s.now + lifetimes.token }
  } else token.state = "revoked"
  return "200"
}

const revoke = (s: State, name: string) => {
  const refusal = guard(s, name)
  if (refusal !== undefined) return refusal
  endTokens(s)
  return "200"
}

const emergency = (s: State) => {
  if (s.identity === null) return "bridge_not_found"
  endTokens(s)
  s.identity.status = "revoked"
  return "done"
}

/** Ends every live token; a predecessor takes its successor with it. */
const endTokens = (s: State) => {
  for (const token of Object.values(s.tokens)) {
    if (token.state === "active" || token.state === "pending") token.state = "revoked"
  }
  const pending = pendingRotation(s)
  if (pending !== undefined) pending[1].state = "cancelled"
}

const wait = (s: State, seconds: number) => {
  s.now += seconds
  for (const token of Object.values(s.tokens)) {
    if (token.state === "active" && token.until! <= s.now) token.state = "expired"
  }
  for (const [name, rotation] of Object.entries(s.rotations)) {
    if (rotation.state !== "pending" || rotation.until > s.now) continue
    rotation.state = "expired"
    s.tokens[name]!.state = "revoked"
  }
  return "done"
}
