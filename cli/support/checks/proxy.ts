/** Checks that the reverse proxy, and nobody else, is trusted to report the addresses of callers. */
import { Effect } from "effect"
import { networks, trusts } from "../../../src/platform/edge/Addresses.ts"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { check } from "./Check.ts"

/** The service itself speaks no TLS, so an https base URL means that a proxy is in front of it. */
export const proxy = Effect.fnUntraced(
  function* ({ baseUrl, http }: Pick<Settings["Service"], "baseUrl" | "http">) {
    const trusted = yield* networks(http.trustedProxies)
    if (baseUrl.protocol !== "https:") return []
    if (http.trustedProxies.length === 0) {
      const message =
        "SERVICE_TRUSTED_PROXIES is empty: all callers appear with the proxy's address and share its rate limits."
      return [check("proxy", "warn", `${message} Set it to the proxy's address, such as 127.0.0.1.`)]
    }
    if (http.trustedProxies.some((network) => network.endsWith("/0"))) {
      const message = "SERVICE_TRUSTED_PROXIES trusts every address: any caller can forge X-Forwarded-For."
      return [check("proxy", "fail", `${message} Set it to the proxy's address only.`)]
    }
    const loopback = { "127.0.0.1": "127.0.0.1", localhost: "127.0.0.1", "::1": "::1" }[http.host]
    if (loopback !== undefined && !trusts(trusted, loopback)) {
      const message = `SERVICE_HOST accepts only connections from this machine, so the proxy connects from ${loopback}`
      return [check("proxy", "fail", `${message}: add that address to SERVICE_TRUSTED_PROXIES.`)]
    }
    return [check("proxy", "ok", "X-Forwarded-For is accepted from SERVICE_TRUSTED_PROXIES only.")]
  },
  Effect.catch(({ message }) => Effect.succeed([check("proxy", "fail", message)]))
)
