/**
 * DPoP proofs (RFC 9449 4): a JWT by which the holder of a key signs the method, address and token of one request.
 *
 * A proof that is valid works once: `used` is what ProofStore.ts remembers, so that it is refused the next time.
 */
import { Data, Duration, Effect } from "effect"
import type { Ed25519 } from "../crypto/Ed25519.ts"
import { sha256 } from "../crypto/Sha256.ts"
import { isLoopback } from "../settings/Settings.ts"
import { after } from "../../wire/Instant.ts"
import { parse } from "./Jwt.ts"
import { algorithmOf, isSignedBy, type PublicKey, publicKeyIn } from "./PublicKey.ts"

/** `why` is for people. It repeats nothing that the proof says. */
export class Unproven extends Data.TaggedError("Unproven")<{ readonly why: string }> {}

/** What a request presents besides its token. */
export interface Presented {
  readonly method: string
  /** Without query. */
  readonly path: string
  readonly scheme: "Bearer" | "DPoP"
  /** The DPoP header. */
  readonly proof: string | undefined
}

/** What a proof has to be about. */
interface Proved extends Pick<Presented, "method" | "path"> {
  /** The address of the service; only its origin counts. */
  readonly baseUrl: URL
  /** SHA-256 of the token; undefined for a request that gets one. */
  readonly tokenHash: Uint8Array | undefined
  readonly now: Date
}

/** What the service remembers of a proof: nothing that tells who made it. */
export interface UsedProof {
  readonly proof_hash: Uint8Array
  readonly forget_at: Date
}

/** How far `iat` may be from the service's clock, in milliseconds. */
export const tolerance = 120_000

/** Longer than any proof is accepted: one that is two minutes early is accepted for four. */
const remembered = Duration.minutes(5)

/** The memory of a proof by the key with this name. */
export const usedProof = (key: string, jti: string, now: Date): UsedProof => ({
  proof_hash: sha256(`${key} ${jti}`),
  forget_at: after(now, remembered)
})

/** Whether the text can tell one proof of a key from another. */
export const isProofId = (jti: unknown): jti is string => typeof jti === "string" && jti !== "" && jti.length <= 256

/** The algorithms that a proof may have, and how messages call them. */
export interface Accepted {
  readonly algorithms: ReadonlyArray<PublicKey["algorithm"]>
  readonly named: string
  readonly keys: string
}

/** What a proof says that is about the request. Only `requireSigned` tells whether it comes from the holder of the key. */
export interface Claim {
  readonly key: PublicKey
  readonly jti: string
  /** Verified once, when somebody asks: it costs as much as the rest of a request. */
  readonly isSigned: Effect.Effect<boolean>
}

/** Checks everything but the signature, and whether the proof was used before. */
export const readWith =
  (ed25519: Ed25519["Service"], { algorithms, keys, named }: Accepted) =>
  (proof: string, { baseUrl, method, now, path, tokenHash }: Proved) =>
    Effect.gen(function* () {
      const jwt = parse(proof)
      if (jwt === undefined) return yield* unproven("it is not one compact JWT")
      const { alg, crit, jwk, typ } = jwt.header
      const { ath, htm, htu, iat, jti } = jwt.claims
      if (typ !== "dpop+jwt") return yield* unproven("its typ is not dpop+jwt")
      const algorithm = algorithmOf(alg)
      if (algorithm === undefined || !algorithms.includes(algorithm)) return yield* unproven(`its alg is not ${named}`)
      const key = publicKeyIn(jwk)
      if (crit !== undefined || key?.algorithm !== algorithm)
        return yield* unproven(`its jwk is not a public ${keys} key`)
      if (!isProofId(jti)) return yield* unproven("it has no jti")
      if (htm !== method) return yield* unproven(`its htm is not ${method}`)
      if (!isAddress(htu, path, baseUrl)) return yield* unproven(`its htu is not ${baseUrl.origin}${path}`)
      if (typeof iat !== "number" || !(Math.abs(iat * 1000 - now.getTime()) <= tolerance))
        return yield* unproven("its iat is more than two minutes away from the time in Date")
      if (tokenHash !== undefined && ath !== Buffer.from(tokenHash).toString("base64url"))
        return yield* unproven("its ath is not the SHA-256 of the token")
      return { key, jti, isSigned: yield* Effect.cached(isSignedBy(ed25519, key, jwt)) } satisfies Claim
    })

export const requireSigned = Effect.fnUntraced(function* ({ isSigned }: Pick<Claim, "isSigned">) {
  if (!(yield* isSigned)) return yield* unproven("its signature does not verify")
})

/** A proof that is valid for the request, but may have been used before. */
export const verifyWith = (ed25519: Ed25519["Service"], accepted: Accepted) => {
  const read = readWith(ed25519, accepted)
  return (proof: string, about: Proved) => Effect.tap(read(proof, about), requireSigned)
}

const unproven = (why: string) => new Unproven({ why })

/** The path exactly, at the origin of the base URL. A service for this machine goes by any loopback name and port. */
const isAddress = (htu: unknown, path: string, baseUrl: URL) => {
  if (typeof htu !== "string" || !htu.endsWith(path)) return false
  const prefix = htu.slice(0, -path.length)
  if (!URL.canParse(prefix) || prefix.split("/").length !== 3) return false
  const url = new URL(prefix)
  if (url.href !== `${url.origin}/`) return false
  return url.origin === baseUrl.origin || (isLoopback(url) && isLoopback(baseUrl))
}
