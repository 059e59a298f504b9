/**
 * The assertion by which a Bridge authenticates as an OAuth client (RFC 7523 3): a JWT that it signs with its enrolled key.
 *
 * The service keeps the fingerprint of that key and not the key itself, so the assertion brings it: as `jwk` in its header
 * (RFC 7515 4.1.3), or in the claim `cnf` (RFC 7800 3.2) for libraries that choose the header themselves.
 */
import { Duration, Effect, Option, Schema } from "effect"
import type { Ed25519 } from "../../../platform/crypto/Ed25519.ts"
import { fingerprint } from "../../../platform/crypto/Fingerprint.ts"
import { isProofId, tolerance, type UsedProof } from "../../../platform/proofs/DpopProof.ts"
import { sha256 } from "../../../platform/crypto/Sha256.ts"
import { isObject, parse } from "../../../platform/proofs/Jwt.ts"
import { algorithmOf, isSignedBy, publicKeyIn } from "../../../platform/proofs/PublicKey.ts"
import { BridgeId, Uuid } from "../../../wire/Ids.ts"
import { after } from "../../../wire/Instant.ts"
import { refuse } from "../Errors.ts"

/** The values of `alg` at the token endpoint. */
export const assertionAlgorithms = ["EdDSA", "Ed25519"] as const

export const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

/** Milliseconds. */
const longest = 300_000

/** A Bridge that holds a key. Whether it is the enrolled one, only the database knows. */
export interface Asserted {
  readonly client_id: string
  readonly project_id: string
  readonly bridge_id: string
  readonly fingerprint: string
  readonly used: UsedProof
}

/** `audiences`: the issuer and the token endpoint. */
export const assertedWith =
  (ed25519: Ed25519["Service"], audiences: ReadonlyArray<string>) => (assertion: string, now: Date) =>
    Effect.gen(function* () {
      const jwt = parse(assertion)
      if (jwt === undefined) return yield* invalid("it is not one compact JWT of at most 2048 characters")
      const { alg, crit, jwk, typ } = jwt.header
      const { aud, cnf, exp, iat, iss, jti, nbf, sub } = jwt.claims
      if (crit !== undefined || !types.includes(typ)) return yield* invalid("its typ is not JWT")
      const key = publicKeyIn(jwk ?? (isObject(cnf) ? cnf["jwk"] : undefined))
      if (algorithmOf(alg) !== "EdDSA" || key?.algorithm !== "EdDSA")
        return yield* invalid("it is not signed with EdDSA by a key that it brings as jwk or cnf.jwk")
      const client = clientOf(sub)
      if (iss !== sub || Option.isNone(client))
        return yield* invalid("its iss and sub are not bridge:PROJECT_ID:BRIDGE_ID")
      if (![aud].flat().every((one) => audiences.includes(one as string)) || (Array.isArray(aud) && aud.length === 0))
        return yield* invalid(`its aud is not ${audiences[0]}`)
      const ahead = typeof exp === "number" ? exp * 1000 - now.getTime() : NaN
      if (!(ahead > 0 && ahead <= longest))
        return yield* invalid("its exp is past, or more than 300 seconds after the time in Date")
      for (const begin of [iat, nbf])
        if (begin !== undefined && !(typeof begin === "number" && begin * 1000 - now.getTime() <= tolerance))
          return yield* invalid("its iat or nbf is after the time in Date")
      if (!isProofId(jti)) return yield* invalid("it has no jti")
      if (!(yield* isSignedBy(ed25519, key, jwt))) return yield* invalid("its signature does not verify")
      return {
        ...client.value,
        client_id: String(sub),
        fingerprint: fingerprint(key.bytes),
        used: {
          proof_hash: sha256(JSON.stringify(["assertion", sub, jti])),
          // A replica with another clock may accept it for a moment longer.
          forget_at: after(now, Duration.millis(ahead + 60_000))
        }
      } satisfies Asserted
    })

export const invalid = (why: string) => refuse("invalid_client", `The assertion is refused: ${why}.`)

const types: ReadonlyArray<unknown> = [undefined, "JWT", "client-authentication+jwt"]

const Client = Schema.Struct({ project_id: Uuid, bridge_id: BridgeId })
const decode = Schema.decodeUnknownOption(Client)

const clientOf = (sub: unknown) => {
  const [, project_id, bridge_id] = (typeof sub === "string" && /^bridge:([0-9a-f-]{36}):([^]+)$/.exec(sub)) || []
  return decode({ project_id, bridge_id })
}
