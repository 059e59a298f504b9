/** Who a valid credential of a project makes the caller (contract section 3). */

/** Writing implies reading of the same noun. `bridge:transport` is none of these: it never comes from OAuth. */
export const scopes = [
  "context:read",
  "memory:read",
  "memory:write",
  "tasks:read",
  "tasks:write",
  "documents:read",
  "mobile:devices"
] as const
export type Scope = (typeof scopes)[number]

export type Role = "reader" | "contributor"

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
}
