/** Who the service is to an authenticator (WebAuthn Level 3, 5.1.2): the host of the base URL. */
import { isIP } from "node:net"

export interface RelyingParty {
  readonly id: string
  readonly origin: string
}

/** Undefined at an IP address, for which no browser makes a passkey. */
export const relyingPartyOf = ({ hostname, origin }: URL): RelyingParty | undefined =>
  isIP(hostname.replace(/^\[|\]$/g, "")) === 0 ? { id: hostname, origin } : undefined
