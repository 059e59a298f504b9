/** What check-bridge asks of a DPoP proof (docs/protocol.md, Proof of possession). */
import { createPublicKey, hash, verify } from "node:crypto"

/** Seconds that `iat` may be away from the service's clock. */
const tolerance = 120

/** The id of the proof if it is valid for the request; undefined if it is not. */
export const validProof = (
  proof: string,
  request: { readonly method: string; readonly path: string; readonly token: string },
  publicKey: Uint8Array,
  now: number
): string | undefined => {
  const [header = "", payload = "", signature = "", ...more] = proof.split(".")
  const { alg, jwk, typ } = objectIn(header)
  const { ath, htm, htu, iat, jti } = objectIn(payload)
  const x = Buffer.from(publicKey).toString("base64url")
  const isSigned =
    more.length === 0 &&
    typ === "dpop+jwt" &&
    (alg === "EdDSA" || alg === "Ed25519") &&
    jwk?.kty === "OKP" &&
    jwk.crv === "Ed25519" &&
    jwk.x === x &&
    verify(
      null,
      Buffer.from(`${header}.${payload}`),
      createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" }),
      Buffer.from(signature, "base64url")
    )
  const isAbout =
    htm === request.method &&
    isAddress(htu, request.path) &&
    typeof iat === "number" &&
    Math.abs(iat - now / 1000) <= tolerance &&
    ath === hash("sha256", request.token, "base64url")
  return isSigned && isAbout && typeof jti === "string" && jti !== "" ? jti : undefined
}

const objectIn = (part: string): Record<string, any> => {
  try {
    return Object(JSON.parse(Buffer.from(part, "base64url").toString()))
  } catch {
    return {}
  }
}

/** The service that is played is on this machine, where any loopback name will do. */
const isAddress = (htu: unknown, path: string) => {
  if (typeof htu !== "string" || !URL.canParse(htu)) return false
  const { hostname, href, origin } = new URL(htu)
  return href === `${origin}${path}` && ["127.0.0.1", "localhost", "[::1]"].includes(hostname)
}
