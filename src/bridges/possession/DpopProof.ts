/**
 * DPoP proofs (RFC 9449 4): a JWT by which the holder of an Ed25519 key signs the method, address and token of one request.
 *
 * Parsing is strict, so that no two readers understand one proof differently: compact form without padding, no member
 * twice, no header parameter that has to be understood, at most 2048 characters.
 */
import { Data, Effect } from "effect"
import type { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { isLoopback } from "../../platform/settings/Settings.ts"

/** `why` is for people. It repeats nothing that the proof says. */
export class Unproven extends Data.TaggedError("Unproven")<{ readonly why: string }> {}

/** What a proof has to be about. */
export interface Proved {
  readonly method: string
  /** The path of the request, without query. */
  readonly path: string
  readonly baseUrl: URL
  /** SHA-256 of the bearer token. */
  readonly tokenHash: Uint8Array
  readonly now: Date
}

/** How far `iat` may be from the service's clock, in milliseconds. */
export const tolerance = 120_000

/** The key and the id of a proof that is valid for the request, but may have been used before. */
export const verifyWith =
  ({ verify }: Ed25519["Service"]) =>
  (proof: string, { baseUrl, method, now, path, tokenHash }: Proved) =>
    Effect.gen(function* () {
      const [signed, header = "", payload = "", signature = ""] = compact.exec(proof) ?? []
      const { alg, crit, jwk, typ } = objectIn(header)
      const { ath, htm, htu, iat, jti } = objectIn(payload)
      const signatureBytes = bytesIn(signature)
      if (signed === undefined || proof.length > longest || signatureBytes === undefined) return yield* malformed
      if (typ !== "dpop+jwt") return yield* unproven("its typ is not dpop+jwt")
      if (alg !== "EdDSA" && alg !== "Ed25519") return yield* unproven("its alg is not EdDSA")
      const publicKey = publicKeyIn(jwk)
      if (crit !== undefined || publicKey === undefined) return yield* unproven("its jwk is not a public Ed25519 key")
      if (typeof jti !== "string" || jti === "" || jti.length > 256) return yield* unproven("it has no jti")
      if (htm !== method) return yield* unproven(`its htm is not ${method}`)
      if (!isAddress(htu, path, baseUrl)) return yield* unproven(`its htu is not ${baseUrl.origin}${path}`)
      if (typeof iat !== "number" || !(Math.abs(iat * 1000 - now.getTime()) <= tolerance))
        return yield* unproven("its iat is more than two minutes away from the time in Date")
      if (ath !== Buffer.from(tokenHash).toString("base64url"))
        return yield* unproven("its ath is not the SHA-256 of the token")
      const message = Buffer.from(proof.slice(0, proof.lastIndexOf(".")))
      const verified = yield* verify({ publicKey, message, signature: signatureBytes })
      return verified ? { publicKey, jti } : yield* unproven("its signature does not verify")
    })

const unproven = (why: string) => new Unproven({ why })
const malformed = unproven("it is not one compact JWT")

const longest = 2048
const compact = /^([A-Za-z0-9_-]{1,2048})\.([A-Za-z0-9_-]{1,2048})\.([A-Za-z0-9_-]{86})$/

/** Undefined for text that is not the one encoding of its bytes. */
const bytesIn = (text: string) => {
  const bytes = Buffer.from(text, "base64url")
  return bytes.toString("base64url") === text ? bytes : undefined
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** The object in a part of the JWT; empty if it is not one, so that its members are missing. */
const objectIn = (part: string): Readonly<Record<string, unknown>> => {
  try {
    const text = utf8.decode(bytesIn(part))
    const value = JSON.parse(text)
    return isObject(value) && membersOf(value) === colonsIn(text) ? value : {}
  } catch {
    return {}
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The members that are left after parsing, which keeps the last of those with one name. */
const membersOf = (value: unknown): number => {
  if (typeof value !== "object" || value === null) return 0
  const inside = Object.values(value).reduce<number>((sum, one) => sum + membersOf(one), 0)
  return Array.isArray(value) ? inside : inside + Object.keys(value).length
}

/** The members that a text of JSON writes: outside of strings, each has one colon. */
const colonsIn = (json: string) => json.replaceAll(/"(?:[^"\\]|\\.){0,2048}"/g, "").split(":").length - 1

/** RFC 8037 2. A private key in a proof is no proof of anything: it was sent to somebody. */
const publicKeyIn = (jwk: unknown) => {
  if (!isObject(jwk) || jwk["kty"] !== "OKP" || jwk["crv"] !== "Ed25519" || "d" in jwk) return undefined
  const bytes = typeof jwk["x"] === "string" ? bytesIn(jwk["x"]) : undefined
  return bytes?.length === 32 ? bytes : undefined
}

/** The path exactly, at the origin of the base URL. A service for this machine goes by any loopback name and port. */
const isAddress = (htu: unknown, path: string, baseUrl: URL) => {
  if (typeof htu !== "string" || !htu.endsWith(path)) return false
  const prefix = htu.slice(0, -path.length)
  if (!URL.canParse(prefix) || prefix.split("/").length !== 3) return false
  const url = new URL(prefix)
  if (url.href !== `${url.origin}/`) return false
  return url.origin === baseUrl.origin || (isLoopback(url) && isLoopback(baseUrl))
}
