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
  {
    readonly of: (request: HttpServerRequest.HttpServerRequest) => string
    /**
     * The network of the peer of a connection; undefined if its connections may carry many callers: a trusted proxy, and
     * whoever is on this machine.
     */
    readonly networkOfPeer: (address: string) => string | undefined
  }
>()("service/edge/Addresses") {
  static readonly layer = Layer.effect(
    Addresses,
    Effect.gen(function* () {
      const { http } = yield* Settings
      const trusted = yield* networks(http.trustedProxies)
      return {
        of: (request) => {
          let address = plain(Option.getOrElse(request.remoteAddress, () => ""))
          if (!trusts(trusted, address)) return address
          const forwarded = request.headers["x-forwarded-for"]?.split(",") ?? []
          // From the nearest hop outwards: the first address that is not a trusted proxy. A hop that is not an address
          // ends the search, so that only addresses get into rate limits and audit rows.
          while (forwarded.length > 0 && trusts(trusted, address)) {
            const hop = plain(forwarded.pop()!.trim())
            if (isIP(hop) === 0) break
            address = hop
          }
          return address
        },
        networkOfPeer: (peer) => {
          const address = plain(peer)
          return trusts(trusted, address) || trusts(loopback, address) ? undefined : networkOf(address)
        }
      }
    })
  )
}

const loopback = new BlockList()
loopback.addSubnet("127.0.0.0", 8)
loopback.addAddress("::1", "ipv6")

/** Node reports IPv4 peers of a dual-stack socket as IPv4-mapped IPv6 addresses. */
const plain = (address: string) => (address.startsWith("::ffff:") ? address.slice(7) : address)

/**
 * What limits count as one client: an IPv4 address, or the /64 of an IPv6 address, because one customer usually gets at
 * least that many addresses (RFC 6177 2). An IPv4-mapped address counts as its IPv4 address.
 */
export const networkOf = (address: string): string => {
  if (isIP(address) !== 6) return address
  const groups = groupsOf(address)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (isMapped) return [groups[6]! >> 8, groups[6]! & 255, groups[7]! >> 8, groups[7]! & 255].join(".")
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(":")}::/64`
}

/**
 * The /48 of an IPv6 network, else undefined. A site gets up to that much (RFC 6177 2), 65,536 networks, so limits per network
 * alone would not limit it.
 */
export const siteOf = (network: string): string | undefined =>
  network.endsWith("::/64") ? `${network.split(":", 3).join(":")}::/48` : undefined

/** The eight numbers of an IPv6 address, without its zone. */
const groupsOf = (address: string) => {
  const [head = "", tail] = address.split("%")[0]!.split("::")
  const before = numbersOf(head)
  const after = numbersOf(tail ?? "")
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}

const numbersOf = (text: string) =>
  text === ""
    ? []
    : text.split(":").flatMap((group) => {
        const bytes = group.split(".").map(Number)
        return bytes.length === 4
          ? [(bytes[0]! << 8) | bytes[1]!, (bytes[2]! << 8) | bytes[3]!]
          : [Number.parseInt(group, 16)]
      })

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
