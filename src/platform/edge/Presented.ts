/** What a request presents besides its token, for the proof that its caller holds the key of the token (RFC 9449 7.1). */
import type { HttpServerRequest } from "effect/http"
import type { Presented } from "../proofs/DpopProof.ts"

export const presentedBy = ({ headers, method, url }: HttpServerRequest.HttpServerRequest): Presented => ({
  method,
  path: url.split("?", 1)[0]!,
  scheme: /^dpop /i.test(headers["authorization"] ?? "") ? "DPoP" : "Bearer",
  proof: headers["dpop"]
})
