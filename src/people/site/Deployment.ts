/** What the pages say of this deployment: public facts only, nothing that server_identity keeps for callers it knows. */
import { Duration } from "effect"
import type { Settings } from "../../platform/settings/Settings.ts"

export interface Deployment {
  /** Origins, without slash. */
  readonly base_url: string
  readonly issuer: string
  /** The address of the MCP endpoint. */
  readonly resource: string
  readonly registration: boolean
  readonly revocation: boolean
  /** Whose client metadata documents are fetched. */
  readonly documentHosts: ReadonlyArray<string>
  readonly lifetimes: ReadonlyArray<{ readonly what: string; readonly life: string; readonly setting: string }>
}

export const deploymentOf = (settings: Settings["Service"]): Deployment => {
  const { authUrl, baseUrl, bridge, dynamicRegistration, oauth, resource } = settings
  const lifetime = (what: string, life: Duration.Duration, setting: string) => ({ what, life: inWords(life), setting })
  return {
    base_url: baseUrl.origin,
    issuer: authUrl.origin,
    resource,
    registration: dynamicRegistration,
    revocation: oauth.revocation,
    documentHosts: oauth.cimd === "off" ? [] : [...oauth.cimdHosts],
    lifetimes: [
      lifetime("Challenge", bridge.challengeTtl, "SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS"),
      lifetime("Bridge token", bridge.tokenTtl, "SERVICE_BRIDGE_TOKEN_TTL_SECONDS"),
      lifetime("From prepare to confirm", bridge.rotationTtl, "SERVICE_BRIDGE_ROTATION_TTL_SECONDS"),
      lifetime("Replay of a proof", bridge.proofReplay, "SERVICE_BRIDGE_PROOF_REPLAY_SECONDS"),
      lifetime("Authorization code", oauth.codeTtl, "SERVICE_OAUTH_CODE_TTL_SECONDS"),
      lifetime("Access token", oauth.accessTtl, "SERVICE_OAUTH_ACCESS_TTL_SECONDS"),
      lifetime("Access token of a phone", oauth.mobileAccessTtl, "SERVICE_OAUTH_MOBILE_ACCESS_TTL_SECONDS"),
      lifetime("Refresh token, unused", oauth.refreshIdleTtl, "SERVICE_OAUTH_REFRESH_IDLE_TTL_SECONDS"),
      lifetime("Grant, at most", oauth.refreshMaxTtl, "SERVICE_OAUTH_REFRESH_MAX_TTL_SECONDS")
    ]
  }
}

/** In the largest unit that leaves a whole number. */
const inWords = (life: Duration.Duration) => {
  const seconds = Duration.toSeconds(life)
  const [unit, length] = units.find(([, length]) => seconds % length === 0 && seconds >= length) ?? ["second", 1]
  const count = seconds / length
  return `${count} ${unit}${count === 1 ? "" : "s"}`
}

const units = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60]
] as const
