/**
 * Binds an authorization request to the browser that made it (RFC 9700 4.7). The URL of the consent page is not enough:
 * the browser's cookie must match, and a form must carry the CSRF value, which is derived from the cookie and proves that
 * this browser was shown the page (decisions.md, CSRF protection).
 *
 * Entering a project token renews the cookie: somebody may have planted the first one in the person's browser, and would
 * otherwise press Allow in the person's place (decisions.md, The browser's cookie).
 */
import { Data, Effect, Option, Redacted } from "effect"
import type { SqlError } from "effect/sql"
import { deriveFrom } from "../../../platform/crypto/Derivation.ts"
import { equal, sha256 } from "../../../platform/crypto/Sha256.ts"
import { hasPassed } from "../../../wire/Instant.ts"
import type { Request } from "../authorize/AuthorizationRequestStore.ts"

/** The path of the consent page, at the issuer's origin. */
export const consentPath = (request_id: string): string => `/oauth/consent?request=${request_id}`

/** The request cannot be decided here any more; the person has to start again from the app. */
export class ConsentEnded extends Data.TaggedError("ConsentEnded")<{
  readonly reason:
    | "unknown"
    | "expired"
    | "other_browser"
    | "answered"
    | "too_many_tries"
    /** The client was disabled or has withdrawn the redirect URI; its metadata document cannot be fetched. */
    | "unknown_client"
    | "client_unavailable"
}> {}

/** A view of the consent page. `browser`: the value of the cookie. */
export interface Visit {
  readonly request_id: string
  readonly browser: Option.Option<Redacted.Redacted<string>>
}

/** A submitted form. */
export interface Submission extends Visit {
  readonly csrf: string
}

/** Reads the request if it belongs to this browser and can still be decided, with the CSRF value of its forms. */
export const openRequest = (
  read: (request_id: string, now: Date) => Effect.Effect<Option.Option<Request>, SqlError.SqlError>
) =>
  Effect.fnUntraced(function* ({ browser, request_id }: Visit, now: Date) {
    const found = isUuid.test(request_id) ? yield* read(request_id, now) : Option.none()
    if (Option.isNone(found)) return yield* new ConsentEnded({ reason: "unknown" })
    const request = found.value
    if (Option.isNone(browser) || !equal(sha256(Redacted.value(browser.value)), request.browser_hash)) {
      return yield* new ConsentEnded({ reason: "other_browser" })
    }
    if (hasPassed(request.expires_at, now)) return yield* new ConsentEnded({ reason: "expired" })
    if (request.wrong_tokens >= 5) return yield* new ConsentEnded({ reason: "too_many_tries" })
    return { request, csrf: csrfOf(browser.value, request_id) }
  })

export const checkCsrf = ({ browser, csrf, request_id }: Submission) =>
  Option.isSome(browser) && equal(sha256(csrf), sha256(csrfOf(browser.value, request_id)))
    ? Effect.void
    : new ConsentEnded({ reason: "other_browser" })

/**
 * The cookie of a request after a project token was entered. It cannot be derived without that token, and a browser that
 * repeats the form, because the answer was lost, gets the same one.
 */
export const renewed = ({ browser, request_id }: Visit, token: Redacted.Redacted<string>) =>
  Option.map(browser, (value) =>
    Redacted.make(base64url(deriveFrom(token, "oauth/v1/consent-browser", [request_id, value])))
  )

const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const csrfOf = (browser: Redacted.Redacted<string>, request_id: string) =>
  base64url(deriveFrom(browser, "oauth/v1/consent-form", [request_id]))

const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url")
