/**
 * A browser's subscription (RFC 8030, W3C Push API): the secret that is sealed as its push token, as JSON. Whoever has the
 * endpoint and a signing key can ring the browser.
 */
import { Redacted } from "effect"
import { isPoint } from "../platform/crypto/P256.ts"

export interface Subscription {
  /** Where messages are sent. */
  readonly endpoint: string
  /** base64url */
  readonly keys: { readonly p256dh: string; readonly auth: string }
  /** The service's public key that the browser subscribed with, base64url. */
  readonly public_key: string
}

export const asToken = ({ endpoint, keys, public_key }: Subscription): Redacted.Redacted<string> =>
  Redacted.make(JSON.stringify({ endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth }, public_key }))

export const ofToken = (token: Redacted.Redacted<string>): Subscription => JSON.parse(Redacted.value(token))

/** The push services of Chrome, Firefox, Safari and Edge. */
const known =
  /^(fcm\.googleapis\.com|updates\.push\.services\.mozilla\.com|web\.push\.apple\.com|[a-z0-9-]{1,63}\.notify\.windows\.com)$/

/** Whether messages may be sent there: to the known push services, and to the hosts that the operator named. */
export const isAllowedEndpoint = (endpoint: string, hosts: ReadonlySet<string>): boolean => {
  if (!URL.canParse(endpoint)) return false
  const { hash, hostname, password, protocol, username } = new URL(endpoint)
  const isPlain = protocol === "https:" && username === "" && password === "" && hash === ""
  return isPlain && (known.test(hostname) || hosts.has(hostname))
}

/** Whether the browser's keys can be used: a point of P-256, and 16 bytes. */
export const areKeys = ({ auth, p256dh }: Subscription["keys"]): boolean =>
  isPoint(Buffer.from(p256dh, "base64url")) && Buffer.from(auth, "base64url").length === 16
