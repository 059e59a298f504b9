/**
 * The typed client of wire/Api.ts with a time limit, retries and the service's clock.
 *
 * A request is retried with the same Idempotency-Key after no answer or a refusal with the reaction `retry`. Pauses grow
 * exponentially with full jitter, so that a fleet does not come back all at once. The caller handles all other refusals.
 *
 * Every request with a Bridge token carries a DPoP proof of its own, retries too. If the service refuses the proof, the
 * clock is corrected by `Date` and the request is repeated once: a wrong clock of this machine strands no Bridge.
 */
import {
  type Cause,
  Clock,
  Context,
  Duration,
  Effect,
  Layer,
  Random,
  type Redacted,
  Ref,
  Schedule,
  type Schema
} from "effect"
import {
  FetchHttpClient,
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
  type HttpClientResponse
} from "effect/http"
import { HttpApiClient } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { CreateChallenge, Prove } from "../../wire/bridges/EnrollmentApi.ts"
import { AbortKey, type ConfirmKey, PrepareKey } from "../../wire/bridges/KeysApi.ts"
import { RotationRequest } from "../../wire/bridges/RotationApi.ts"
import { Refusal } from "../../wire/Refusal.ts"
import { reactionTo } from "../../wire/bridges/Reactions.ts"
import type { KeyPair } from "../Crypto.ts"
import { dpopProof } from "../Dpop.ts"
import { ServiceUnreachable } from "../Errors.ts"
import { Journal } from "./Journal.ts"

type Token = Redacted.Redacted<string>

/** `at`: the service's clock when it answered, in whole seconds (the Date header). */
export interface Answered<A> {
  readonly body: A
  readonly at: Date
}

/** How long a request is retried before it fails with its last failure. */
export const Patience = Context.Reference<Duration.Duration>("bridge-service/client/Patience", {
  defaultValue: () => Duration.seconds(30)
})

/** The service that a request goes to, its bearer token, and the key that proves who holds the token. */
interface Target {
  readonly base_url: string
  readonly bearer?: Token
  readonly keys?: KeyPair
}
const Target = Context.Reference<Target>("bridge-service/client/Target", { defaultValue: () => ({ base_url: "" }) })

const make = Effect.gen(function* () {
  const journal = yield* Journal
  /** Milliseconds that the service's clock is ahead of this machine's, as far as a refused proof has shown. */
  const ahead = yield* Ref.make(0)

  const addressed = Effect.fnUntraced(function* (request: HttpClientRequest.HttpClientRequest) {
    const { base_url, bearer, keys } = yield* Target
    const sent = HttpClientRequest.prependUrl(request, base_url)
    if (bearer === undefined) return sent
    const authorized = HttpClientRequest.bearerToken(sent, bearer)
    if (keys === undefined) return authorized
    const at = (yield* Clock.currentTimeMillis) + (yield* Ref.get(ahead))
    return HttpClientRequest.setHeader(authorized, "dpop", yield* dpopProof(keys, sent, bearer, at))
  })

  const correctClock = Effect.fnUntraced(function* ({ headers }: HttpClientResponse.HttpClientResponse) {
    const at = Date.parse(headers["date"] ?? "")
    if (!(headers["www-authenticate"] ?? "").startsWith("DPoP") || Number.isNaN(at)) return
    yield* Ref.set(ahead, at - (yield* Clock.currentTimeMillis))
  })

  const api = yield* HttpApiClient.make(Api, {
    transformClient: (client) => client.pipe(HttpClient.mapRequestEffect(addressed), HttpClient.tap(correctClock))
  })

  /** An exchange with a token, proved by the given key, or by the one of the folder. */
  const proven = <A, E>(base_url: string, bearer: Token, request: Request<A, E>, given?: KeyPair) =>
    Effect.flatMap(given === undefined ? journal.keys : Effect.succeed(given), (keys) =>
      exchange({ base_url, bearer, keys }, request)
    )

  const responseMode = "decoded-and-response" as const
  const keyed = (key: string) => ({ headers: { "idempotency-key": key }, responseMode })

  return {
    createChallenge: (base_url: string, credential: Token, payload: typeof CreateChallenge.Type, key: string) =>
      exchange({ base_url, bearer: credential }, api.enrollment.createChallenge({ ...keyed(key), payload })).pipe(
        Effect.map(unwrapped)
      ),
    prove: (base_url: string, payload: typeof Prove.Type, key: string) =>
      exchange({ base_url }, api.enrollment.prove({ ...keyed(key), payload })).pipe(Effect.map(unwrapped)),
    prepare: (base_url: string, token: Token, key: string) =>
      proven(base_url, token, api.rotation.prepare(keyed(key))).pipe(Effect.map(unwrapped)),
    confirm: (base_url: string, successor: Token, rotation_id: string, key: string) =>
      proven(
        base_url,
        successor,
        api.rotation.confirm({ ...keyed(key), payload: new RotationRequest({ rotation_id }) })
      ).pipe(Effect.map(unwrapped)),
    abort: (base_url: string, successor: Token, rotation_id: string, key: string) =>
      proven(
        base_url,
        successor,
        api.rotation.abort({ ...keyed(key), payload: new RotationRequest({ rotation_id }) })
      ).pipe(Effect.map(unwrapped)),
    revoke: (base_url: string, token: Token) =>
      proven(base_url, token, api.rotation.revoke({ headers: {}, responseMode })),
    self: (base_url: string, token: Token, keys?: KeyPair) =>
      proven(base_url, token, api.rotation.self({ headers: {}, responseMode }), keys),
    prepareKey: (base_url: string, token: Token, public_key_fingerprint: string, key: string) =>
      proven(
        base_url,
        token,
        api.keys.prepareKey({ ...keyed(key), payload: new PrepareKey({ public_key_fingerprint }) })
      ).pipe(Effect.map(unwrapped)),
    confirmKey: (base_url: string, token: Token, payload: typeof ConfirmKey.Type, key: string) =>
      proven(base_url, token, api.keys.confirmKey({ ...keyed(key), payload })).pipe(Effect.map(unwrapped)),
    abortKey: (base_url: string, token: Token, key_rotation_id: string, key: string) =>
      proven(base_url, token, api.keys.abortKey({ ...keyed(key), payload: new AbortKey({ key_rotation_id }) })).pipe(
        Effect.map(unwrapped)
      )
  }
})

export class Client extends Context.Service<Client, Effect.Success<typeof make>>()("bridge-service/client/Client") {
  static readonly layer = Layer.effect(Client, make)
  static readonly layerFetch = Client.layer.pipe(Layer.provide(FetchHttpClient.layer))
}

type Request<A, E> = Effect.Effect<readonly [A, HttpClientResponse.HttpClientResponse], E | TransportError>

const exchange = <A, E>(target: Target, request: Request<A, E>) => {
  const once = request.pipe(
    Effect.timeout("10 seconds"),
    Effect.mapError(failureOf<E>),
    Effect.retry({ while: (failure) => reactionTo(failure) === "prove", times: 1 })
  )
  return Effect.flatMap(Patience, (patience) =>
    Effect.retry(once, { while: isTransient, schedule: pauses(patience) })
  ).pipe(
    Effect.flatMap(([body, { headers }]) =>
      // An answer without a Date header is dated by its arrival (RFC 9110 6.6.1).
      Effect.map(Clock.currentTimeMillis, (arrived): Answered<A> => ({
        body,
        at: new Date(headers["date"] ?? arrived)
      }))
    ),
    Effect.provideService(Target, target),
    // Following a redirect could send the credential to another host.
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" })
  )
}

const unwrapped = <A>({ at, body }: Answered<{ readonly body: A }>): Answered<A> => ({ at, body: body.body })

type TransportError = HttpClientError.HttpClientError | Schema.SchemaError
type Failure<E> = Extract<E, Refusal> | ServiceUnreachable

const failureOf = <E>(error: E | TransportError | Cause.TimeoutError): Failure<E> =>
  error instanceof Refusal ? (error as Extract<E, Refusal>) : unreachable(error as TransportError | Cause.TimeoutError)

const unreachable = (error: TransportError | Cause.TimeoutError) => {
  if (error._tag === "TimeoutError") {
    return new ServiceUnreachable({ message: "The service did not answer within 10 seconds.", transient: true })
  }
  if (error._tag === "SchemaError") {
    return new ServiceUnreachable({ message: "The answer does not follow the Bridge protocol.", transient: false })
  }
  const status = error.response?.status
  if (status === undefined) return new ServiceUnreachable({ message: "The service did not answer.", transient: true })
  return new ServiceUnreachable({
    message: `The answer (status ${status}) does not follow the Bridge protocol.`,
    transient: status >= 500 || status === 408 || status === 429
  })
}

/** Whether a retry of the same request may succeed. */
export const isTransient = (error: ServiceUnreachable | Refusal): boolean =>
  error instanceof ServiceUnreachable ? error.transient : reactionTo(error) === "retry"

/** A random part of a pause that doubles up to 20 s, plus what Retry-After asks for, at most 10 minutes. */
export const pauses = (patience: Duration.Duration) =>
  Schedule.exponential("200 millis").pipe(
    Schedule.upTo({ duration: patience }),
    Schedule.modifyDelay(({ duration, input }) =>
      Effect.map(Random.next, (share) =>
        Duration.millis(share * Math.min(Duration.toMillis(duration), 20_000) + retryAfterSeconds(input) * 1000)
      )
    )
  )

const retryAfterSeconds = (failure: unknown) => Math.min((failure instanceof Refusal && failure.retryAfter) || 0, 600)
