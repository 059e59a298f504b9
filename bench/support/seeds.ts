/** Credentials derived from a number: the harness stores their hashes, the load generator sends them. */
import { format } from "../../src/platform/crypto/Tokens.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"

export const credentialOf = (n: number) => format("sbe", sha256(`bench credential ${n}`))

/** The redirect URI and PKCE verifier of every authorization code of a run. */
export const redirect_uri = "http://127.0.0.1/callback"
export const verifier = "v".repeat(43)
