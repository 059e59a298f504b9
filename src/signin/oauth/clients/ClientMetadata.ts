/**
 * What a client says of itself (RFC 7591 2): in a registration, in a metadata document, or in the operator's words.
 *
 * Clients are public: no secret is ever issued. Unknown members are ignored. Redirect URIs that nobody could use are
 * dropped, as RFC 7591 3.2.1 lets a server do; a list without a usable one is refused, and so is one with a trap in it.
 */
import { Result, Schema } from "effect"
import { findToken } from "../../../platform/crypto/Tokens.ts"
import { scopes, type Scope } from "../../../wire/Scopes.ts"
import { type OAuthRefusal, refuse } from "../Errors.ts"
import { isAcceptable, isDangerous } from "./RedirectUri.ts"

export const ApplicationType = Schema.Literals(["native", "web"])
export const GrantType = Schema.Literals(["authorization_code", "refresh_token"])

export interface ClientMetadata {
  readonly name: string
  readonly redirect_uris: ReadonlyArray<string>
  readonly application_type: typeof ApplicationType.Type | null
  readonly grant_types: ReadonlyArray<typeof GrantType.Type>
}

/** `mobile:devices` is for clients that an operator allowed it. */
export const unattendedScopes: ReadonlyArray<Scope> = scopes.filter((scope) => scope !== "mobile:devices")

const Texts = Schema.Array(Schema.String)
/** Null says the same as nothing (RFC 7592 2.2), and is what many serializers write of a member without value. */
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

  // A document may offer a choice (OpenID Relying Party Metadata Choices): none is always the one we take.
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
  // It would be kept and shown: no place for a secret, whoever put it there.
  if ([given.client_name ?? "", ...usable].some((text) => findToken(text) !== undefined)) {
    return unacceptable("The client metadata contains a token of this service.")
  }

  return Result.succeed({
    name: shown(given.client_name ?? ""),
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

/** A name that can stand on a page: one line, no characters that turn or hide others, at most 64. */
export const shown = (name: string): string => {
  const clean = name
    .toWellFormed()
    .normalize("NFC")
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
  const characters = [...clean]
  return characters.length > 64 ? `${characters.slice(0, 63).join("")}…` : clean
}
