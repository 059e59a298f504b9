/**
 * The access token with which this Bridge reaches /mcp, for the agents of its machine (RFC 7523; docs/protocol.md, Access of
 * Bridges).
 *
 * 1. The folder keeps the last one until a minute before its end, or until the key is replaced.
 * 2. Without one, the Bridge signs an assertion with its key and sends it to the authorization server of its service. A
 *    wrong clock is corrected by `Date`, once.
 * 3. During a key rotation the service may count either key: if it does not know the old one, the new one is tried.
 */
import { Clock, Effect, Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { discover, OAuthRefused, refusal, TokenResponse, unreachable } from "../AuthorizationServer.ts"
import { fingerprint, type KeyPair, uuid } from "../Crypto.ts"
import { signedJwt } from "../Dpop.ts"
import type { Journal } from "./Journal.ts"
import type { Enrolled } from "./State.ts"

/** Seconds that an assertion is valid for. */
const lasts = 60
/** Milliseconds before its end that a kept token is replaced. */
const leeway = 60_000

export const make = Effect.fnUntraced(function* (journal: Journal["Service"]) {
  const http = yield* HttpClient.HttpClient

  /** `ahead`: milliseconds that the service's clock is ahead of this machine's. */
  const request = Effect.fnUntraced(function* ({ base_url, identity }: Enrolled, keys: KeyPair) {
    const resource = `${new URL(base_url).origin}/mcp`
    const { issuer, token_endpoint } = yield* discover(http, resource)
    const client_id = `bridge:${identity.project_id}:${identity.bridge_id}`
    let ahead = 0
    const ask = Effect.gen(function* () {
      const sent = yield* Clock.currentTimeMillis
      const now = Math.floor((sent + ahead) / 1000)
      const claims = { iss: client_id, sub: client_id, aud: issuer, iat: now, exp: now + lasts, jti: yield* uuid }
      const form = HttpClientRequest.bodyUrlParams(HttpClientRequest.post(token_endpoint), {
        grant_type: "client_credentials",
        client_id,
        client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        client_assertion: yield* signedJwt(keys, "JWT", claims),
        resource
      })
      const response = yield* Effect.mapError(
        http.execute(form),
        unreachable("The authorization server does not answer.")
      )
      if (response.status !== 200) {
        const at = Date.parse(response.headers["date"] ?? "")
        if (!Number.isNaN(at)) ahead = at - sent
        return yield* refusal(response)
      }
      const answer = yield* Effect.mapError(
        Effect.flatMap(response.json, Schema.decodeUnknownEffect(TokenResponse)),
        unreachable("The authorization server did not answer with a token.")
      )
      return {
        access_token: Redacted.make(answer.access_token),
        public_key_fingerprint: fingerprint(keys.publicKey),
        from: sent,
        until: sent + answer.expires_in * 1000 - leeway
      }
    })
    return yield* Effect.retry(ask, { while: () => Math.abs(ahead) >= 2000, times: 1 })
  })

  const token = Effect.fn("Bridge.accessToken")(
    function* (state: Enrolled) {
      const keys = yield* journal.keys
      const next = (yield* journal.keyRotation)?.keys
      const now = yield* Clock.currentTimeMillis
      const kept = yield* journal.access
      const known = [keys, ...(next === undefined ? [] : [next])].map(({ publicKey }) => fingerprint(publicKey))
      if (kept !== undefined && known.includes(kept.public_key_fingerprint) && kept.from <= now && now < kept.until)
        return kept.access_token
      const fresh = yield* Effect.catchIf(
        request(state, keys),
        (error) => error instanceof OAuthRefused && error.code === "invalid_client" && next !== undefined,
        () => request(state, next!)
      )
      yield* journal.keepAccess(fresh)
      return fresh.access_token
    },
    Effect.timeoutOrElse({
      duration: "9 seconds",
      orElse: () => Effect.fail(unreachable("The service did not answer within nine seconds.")())
    }),
    // Following a redirect could send the assertion to another host.
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" })
  )

  return { token }
})
