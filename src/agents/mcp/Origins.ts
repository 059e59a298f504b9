/**
 * Decides which web pages may call /mcp: the Origin check that Streamable HTTP requires, and CORS headers (Fetch 3.2).
 *
 * A request without Origin does not come from a page. A foreign Origin is refused before the credential is checked.
 */
import { isLoopback } from "../../platform/settings/Settings.ts"

export const allows = (baseUrl: URL, listed: ReadonlyArray<string> | undefined) => (origin: string) =>
  origin === baseUrl.origin ||
  (listed === undefined
    ? isLoopback(baseUrl) && isSerialized(origin) && isLoopback(new URL(origin))
    : listed.includes(origin))

/** Exactly as browsers send an origin (RFC 6454 6.2): no user, path or query, the host in lower case, not `null`. */
const isSerialized = (origin: string) => URL.canParse(origin) && new URL(origin).origin === origin

export const corsHeaders = (origin: string | undefined): Record<string, string> =>
  origin === undefined
    ? { vary: "origin" }
    : {
        vary: "origin",
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "WWW-Authenticate, MCP-Protocol-Version, Retry-After, X-Request-Id"
      }

export const preflightHeaders = {
  "access-control-allow-methods": "POST",
  "access-control-allow-headers":
    "Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID",
  "access-control-max-age": "7200"
}
