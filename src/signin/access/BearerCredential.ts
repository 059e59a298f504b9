/** Reads the bearer credential of a request (RFC 6750 2.1). */
import { Option, Redacted } from "effect"

/** None without a bearer credential. `Access` validates the credential itself. */
export const credentialOf = (authorization: string | undefined): Option.Option<Redacted.Redacted<string>> => {
  const [, credential = ""] = /^bearer +(.*)$/i.exec((authorization ?? "").trim()) ?? []
  return credential === "" ? Option.none() : Option.some(Redacted.make(credential))
}
