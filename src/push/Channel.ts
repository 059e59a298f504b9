/** A channel's target: the secret that is sealed as its push token, as JSON. Whoever has it can post there. */
import { Redacted } from "effect"

export const channelKinds = ["ntfy", "webhook"] as const
export type ChannelKind = (typeof channelKinds)[number]

export interface Target {
  /** The channel's id, so that two channels may have the same address. */
  readonly id: string
  readonly url: string
  /** ntfy: the access token, if the topic needs one. Webhook: what signs, the newest first. */
  readonly secrets: ReadonlyArray<string>
}

export const asToken = ({ id, secrets, url }: Target): Redacted.Redacted<string> =>
  Redacted.make(JSON.stringify({ id, url, secrets }))

export const ofToken = (token: Redacted.Redacted<string>): Target => JSON.parse(Redacted.value(token))

/** Whether something may be posted there: https to a name, or https and http to a host that the operator named. */
export const isAllowedTarget = (url: string, privateHosts: ReadonlySet<string>): boolean => {
  if (!URL.canParse(url)) return false
  const { hash, hostname, password, protocol, username } = new URL(url)
  if (username !== "" || password !== "" || hash !== "") return false
  if (privateHosts.has(hostname)) return protocol === "https:" || protocol === "http:"
  // The last part of an address is a number, or a bracket.
  return protocol === "https:" && /\.[a-z][a-z0-9-]*$/.test(hostname)
}
