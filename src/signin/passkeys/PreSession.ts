/**
 * The cookie of a browser that is about to sign in with a passkey: the challenge belongs to it, so that nobody can have
 * somebody else's answer accepted in a browser of their own, or theirs in somebody else's.
 */
import { Effect, Option, Redacted } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { salt } from "../../platform/crypto/Random.ts"
import { ownCookie } from "../../platform/edge/routes/PageRoutes.ts"
import { Settings } from "../../platform/settings/Settings.ts"

/** Seconds; as long as a challenge. */
const maxAge = 300

export const preSession = Effect.map(Settings, ({ baseUrl }) => {
  const isSecure = baseUrl.protocol === "https:"
  const name = isSecure ? "__Host-console_presession" : `console_presession_${baseUrl.port || "80"}`

  const find = ({ cookies }: Pick<HttpServerRequest.HttpServerRequest, "cookies">) => {
    const value = cookies[name] ?? ""
    return /^[A-Za-z0-9_-]{43}$/.test(value) ? Option.some(Redacted.make(value)) : Option.none()
  }
  const fresh = Effect.map(salt, (bytes) => Redacted.make(Buffer.from(bytes).toString("base64url")))
  const withCookie = (response: HttpServerResponse.HttpServerResponse, value: Redacted.Redacted<string>) =>
    HttpServerResponse.setHeader(response, "set-cookie", ownCookie(name, Redacted.value(value), isSecure, maxAge))

  return { find, fresh, withCookie }
})
