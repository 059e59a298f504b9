/** The authenticated caller of an endpoint that takes a project's credential (spec 5.2). */
import { Context } from "effect"
import type { Role, Scope } from "./Scopes.ts"

export interface Actor {
  readonly project_id: string
  readonly project_name: string
  readonly role: Role
  /** Expanded: `tasks:write` brings `tasks:read`. */
  readonly scopes: ReadonlySet<Scope>
  /** The id of the row that authenticated this request: of a project token or an access token. Never the secret. */
  readonly credential_id: string
  /** The id of the project token behind the credential, or of the Bridge. Signing in again with the same token keeps it. */
  readonly subject: string
  /** The OAuth client and grant; null for a project token used directly. */
  readonly client_id: string | null
  readonly grant_id: string | null
  /** The Bridge that signed in with its key. */
  readonly bridge_id?: string | null | undefined
  /** The logical instance of this service: SERVICE_INSTANCE_ID, or the UUID made by the first migration. */
  readonly instance_id: string
  /** The project's limits that differ from the defaults, by name. */
  readonly limits: Readonly<Record<string, number>>
  /** The credential is bound to a key of the client, which has proved it (RFC 9449). */
  readonly bound?: boolean | undefined
  /** An operator at the console, who has no credential of the project: `operator:account@host`. */
  readonly operator?: string | undefined
}

/** An actor that signed in through OAuth. */
export interface Granted extends Actor {
  readonly client_id: string
  readonly grant_id: string
}

/** The actor of a request of a phone; provided by the `PhoneCredential` middleware. */
export class CurrentGrant extends Context.Service<CurrentGrant, Granted>()("service/wire/CurrentGrant") {}

/**
 * The caller's name in audit rows and provenance, `kind:id` or `operator:account@host`. An OAuth caller is named by the
 * grant and a Bridge by its name, because access tokens expire and are purged first.
 */
export const actorName = ({ bridge_id, credential_id, grant_id, operator }: Actor): string => {
  if (operator !== undefined) return operator
  if (typeof bridge_id === "string") return `bridge:${bridge_id}`
  return grant_id === null ? `project_token:${credential_id}` : `oauth_grant:${grant_id}`
}
