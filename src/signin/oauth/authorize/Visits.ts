/**
 * Who may see a request at the consent page: the browser that made it, while it lasts (spec 4.10; RFC 9700 4.7).
 *
 * `browser` is the secret of its cookie, `csrf` proves that a form came from a page that this browser was shown. The
 * address of the page alone opens nothing.
 */
import { Data, Effect, Option, Redacted } from "effect"
import type { SqlError } from "effect/sql"
import { deriveFrom } from "../../../platform/crypto/Derivation.ts"
import { equal, sha256 } from "../../../platform/crypto/Sha256.ts"
import { hasPassed } from "../../../wire/Instant.ts"
import type { Request } from "./RequestStore.ts"

/** The page, at the issuer's origin. */
export const addressOf = (request_id: string): string => `/oauth/consent?request=${request_id}`

/** Why there is nothing to decide; the person has to start again from the app. */
export class ConsentEnded extends Data.TaggedError("ConsentEnded")<{
  readonly reason: "unknown" | "expired" | "other_browser" | "answered" | "too_many_tries"
}> {}

export interface Visit {
  readonly request_id: string
  readonly browser: Option.Option<Redacted.Redacted<string>>
}

/** A visit that submits a form. */
export interface Submission extends Visit {
  readonly csrf: string
}

/** The request, if this browser may see it, and the value that its forms have to carry. */
export const opened = (
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
    return { request, csrf: csrfOf(browser.value, request.request_id) }
  })

export const submitted = ({ csrf }: Submission, expected: string) =>
  equal(sha256(csrf), sha256(expected)) ? Effect.void : new ConsentEnded({ reason: "other_browser" })

const isUuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const csrfOf = (browser: Redacted.Redacted<string>, request_id: string) =>
  Buffer.from(deriveFrom(browser, "oauth/v1/consent-form", [request_id])).toString("base64url")
