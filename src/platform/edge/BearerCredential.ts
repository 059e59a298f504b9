/** The one place that reads a bearer credential from a request (RFC 6750 2.1). */
import { Option, Redacted } from "effect"

/**
 * The text after `Bearer` and exactly one space; the scheme is case-insensitive (RFC 9110 11.1). None for an absent
 * header, another scheme, and nothing after the scheme. Any text that is not a whole token is rejected as a malformed
 * credential, so a second space, credential or header (Listener.ts joins them) needs no check here.
 */
export const credentialOf = (authorization: string | undefined): Option.Option<Redacted.Redacted<string>> =>
  credentialIn(/^bearer (.*\S.*)$/is, authorization)

/** The same for a token that a key may be bound to: the scheme is `Bearer` or `DPoP` (RFC 9449 7.1). */
export const bindableCredentialOf = (authorization: string | undefined): Option.Option<Redacted.Redacted<string>> =>
  credentialIn(/^(?:bearer|dpop) (.*\S.*)$/is, authorization)

const credentialIn = (scheme: RegExp, authorization = "") =>
  Option.map(Option.fromUndefinedOr(scheme.exec(authorization)?.[1]), (text) => Redacted.make(text))
