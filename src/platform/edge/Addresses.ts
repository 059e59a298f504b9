/**
 * The client's address. X-Forwarded-For counts only as far as it was written by proxies named in
 * SERVICE_TRUSTED_PROXIES; anybody else could write anything there.
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
          // From the nearest hop outwards: the first address that no trusted proxy vouches past. What is no address ends
          // the way, so that nothing else gets into rate limits and audit rows.
          const hops = [peer, ...forwarded.toReversed()]
          const end = hops.findIndex((address, hop) => !trusts(trusted, address) || isIP(hops[hop + 1] ?? "") === 0)
          return hops[end]!
        }
      }
    })
  )
}

const plain = (address: string) => (address.startsWith("::ffff:") ? address.slice(7) : address)

export const trusts = (trusted: BlockList, address: string) => {
  const version = isIP(address)
  return version !== 0 && trusted.check(address, version === 4 ? "ipv4" : "ipv6")
}

export const networks = Effect.fnUntraced(function* (cidrs: ReadonlyArray<string>) {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [address = "", bits] = cidr.split("/")
    const version = isIP(address)
    const prefix = bits === undefined ? (version === 4 ? 32 : 128) : Number(bits)
    if (version === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > (version === 4 ? 32 : 128)) {
      return yield* new ConfigurationError({
        message: `SERVICE_TRUSTED_PROXIES: ${cidr} is not a network such as 10.0.0.0/8.`
      })
    }
    list.addSubnet(address, prefix, version === 4 ? "ipv4" : "ipv6")
  }
  return list
})
