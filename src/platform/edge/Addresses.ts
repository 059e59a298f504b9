/**
 * The client's address. An entry of X-Forwarded-For counts only if a proxy in SERVICE_TRUSTED_PROXIES wrote it; any other
 * sender could forge it.
 */
import { Context, Effect, Layer, Option } from "effect"
import type { HttpServerRequest } from "effect/http"
import { BlockList, isIP } from "node:net"
import { ConfigurationError, Settings } from "../settings/Settings.ts"

export class Addresses extends Context.Service<
  Addresses,
  { readonly of: (request: HttpServerRequest.HttpServerRequest) => string }
>()("service/edge/Addresses") {
  static readonly layer = Layer.effect(
    Addresses,
    Effect.gen(function* () {
      const { http } = yield* Settings
      const trusted = yield* networks(http.trustedProxies)
      return {
        of: (request) => {
          const peer = plain(Option.getOrElse(request.remoteAddress, () => ""))
          const forwarded = request.headers["x-forwarded-for"]?.split(",").map((address) => plain(address.trim())) ?? []
          // From the nearest hop outwards: the first address that is not a trusted proxy. A hop that is not an address
          // ends the search, so that only addresses get into rate limits and audit rows.
          const hops = [peer, ...forwarded.toReversed()]
          const end = hops.findIndex((address, hop) => !trusts(trusted, address) || isIP(hops[hop + 1] ?? "") === 0)
          return hops[end]!
        }
      }
    })
  )
}

/** Node reports IPv4 peers of a dual-stack socket as IPv4-mapped IPv6 addresses. */
const plain = (address: string) => (address.startsWith("::ffff:") ? address.slice(7) : address)

export const trusts = (trusted: BlockList, address: string) => {
  const version = isIP(address)
  return version !== 0 && trusted.check(address, version === 4 ? "ipv4" : "ipv6")
}

export const networks = Effect.fnUntraced(function* (cidrs: ReadonlyArray<string>) {
  const list = new BlockList()
  for (const cidr of cidrs) {
    // Without the pattern, "10.0.0.0/" would be a prefix of 0 and trust everybody.
    const [, address = "", bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(cidr) ?? []
    const version = isIP(address)
    const longest = version === 4 ? 32 : 128
    const prefix = Number(bits ?? longest)
    if (version === 0 || prefix > longest) {
      return yield* new ConfigurationError({
        message: `SERVICE_TRUSTED_PROXIES: ${cidr} is not a network such as 10.0.0.0/8.`
      })
    }
    list.addSubnet(address, prefix, version === 4 ? "ipv4" : "ipv6")
  }
  return list
})
