/** Secrets by number, which the harness inserts into the database and the load generator presents. */
import { format } from "../../src/platform/crypto/Tokens.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"

export const credentialOf = (n: number) => format("sbe", sha256(`bench credential ${n}`))

/** The parameters with which every authorization code of a run was requested. */
export const redirect_uri = "http://127.0.0.1/callback"
export const verifier = "v".repeat(43)
