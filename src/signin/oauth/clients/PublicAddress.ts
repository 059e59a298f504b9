/**
 * Which addresses a server may be asked to connect to by a stranger (RFC 6890): the public internet and nothing else.
 *
 * IPv6 is an allow list, 2000::/3 without the special blocks inside it, so that mapped, translated and tunnelled IPv4
 * (::ffff:0:0/96, 64:ff9b::/96, 2002::/16, 2001::/32) never leads back inside.
 */
import { BlockList, isIPv4, isIPv6 } from "node:net"

const networks = (family: "ipv4" | "ipv6", ...cidrs: ReadonlyArray<string>) => {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [address = "", bits] = cidr.split("/")
    list.addSubnet(address, Number(bits), family)
  }
  return list
}

const special4 = networks(
  "ipv4",
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
)
const global6 = networks("ipv6", "2000::/3")
const special6 = networks("ipv6", "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")

export const isPublic = (address: string): boolean => {
  if (isIPv4(address)) return !special4.check(address, "ipv4")
  return isIPv6(address) && !address.includes("%") && global6.check(address, "ipv6") && !special6.check(address, "ipv6")
}
