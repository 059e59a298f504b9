/** The parts of this wing that the rest of the service uses. */
import { Layer } from "effect"
import { Access } from "./access/Access.ts"
import { ProjectTokens } from "./access/ProjectTokens.ts"
import { Authorize } from "./oauth/authorize/Authorize.ts"
import { ClientDocuments } from "./oauth/clients/ClientDocuments.ts"
import { Clients } from "./oauth/clients/Clients.ts"
import { Consent } from "./oauth/consent/Consent.ts"
import { Grants } from "./oauth/grants/Grants.ts"
import { sweeps as oauthSweeps } from "./oauth/Sweeps.ts"
import { BridgeAccess } from "./oauth/tokens/BridgeAccess.ts"
import { Codes } from "./oauth/tokens/Codes.ts"
import { RefreshTokens } from "./oauth/tokens/RefreshTokens.ts"
import { PersonKeys } from "./passkeys/PersonKeys.ts"
import { sweeps as passkeySweeps } from "./passkeys/Sweeps.ts"
import { ClientProofs } from "./possession/ClientProofs.ts"
import { Sessions } from "./sessions/Sessions.ts"
import { sweeps as sessionSweeps } from "./sessions/Sweeps.ts"

export const layer = Layer.mergeAll(
  ProjectTokens.layer,
  Authorize.layer,
  Consent.layer,
  Codes.layer,
  BridgeAccess.layer,
  RefreshTokens.layer
).pipe(
  Layer.provideMerge(PersonKeys.layer),
  Layer.provideMerge(Layer.mergeAll(Access.layer, Grants.layer, Sessions.layer)),
  Layer.provideMerge(ClientProofs.layer),
  Layer.provideMerge(Clients.layer),
  Layer.provide(ClientDocuments.layer)
)

export const sweeps = [...oauthSweeps, ...sessionSweeps, ...passkeySweeps]

/** The services that commands of service-admin use. */
export const forCommands = {
  oauthClients: Clients,
  oauthGrants: Grants,
  personKeys: PersonKeys,
  projectTokens: ProjectTokens,
  sessions: Sessions
}
