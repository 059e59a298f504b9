/**
 * Checks what a browser sends when a person makes or uses a passkey (WebAuthn Level 3, 7.1 and 7.2). The library decides;
 * this file decodes, gives the reason of a refusal, and refuses attestations: none is asked for, and their certificates
 * name addresses to fetch.
 *
 * The library is loaded when the first passkey is checked: a service without passkeys does not carry it.
 */
import { Data, Effect, Option, Schema } from "effect"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import type { RelyingParty } from "./RelyingParty.ts"

/** Why a credential is refused, as audit rows name it. */
export type Reason =
  | "invalid"
  /** Made for another site: somebody may have tried to lead the person there. */
  | "foreign_origin"
  | "foreign_relying_party"
  /** The authenticator did not ask for a fingerprint, face or PIN. */
  | "not_verified"

export class NotValid extends Data.TaggedError("NotValid")<{ readonly reason: Reason }> {}

const Base64url = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]+$/))
/** At most 1,023 bytes (WebAuthn 3, credential id). */
const CredentialId = Base64url.check(Schema.isMaxLength(1364))

const Assertion = Schema.Struct({
  id: CredentialId,
  type: Schema.Literal("public-key"),
  response: Schema.Struct({
    clientDataJSON: Base64url,
    authenticatorData: Base64url,
    signature: Base64url,
    userHandle: Base64url
  })
})
export type Assertion = typeof Assertion.Type

const Attestation = Schema.Struct({
  id: Base64url,
  type: Schema.Literal("public-key"),
  response: Schema.Struct({ clientDataJSON: Base64url, attestationObject: Base64url })
})
export type Attestation = typeof Attestation.Type

const ClientData = Schema.Struct({
  challenge: Base64url,
  origin: Schema.String,
  crossOrigin: Schema.optionalKey(Schema.Boolean)
})

export const decodeAssertion = Schema.decodeUnknownOption(Schema.fromJsonString(Assertion))
export const decodeAttestation = Schema.decodeUnknownOption(Schema.fromJsonString(Attestation))
const decodeClientData = Schema.decodeUnknownOption(Schema.fromJsonString(ClientData))

export const bytesOf = (base64url: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Buffer.from(base64url, "base64url"))
export const base64urlOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url")

interface Signed {
  readonly response: { readonly clientDataJSON: string }
}
const clientDataOf = ({ response }: Signed) =>
  decodeClientData(Buffer.from(response.clientDataJSON, "base64url").toString())

/** The challenge that the browser has answered, not checked yet. */
export const challengeOf = (credential: Signed): Option.Option<string> =>
  Option.map(clientDataOf(credential), ({ challenge }) => challenge)

/** COSE algorithms (RFC 9053): EdDSA, ES256, RS256. */
export const algorithms = [-8, -7, -257]

export interface NewCredential {
  readonly credential_id: Uint8Array
  readonly public_key: Uint8Array
  readonly sign_count: number
}

const library = Effect.promise(() => import("@simplewebauthn/server"))
const helpers = Effect.promise(() => import("@simplewebauthn/server/helpers"))

/** `challenge` is the one that `challengeOf` found, after it was found to be ours. */
export const checkAttestation = Effect.fnUntraced(function* (
  attestation: Attestation,
  challenge: string,
  party: RelyingParty
) {
  const { cose, decodeAttestationObject, decodeCredentialPublicKey } = yield* helpers
  const { verifyRegistrationResponse } = yield* library
  const authenticatorData = yield* explained(attestation, undefined, party, async () => {
    const decoded = decodeAttestationObject(bytesOf(attestation.response.attestationObject))
    const [format, statement] = [decoded.get("fmt"), decoded.get("attStmt")]
    if (format === "none" || (format === "packed" && statement.get("x5c") === undefined)) return decoded.get("authData")
  })
  return yield* explained(attestation, authenticatorData, party, async () => {
    const { registrationInfo, verified } = await verifyRegistrationResponse({
      response: { ...attestation, rawId: attestation.id, clientExtensionResults: {} },
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
      supportedAlgorithmIDs: algorithms
    })
    if (!verified) return undefined
    const { counter, id, publicKey } = registrationInfo.credential
    const made = { credential_id: bytesOf(id), public_key: publicKey, sign_count: counter } satisfies NewCredential
    const key = decodeCredentialPublicKey(publicKey)
    if (cose.isCOSEPublicKeyRSA(key) && !isQuick(key.get(cose.COSEKEYS.n), key.get(cose.COSEKEYS.e))) return undefined
    return id === attestation.id && isStorable(made) ? made : undefined
  })
})

/** An id has 16 to 1023 bytes (WebAuthn Level 3, 4). The schema bounds the key. */
const isStorable = ({ credential_id, public_key }: NewCredential) =>
  credential_id.length >= 16 && credential_id.length <= 1023 && public_key.length <= 1024

/** Whether a key of RSA has at most 4,096 bits, and its exponent 32: the time of a verification grows with both. */
const isQuick = (modulus: Uint8Array | undefined, exponent: Uint8Array | undefined) =>
  modulus !== undefined && modulus.length <= 512 && exponent !== undefined && exponent.length <= 4

/**
 * Returns the count of the authenticator's signatures. Whether it has fallen is for the caller to decide, after the
 * signature was checked: otherwise anybody could switch off the passkey of another.
 */
export const checkAssertion = Effect.fnUntraced(function* (
  assertion: Assertion,
  challenge: string,
  public_key: Uint8Array,
  party: RelyingParty
) {
  const { verifyAuthenticationResponse } = yield* library
  return yield* explained(assertion, bytesOf(assertion.response.authenticatorData), party, async () => {
    const { authenticationInfo, verified } = await verifyAuthenticationResponse({
      response: { ...assertion, rawId: assertion.id, clientExtensionResults: {} },
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
      credential: { id: assertion.id, publicKey: new Uint8Array(public_key), counter: 0 }
    })
    return verified ? authenticationInfo.newCounter : undefined
  })
})

/** The result of the check; if it throws or finds nothing, the reason. */
const explained = <A>(
  credential: Signed,
  authenticatorData: unknown,
  party: RelyingParty,
  check: () => Promise<A | undefined>
): Effect.Effect<A, NotValid> => {
  // Safari names no top origin, without which the library accepts a page inside a page of another site.
  if (Option.exists(clientDataOf(credential), ({ crossOrigin }) => crossOrigin === true)) {
    return new NotValid({ reason: "foreign_origin" })
  }
  const notValid = () => new NotValid({ reason: reasonOf(credential, authenticatorData, party) })
  return Effect.tryPromise({ try: check, catch: notValid }).pipe(
    Effect.flatMap((result) => (result === undefined ? notValid() : Effect.succeed(result)))
  )
}

const isUserVerified = 0x04

/** Authenticator data begins with the hash of the relying party's id, then flags (WebAuthn Level 3, 6.1). */
const reasonOf = (credential: Signed, data: unknown, { id, origin: ours }: RelyingParty): Reason => {
  if (Option.exists(clientDataOf(credential), ({ origin }) => origin !== ours)) return "foreign_origin"
  if (!(data instanceof Uint8Array) || data.length < 37) return "invalid"
  if (!equal(data.subarray(0, 32), sha256(id))) return "foreign_relying_party"
  return (data[32]! & isUserVerified) === 0 ? "not_verified" : "invalid"
}
