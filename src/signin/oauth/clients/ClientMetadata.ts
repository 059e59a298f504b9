/**
 * Validates the metadata that a client declares, in a registration or in a metadata document (RFC 7591 2).
 *
 * Clients are public: the service issues no client secrets. Unknown members are ignored. Unusable redirect URIs are
 * dropped, as RFC 7591 3.2.1 allows; a list without a usable one, or with a dangerous one, is rejected.
 */
import { Result, Schema } from "effect"
import { findSecret } from "../../../platform/secrets/Secrets.ts"
import { scopes, type Scope } from "../../../wire/Scopes.ts"
import { findHidden, nfc, withoutHidden } from "../../../wire/Text.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import { isAcceptable, isDangerous } from "./RedirectUri.ts"
import { ApplicationType, type ClientMetadata } from "./Shapes.ts"

/** The scopes that a client gets without an operator: all but `mobile:devices` (decisions.md, mobile:devices). */
export const selfServiceScopes: ReadonlyArray<Scope> = scopes.filter((scope) => scope !== "mobile:devices")

const Texts = Schema.Array(Schema.String)
/** Null counts as omitted (RFC 7592 2.2): many serializers write it for a member without a value. */
const member = <S extends Schema.Constraint>(schema: S) => Schema.optional(Schema.NullOr(schema))
const Declared = Schema.Struct({
  redirect_uris: Texts,
  client_name: member(Schema.String),
  application_type: member(Schema.String),
  grant_types: member(Texts),
  response_types: member(Texts),
  token_endpoint_auth_method: member(Schema.String),
  token_endpoint_auth_methods_supported: member(Texts),
  software_statement: Schema.optional(Schema.Unknown)
})
const decode = Schema.decodeUnknownResult(Declared)

type MetadataRefusal = OAuthRefusal<
  "invalid_redirect_uri" | "invalid_client_metadata" | "unapproved_software_statement"
>

const unacceptable = (sentence: string) => Result.fail(refuse("invalid_client_metadata", sentence))

export const readMetadata = (document: unknown): Result.Result<ClientMetadata, MetadataRefusal> => {
  const decoded = decode(document)
  if (Result.isFailure(decoded)) {
    return hasRedirectUris(document)
      ? unacceptable("A member of the client metadata has the wrong type.")
      : Result.fail(refuse("invalid_redirect_uri", "redirect_uris is required: a list of text."))
  }
  const given = decoded.success
  if ((given.software_statement ?? null) !== null) return Result.fail(refuse("unapproved_software_statement"))

  // A document may list several methods (OpenID Relying Party Metadata Choices); `none` has to be one of them.
  const methods = [given.token_endpoint_auth_method ?? "none", ...(given.token_endpoint_auth_methods_supported ?? [])]
  if (!methods.includes("none")) return unacceptable("Only public clients: token_endpoint_auth_method is none.")

  const types = given.grant_types ?? ["authorization_code", "refresh_token"]
  if (!types.includes("authorization_code")) return unacceptable("grant_types has to contain authorization_code.")
  if (!(given.response_types ?? ["code"]).includes("code")) return unacceptable("response_types has to contain code.")

  const application_type = given.application_type ?? undefined
  if (application_type !== undefined && !Schema.is(ApplicationType)(application_type)) {
    return unacceptable("application_type is native or web.")
  }

  const { redirect_uris } = given
  if (redirect_uris.length > 10) return unacceptable("At most 10 redirect URIs.")
  const usable = [...new Set(redirect_uris)].filter((uri) => isAcceptable(uri, application_type))
  if (usable.length === 0 || redirect_uris.some(isDangerous)) return Result.fail(refuse("invalid_redirect_uri"))
  // Names and redirect URIs are stored and shown on pages, so they must not contain a secret.
  if ([given.client_name ?? "", ...usable].some((text) => findSecret(text) !== undefined)) {
    return unacceptable("The client metadata contains a secret.")
  }

  return Result.succeed({
    name: displayName(given.client_name ?? ""),
    redirect_uris: usable,
    application_type: application_type ?? null,
    grant_types: (["authorization_code", "refresh_token"] as const).filter((type) => types.includes(type))
  })
}

const hasRedirectUris = (document: unknown) =>
  typeof document === "object" &&
  document !== null &&
  "redirect_uris" in document &&
  Schema.is(Texts)(document.redirect_uris)

/** Makes a name safe to show: one line without hidden characters, at most 64 characters; empty if nothing is visible. */
export const displayName = (name: string): string => {
  const spaced = nfc(name.toWellFormed()).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
  const clean = withoutHidden(spaced).trim()
  if (findHidden(clean, "line") !== undefined) return ""
  const characters = [...clean]
  return characters.length > 64 ? `${characters.slice(0, 63).join("")}…` : clean
}
