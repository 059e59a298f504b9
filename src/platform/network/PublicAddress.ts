/**
 * Limits fetches that a stranger can cause to addresses of the public internet (RFC 6890).
 *
 * For IPv6 this is an allow list, 2000::/3 without the special blocks inside it, so that mapped, translated and tunnelled
 * IPv4 addresses (::ffff:0:0/96, 64:ff9b::/96, 2002::/16, 2001::/32) cannot lead into a private network.
 */
import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

const special4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4"
].map(IpNetwork.fromStringUnsafe)
const global6 = IpNetwork.fromStringUnsafe("2000::/3")
const special6 = ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"].map(
  IpNetwork.fromStringUnsafe
)

/** False for anything that is not an address, and for an IPv6 address with a zone. */
export const isPublic = (text: string): boolean => {
  const parsed = NetAddress.ipFromString(text)
  if (Result.isFailure(parsed)) return false
  const address = parsed.success
  const within = (network: IpNetwork.IpNetwork) => IpNetwork.contains(network, address)
  return NetAddress.isIpv4Address(address) ? !special4.some(within) : within(global6) && !special6.some(within)
}
