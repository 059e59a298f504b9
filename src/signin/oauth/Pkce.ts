/** Proof Key for Code Exchange, S256 only (RFC 7636 4): only the client that made the challenge can use the code. */
import { sha256 } from "../../platform/crypto/Sha256.ts"

/** base64url of 32 bytes. */
export const isChallenge = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text)

export const isVerifier = (text: string): boolean => /^[A-Za-z0-9._~-]{43,128}$/.test(text)

export const challengeOf = (verifier: string): string => Buffer.from(sha256(verifier)).toString("base64url")
