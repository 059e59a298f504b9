import type { HttpServerRequest } from "effect/http"
import type { Presented } from "./Possession.ts"

export const presentedBy = ({ headers, method, url }: HttpServerRequest.HttpServerRequest): Presented => ({
  method,
  path: url.split("?", 1)[0]!,
  scheme: /^dpop /i.test(headers["authorization"] ?? "") ? "DPoP" : "Bearer",
  proof: headers["dpop"]
})
