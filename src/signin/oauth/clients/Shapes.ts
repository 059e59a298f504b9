/** The stored fields of a client, in `oauth_client` and in the authorization request that shows it. */
import { Schema } from "effect"
import { Scope } from "../../../wire/Scopes.ts"

export const ApplicationType = Schema.Literals(["native", "web"])
export type ApplicationType = typeof ApplicationType.Type

export const GrantType = Schema.Literals(["authorization_code", "refresh_token"])

/** Created by an operator, registered by itself (RFC 7591), or known by its metadata document. */
export const ClientKind = Schema.Literals(["operator", "dynamic", "document"])

/** The metadata that a client declares about itself (RFC 7591 2). */
export const ClientMetadata = Schema.Struct({
  name: Schema.String,
  redirect_uris: Schema.Array(Schema.String),
  application_type: Schema.NullOr(ApplicationType),
  grant_types: Schema.Array(GrantType)
})
export type ClientMetadata = typeof ClientMetadata.Type

/** `scopes` is the most that the client can be granted. */
export const Client = Schema.Struct({
  client_id: Schema.String,
  kind: ClientKind,
  ...ClientMetadata.fields,
  scopes: Schema.Array(Scope)
})
export type Client = typeof Client.Type
