/** Diagrams of enrollment (spec 4.1, 4.2), rotation and its failures (spec 3.2, 4.3, 4.4, 4.5), and sign-in (spec 4.10). */
import { diagram } from "./Diagrams.ts"

const [operator, bridge, service] = [0, 1, 2]

export const enrollment = diagram({
  id: "flow-enrollment",
  title: "How a Bridge enrolls",
  actors: ["Operator", "Bridge", "Service"],
  steps: [
    { from: operator, to: service, says: "create-bridge-enrollment-credential" },
    { from: service, to: operator, says: "credential file, mode 0600", kind: "answer" },
    { from: operator, to: bridge, says: "hands over the file" },
    { from: bridge, to: bridge, says: "generates an Ed25519 key pair" },
    { from: bridge, to: service, says: "challenge: key fingerprint" },
    { from: service, to: bridge, says: "201 nonce", kind: "answer" },
    { from: bridge, to: bridge, says: "signs the nonce" },
    { from: bridge, to: service, says: "proof: signature, key" },
    { from: service, to: service, says: "verifies, activates" },
    { from: service, to: bridge, says: "200 token, shown once", kind: "answer" },
    { part: "The signature is wrong", so: "nothing changes; the challenge can still be used" },
    { from: service, to: bridge, says: "401 enrollment_proof_invalid", kind: "refusal" }
  ]
})

const [rotating, rotator] = [0, 1]

export const rotation = diagram({
  id: "flow-rotation",
  title: "How a token is rotated, and what can fail",
  actors: ["Bridge", "Service"],
  steps: [
    { from: rotating, to: rotator, says: "prepare, with the token" },
    { from: rotator, to: rotating, says: "201 successor, pending", kind: "answer" },
    { from: rotating, to: rotating, says: "stores both tokens and a journal" },
    { from: rotating, to: rotator, says: "confirm, with the successor" },
    { from: rotator, to: rotator, says: "successor active, predecessor revoked" },
    { from: rotator, to: rotating, says: "200 confirmed", kind: "answer" },
    { part: "A response is lost", so: "repeat the request with the same Idempotency-Key" },
    { from: rotating, to: rotator, says: "confirm, repeated" },
    { from: rotator, to: rotating, says: "200 the original response", kind: "answer" },
    { part: "The Bridge aborts", so: "the predecessor stays active" },
    { from: rotating, to: rotator, says: "abort, with the successor" },
    { from: rotator, to: rotating, says: "200 aborted", kind: "answer" },
    { part: "Another successor is pending", so: "confirm it, abort it, or wait until it expires" },
    { from: rotating, to: rotator, says: "prepare, with another key" },
    { from: rotator, to: rotating, says: "409 bridge_rotation_in_progress", kind: "refusal" },
    { part: "The confirmation window has passed", so: "the predecessor stays active; prepare again" },
    { from: rotator, to: rotating, says: "410 bridge_rotation_expired", kind: "refusal" },
    { part: "The predecessor was revoked or expired", so: "enroll again" },
    { from: rotator, to: rotating, says: "409 bridge_rotation_predecessor_revoked", kind: "refusal" },
    { from: rotator, to: rotating, says: "409 bridge_rotation_predecessor_expired", kind: "refusal" }
  ]
})

const [person, agent] = [0, 1]

export const signIn = diagram({
  id: "flow-sign-in",
  title: "How an agent signs in",
  actors: ["Person", "Agent", "Service"],
  steps: [
    { from: agent, to: service, says: "POST /mcp" },
    { from: service, to: agent, says: "401, metadata address", kind: "refusal" },
    { from: agent, to: service, says: "reads the metadata" },
    { from: agent, to: person, says: "opens the browser" },
    { from: person, to: service, says: "/authorize: S256 challenge, state, resource" },
    { from: service, to: person, says: "consent page", kind: "answer" },
    { from: person, to: service, says: "enters a project token, allows" },
    { from: service, to: agent, says: "code, state, iss", kind: "answer" },
    { from: agent, to: agent, says: "compares the state" },
    { from: agent, to: service, says: "/token: code, verifier" },
    { from: service, to: agent, says: "200 tokens for /mcp", kind: "answer" },
    { part: "The person denies", so: "the agent only learns that access was denied" },
    { from: service, to: agent, says: "error=access_denied", kind: "refusal" }
  ]
})
