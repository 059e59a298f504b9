/** The one place that reads a bearer credential from a request (RFC 6750 2.1). */
import { Option, Redacted } from "effect"

/**
 * The text after `Bearer` and exactly one space; the scheme is case-insensitive (RFC 9110 11.1). None for an absent
 * header, another scheme, and nothing after the scheme. Any text that is not a whole token is rejected as a malformed
 * credential, so a second space or a second credential needs no check here.
 */
export const credentialOf = (authorization: string | undefined): Option.Option<Redacted.Redacted<string>> => {
  const [, credential] = /^bearer (.*\S.*)$/is.exec(authorization ?? "") ?? []
  return Option.map(Option.fromUndefinedOr(credential), (text) => Redacted.make(text))
}
