/** The public facts about this deployment that the pages show. Everything else needs a credential (server_identity). */
import { Duration } from "effect"
import type { Settings } from "../../platform/settings/Settings.ts"

export interface Deployment {
  /** An origin, without a trailing slash; so is the issuer. */
  readonly base_url: string
  readonly issuer: string
  /** The address of the MCP endpoint. */
  readonly resource: string
  readonly registration: boolean
  readonly revocation: boolean
  /** Hosts whose client metadata documents are fetched. */
  readonly documentHosts: ReadonlyArray<string>
  readonly lifetimes: ReadonlyArray<{ readonly subject: string; readonly lifetime: string; readonly setting: string }>
}

export const deploymentOf = (settings: Settings["Service"]): Deployment => {
  const { authUrl, baseUrl, bridge, dynamicRegistration, oauth, resource } = settings
  const lifetime = (subject: string, length: Duration.Duration, setting: string) => ({
    subject,
    lifetime: inWords(length),
    setting
  })
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
      lifetime("Pending rotation, from prepare to confirm", bridge.rotationTtl, "SERVICE_BRIDGE_ROTATION_TTL_SECONDS"),
      lifetime("Retry of a proof", bridge.proofReplay, "SERVICE_BRIDGE_PROOF_REPLAY_SECONDS"),
      lifetime("Authorization code", oauth.codeTtl, "SERVICE_OAUTH_CODE_TTL_SECONDS"),
      lifetime("Access token", oauth.accessTtl, "SERVICE_OAUTH_ACCESS_TTL_SECONDS"),
      lifetime("Access token of a phone app", oauth.mobileAccessTtl, "SERVICE_OAUTH_MOBILE_ACCESS_TTL_SECONDS"),
      lifetime("Refresh token, if unused", oauth.refreshIdleTtl, "SERVICE_OAUTH_REFRESH_IDLE_TTL_SECONDS"),
      lifetime("Grant (a sign-in), at most", oauth.refreshMaxTtl, "SERVICE_OAUTH_REFRESH_MAX_TTL_SECONDS")
    ]
  }
}

/** Uses the largest unit that divides the lifetime. */
const inWords = (lifetime: Duration.Duration) => {
  const seconds = Duration.toSeconds(lifetime)
  const [unit, length] = units.find(([, length]) => seconds % length === 0 && seconds >= length) ?? ["second", 1]
  const count = seconds / length
  return `${count} ${unit}${count === 1 ? "" : "s"}`
}

const units = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60]
] as const
