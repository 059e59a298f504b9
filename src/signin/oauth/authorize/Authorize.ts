/**
 * The authorization endpoint (OAuth 2.1 "Authorization Endpoint"; spec 4.10, 4.13).
 *
 * 1. The client and the redirect URI are checked first. Until both are valid, errors stay on a page of this service.
 * 2. Any other error is returned to the redirect URI. For clients that no operator created, only after the person has
 *    pressed a button, because anyone can register such a client and choose where it redirects (RFC 9700 4.11).
 * 3. A valid request is stored for ten minutes, bound to the browser's cookie, and decided at the consent page. Until a
 *    project token is entered, their number is bounded per address and altogether (decisions.md, Open authorization
 *    requests).
 */
import { Context, Data, Duration, Effect, Layer, Option, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { Settings } from "../../../platform/settings/Settings.ts"
import { uuid } from "../../../platform/crypto/Random.ts"
import { sha256 } from "../../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { sharedPersistence } from "../../../platform/database/Persistence.ts"
import { inTurn } from "../../../platform/database/Shares.ts"
import { siteOf } from "../../../platform/edge/Addresses.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { Caller } from "../../../wire/Headers.ts"
import { after } from "../../../wire/Instant.ts"
import { Clients } from "../clients/Clients.ts"
import { matches, withResponse } from "../clients/RedirectUri.ts"
import type { OAuthRefusal } from "../Errors.ts"
import { parametersOf } from "../Parameters.ts"
import { readAuthorizationRequest, returnable } from "./AuthorizationRequest.ts"
import * as Store from "./AuthorizationRequestStore.ts"

/** The error is shown on a page of this service, because no redirect URI can be trusted. */
export class NoRedirect extends Data.TaggedError("NoRedirect")<{
  readonly reason: "malformed" | "unknown_client" | "wrong_redirect_uri" | "client_unavailable"
}> {}

/** The error is returned to the client at `location`; if `automatic` is false, only after the person has agreed. */
export class ErrorRedirect extends Data.TaggedError("ErrorRedirect")<{
  readonly location: string
  readonly redirect_uri: string
  readonly refusal: OAuthRefusal
  readonly automatic: boolean
}> {}

/** Characters. */
const maxQueryLength = 8 * 1024
const requestTtl = Duration.minutes(10)

export class Authorize extends Context.Service<
  Authorize,
  {
    /** `browser` is the value of the cookie that binds the request to this browser. */
    readonly begin: (
      query: string,
      browser: Redacted.Redacted<string>
    ) => Effect.Effect<
      { readonly request_id: string },
      NoRedirect | ErrorRedirect | SharedRefusal<"bridge_persistence_error">
    >
  }
>()("service/oauth/Authorize") {
  static readonly layer = Layer.effect(
    Authorize,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const clients = yield* Clients
      const { authUrl, resource } = yield* Settings
      const store = Store.make(sql)

      const begin = Effect.fn("Authorize.begin")(function* (query: string, browser: Redacted.Redacted<string>) {
        if (query.length > maxQueryLength) return yield* new NoRedirect({ reason: "malformed" })
        const params = parametersOf(new URLSearchParams(query))
        const client_id = params.get("client_id")
        const isUnambiguous = !params.repeated.has("client_id") && !params.repeated.has("redirect_uri")
        if (client_id === undefined || !isUnambiguous || !params.isText) {
          return yield* new NoRedirect({ reason: "malformed" })
        }
        const client = yield* clients
          .find(client_id)
          .pipe(Effect.catchTag("DocumentUnavailable", () => new NoRedirect({ reason: "client_unavailable" })))
        if (Option.isNone(client)) return yield* new NoRedirect({ reason: "unknown_client" })
        const { kind, redirect_uris, scopes } = client.value

        const onlyUri = redirect_uris.length === 1 ? redirect_uris[0] : undefined
        const redirect_uri = params.get("redirect_uri") ?? onlyUri
        if (redirect_uri === undefined || !matches(redirect_uri, redirect_uris)) {
          return yield* new NoRedirect({ reason: "wrong_redirect_uri" })
        }

        const state = returnable(params)
        const request = readAuthorizationRequest(params, scopes, resource)
        if (Result.isFailure(request)) {
          const { _tag, message } = request.failure
          return yield* new ErrorRedirect({
            location: withResponse(redirect_uri, {
              error: _tag,
              error_description: message,
              state,
              iss: authUrl.origin
            }),
            redirect_uri,
            refusal: request.failure,
            automatic: kind === "operator"
          })
        }

        const now = yield* clock.now
        const request_id = yield* uuid
        const { network } = yield* Caller
        const opened = store.insert(
          {
            ...request.success,
            request_id,
            browser_hash: sha256(Redacted.value(browser)),
            client_id,
            network,
            site: siteOf(network) ?? network,
            redirect_uri,
            state,
            expires_at: after(now, requestTtl)
          },
          now
        )
        yield* inTurn(Effect.andThen(opened, store.boundAll))
        return { request_id }
      }, sharedPersistence)

      return { begin }
    })
  )
}
