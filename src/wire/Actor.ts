/** Who a valid credential of a project makes the caller (contract section 3). */
import { Context } from "effect"
import type { Role, Scope } from "./Scopes.ts"

export interface Actor {
  readonly project_id: string
  readonly project_name: string
  readonly role: Role
  /** Already expanded: with `tasks:write` comes `tasks:read`. */
  readonly scopes: ReadonlySet<Scope>
  /** The id of the row that authenticated this request: a project token or an OAuth access token. Never the secret. */
  readonly credential_id: string
  /** The project token that stands behind it; it survives a new sign-in. */
  readonly subject: string
  /** The OAuth client and grant; null for a project token used directly. */
  readonly client_id: string | null
  readonly grant_id: string | null
  /** The logical instance that answered: SERVICE_INSTANCE_ID, else the one made by the first migration. */
  readonly instance_id: string
}

/** The actor of the request, where `ProjectCredential` guards the endpoint. */
export class CurrentActor extends Context.Service<CurrentActor, Actor>()("service/wire/CurrentActor") {}

/** As audit rows and provenance name the caller: `kind:id`. A grant outlives its access tokens. */
export const actorName = ({ credential_id, grant_id }: Actor): string =>
  grant_id === null ? `project_token:${credential_id}` : `oauth_grant:${grant_id}`
