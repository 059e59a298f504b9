/**
 * A public OAuth client without a screen of its own (spec 4.13; RFC 8252), for a phone app, a companion or a command.
 *
 * 1. It discovers the authorization server from the resource (RFC 9728, RFC 8414) and checks that each
 *    document's identifier is the URL that it was read from.
 * 2. `signIn` sends a person to the authorization page with a fresh verifier and state. `browser` opens that address and
 *    returns the callback address.
 * 3. State and issuer of the callback are checked before the code is exchanged (RFC 9207).
 * 4. `accessToken` refreshes when needed. Concurrent callers share one refresh, and its result is stored before it is used.
 * 5. With a key of its own, the client proves it whenever it asks for tokens, and the server binds them to it (RFC 9449):
 *    `authorize` then adds a proof to each request, so a copy of the tokens is worthless.
 */
import { Clock, Data, Duration, Effect, Option, Redacted, Result, Schema, Semaphore } from "effect"
import { HttpClient, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { randomBytes } from "node:crypto"
import {
  discover,
  mismatch,
  OAuthRefused,
  refusal,
  type ServerMetadata,
  TokenResponse,
  unreachable
} from "./AuthorizationServer.ts"
import { type KeyPair, sha256 } from "./Crypto.ts"
import { dpopProof, thumbprint } from "./Dpop.ts"

/** The state that must survive a restart. It belongs in a store for secrets. */
export interface Tokens {
  readonly access_token: Redacted.Redacted<string>
  readonly refresh_token: Redacted.Redacted<string> | undefined
  readonly scope: string
  /** `DPoP`: bound to the client's key. */
  readonly token_type: "Bearer" | "DPoP"
  /** Milliseconds since 1970, by this machine's clock. */
  readonly expires_at: number
}

/** A person has to sign in (again); a retry does not help. */
export class SignInRequired extends Data.TaggedError("SignInRequired")<{ readonly message: string }> {}

export interface Options<E> {
  /** The MCP endpoint, exactly as the server calls it. */
  readonly resource: string
  readonly client_id: string
  readonly redirect_uri: string
  /** Empty: the server's default. */
  readonly scopes: ReadonlyArray<string>
  /** The client's own key, the same at every call: in a store that does not hand it out, where there is one. */
  readonly keys?: Effect.Effect<KeyPair, E> | undefined
  readonly browser: (authorize: URL) => Effect.Effect<URL, E>
  readonly storage: {
    readonly load: Effect.Effect<Option.Option<Tokens>, E>
    readonly save: (tokens: Option.Option<Tokens>) => Effect.Effect<void, E>
  }
  /** An access token that expires sooner than this is refreshed first. */
  readonly leeway: Duration.Duration
}

export const make = Effect.fnUntraced(function* <E>(options: Options<E>) {
  const http = yield* HttpClient.HttpClient
  const lock = yield* Semaphore.make(1)

  // Failures are not cached: the next caller discovers again.
  let known: ServerMetadata | undefined
  const server = Effect.suspend(() =>
    known === undefined
      ? Effect.tap(discover(http, options.resource), (found) => Effect.sync(() => (known = found)))
      : Effect.succeed(known)
  )

  /** The client's key, if it has one and the server binds tokens to such keys. */
  const keys = Effect.gen(function* () {
    const { dpop_signing_alg_values_supported: algorithms = [] } = yield* server
    return options.keys !== undefined && algorithms.includes("EdDSA") ? yield* options.keys : undefined
  })

  /** Milliseconds that the server's clock is ahead of this machine's, as far as a refused proof has shown. */
  let ahead = 0
  const proofFor = Effect.fnUntraced(function* (
    keys: KeyPair,
    request: HttpClientRequest.HttpClientRequest,
    token?: Redacted.Redacted<string>
  ) {
    return yield* dpopProof(keys, request, token, (yield* Clock.currentTimeMillis) + ahead)
  })
  const correctClock = Effect.fnUntraced(function* ({ headers }: HttpClientResponse.HttpClientResponse) {
    const at = Date.parse(headers["date"] ?? "")
    if (!Number.isNaN(at)) ahead = at - (yield* Clock.currentTimeMillis)
  })

  const post = (url: string, fields: Readonly<Record<string, string>>, proof?: string) =>
    http
      .execute(
        HttpClientRequest.post(url, { headers: proof === undefined ? {} : { dpop: proof } }).pipe(
          HttpClientRequest.bodyUrlParams({ ...fields, client_id: options.client_id })
        )
      )
      .pipe(Effect.mapError(unreachable("The authorization server does not answer.")))

  const requestTokens = Effect.fnUntraced(function* (fields: Readonly<Record<string, string>>) {
    const { token_endpoint } = yield* server
    const own = yield* keys
    const sent = yield* Clock.currentTimeMillis
    const ask = Effect.gen(function* () {
      const proof = own === undefined ? undefined : yield* proofFor(own, HttpClientRequest.post(token_endpoint))
      const response = yield* post(token_endpoint, { ...fields, resource: options.resource }, proof)
      if (response.status === 200) return response
      yield* correctClock(response)
      return yield* refusal(response)
    })
    const response = yield* Effect.retry(ask, { while: isAboutProof, times: 1 })
    const answer = yield* response.json.pipe(
      Effect.flatMap(Schema.decodeUnknownEffect(TokenResponse)),
      Effect.mapError(unreachable("The authorization server did not answer with tokens."))
    )
    const tokens: Tokens = {
      access_token: Redacted.make(answer.access_token),
      refresh_token: answer.refresh_token === undefined ? undefined : Redacted.make(answer.refresh_token),
      scope: answer.scope ?? options.scopes.join(" "),
      token_type: own !== undefined && /^dpop$/i.test(answer.token_type) ? "DPoP" : "Bearer",
      expires_at: sent + answer.expires_in * 1000
    }
    yield* options.storage.save(Option.some(tokens))
    return tokens
  })

  const signIn = Effect.gen(function* () {
    const { authorization_endpoint, authorization_response_iss_parameter_supported, issuer } = yield* server
    const own = yield* keys
    const verifier = randomText()
    const state = randomText()
    const url = new URL(authorization_endpoint)
    for (const [name, value] of Object.entries({
      response_type: "code",
      client_id: options.client_id,
      redirect_uri: options.redirect_uri,
      code_challenge: sha256(verifier, "base64url"),
      code_challenge_method: "S256",
      state,
      resource: options.resource,
      ...(own !== undefined && { dpop_jkt: thumbprint(own) }),
      ...(options.scopes.length > 0 && { scope: options.scopes.join(" ") })
    })) {
      url.searchParams.set(name, value)
    }
    const callback = (yield* options.browser(url)).searchParams
    if (callback.getAll("state").join() !== state) return yield* mismatch("The callback belongs to another sign-in.")
    const iss = callback.getAll("iss")
    if (iss.length > 1 || (iss[0] ?? issuer) !== issuer)
      return yield* mismatch("The callback comes from another server.")
    if (authorization_response_iss_parameter_supported === true && iss.length === 0) {
      return yield* mismatch("The callback does not name its server.")
    }
    const error = callback.get("error")
    if (error !== null) {
      return yield* new OAuthRefused({ code: error, message: callback.get("error_description") ?? "" })
    }
    const [code, ...more] = callback.getAll("code")
    if (code === undefined || more.length > 0) return yield* mismatch("The callback carries no code.")
    return yield* requestTokens({
      grant_type: "authorization_code",
      code,
      code_verifier: verifier,
      redirect_uri: options.redirect_uri
    })
  }).pipe(lock.withPermit, Effect.withSpan("OAuthClient.signIn"))

  const refresh = Effect.fnUntraced(function* (refresh_token: Redacted.Redacted<string>) {
    const answer = yield* Effect.result(
      requestTokens({ grant_type: "refresh_token", refresh_token: Redacted.value(refresh_token) })
    )
    if (Result.isSuccess(answer)) return answer.success
    if (!(answer.failure instanceof OAuthRefused)) return yield* Effect.fail(answer.failure)
    const { code, message } = answer.failure
    // Any other error is about the request, not the token: keep the token.
    if (code !== "invalid_grant" && code !== "invalid_client") return yield* answer.failure
    yield* options.storage.save(Option.none())
    return yield* new SignInRequired({ message })
  })

  const current = Effect.gen(function* () {
    const kept = yield* options.storage.load
    if (Option.isNone(kept)) return yield* new SignInRequired({ message: "Nobody has signed in." })
    const { expires_at, refresh_token } = kept.value
    const now = yield* Clock.currentTimeMillis
    if (expires_at - now > Duration.toMillis(options.leeway)) return kept.value
    if (refresh_token === undefined) return yield* new SignInRequired({ message: "The sign-in has expired." })
    return yield* refresh(refresh_token)
  }).pipe(lock.withPermit, Effect.withSpan("OAuthClient.accessToken"))

  const accessToken = Effect.map(current, ({ access_token }) => access_token)

  /** Puts the current access token on a request, with a new proof if the token is bound to the client's key. */
  const authorize = Effect.gen(function* () {
    const { access_token, token_type } = yield* current
    const own = token_type === "DPoP" && options.keys !== undefined ? yield* options.keys : undefined
    return (request: HttpClientRequest.HttpClientRequest) =>
      own === undefined
        ? Effect.succeed(HttpClientRequest.bearerToken(request, access_token))
        : Effect.map(proofFor(own, request, access_token), (dpop) =>
            HttpClientRequest.setHeaders(request, { authorization: `DPoP ${Redacted.value(access_token)}`, dpop })
          )
  })

  /** Revokes the grant at the server, then deletes the tokens here, even if the server cannot be reached. */
  const signOut = Effect.gen(function* () {
    const kept = yield* options.storage.load
    if (Option.isNone(kept)) return
    const token = kept.value.refresh_token ?? kept.value.access_token
    yield* Effect.ignore(
      Effect.flatMap(server, ({ revocation_endpoint }) =>
        revocation_endpoint === undefined
          ? Effect.void
          : Effect.asVoid(post(revocation_endpoint, { token: Redacted.value(token) }))
      )
    )
    yield* options.storage.save(Option.none())
  }).pipe(lock.withPermit, Effect.withSpan("OAuthClient.signOut"))

  return { signIn, accessToken, authorize, signOut }
})

const isAboutProof = (error: unknown) => error instanceof OAuthRefused && error.code === "invalid_dpop_proof"

const randomText = () => randomBytes(32).toString("base64url")
