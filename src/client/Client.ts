/**
 * The service as a Bridge calls it: the typed client of Api.ts, with a time limit, retries and the service's clock.
 *
 * A request is repeated with the same Idempotency-Key when it had no answer, or one that may pass by itself (Codes.ts),
 * after a pause that doubles and of which a random part is taken, so that a fleet does not return all at once. Every
 * other refusal is the caller's to handle.
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
import { Api } from "../wire/Api.ts"
import { CreateChallenge, Prove } from "../wire/bridges/EnrollmentApi.ts"
import { RotationRequest } from "../wire/bridges/RotationApi.ts"
import { Refusal } from "../wire/Refusal.ts"
import { reactionTo } from "../wire/bridges/Reactions.ts"
import { ServiceUnreachable } from "./Errors.ts"

type Token = Redacted.Redacted<string>

/** `at`: the service's clock when it answered, in whole seconds (the Date header). */
export interface Answered<A> {
  readonly body: A
  readonly at: Date
}

/** How long one request is repeated before its last failure is the answer. */
export const Patience = Context.Reference<Duration.Duration>("bridge-service/client/Patience", {
  defaultValue: () => Duration.seconds(30)
})

/** Where a request goes and who sends it. */
const To = Context.Reference<{ readonly base_url: string; readonly bearer?: Token | undefined }>(
  "bridge-service/client/To",
  { defaultValue: () => ({ base_url: "" }) }
)

const make = Effect.gen(function* () {
  const api = yield* HttpApiClient.make(Api, {
    transformClient: HttpClient.mapRequestEffect((request) =>
      Effect.map(To, ({ base_url, bearer }) => {
        const addressed = HttpClientRequest.prependUrl(request, base_url)
        return bearer === undefined ? addressed : HttpClientRequest.bearerToken(addressed, bearer)
      })
    )
  })
  const responseMode = "decoded-and-response" as const
  const keyed = (key: string) => ({ headers: { "idempotency-key": key }, responseMode })

  return {
    createChallenge: (base_url: string, credential: Token, asked: typeof CreateChallenge.Type, key: string) =>
      exchange(
        { base_url, bearer: credential },
        api.enrollment.createChallenge({ ...keyed(key), payload: asked })
      ).pipe(Effect.map(unwrapped)),
    prove: (base_url: string, asked: typeof Prove.Type, key: string) =>
      exchange({ base_url }, api.enrollment.prove({ ...keyed(key), payload: asked })).pipe(Effect.map(unwrapped)),
    prepare: (base_url: string, token: Token, key: string) =>
      exchange({ base_url, bearer: token }, api.rotation.prepare(keyed(key))).pipe(Effect.map(unwrapped)),
    confirm: (base_url: string, successor: Token, rotation_id: string, key: string) =>
      exchange(
        { base_url, bearer: successor },
        api.rotation.confirm({ ...keyed(key), payload: new RotationRequest({ rotation_id }) })
      ).pipe(Effect.map(unwrapped)),
    abort: (base_url: string, successor: Token, rotation_id: string, key: string) =>
      exchange(
        { base_url, bearer: successor },
        api.rotation.abort({ ...keyed(key), payload: new RotationRequest({ rotation_id }) })
      ).pipe(Effect.map(unwrapped)),
    revoke: (base_url: string, token: Token) =>
      exchange({ base_url, bearer: token }, api.rotation.revoke({ responseMode })),
    self: (base_url: string, token: Token) => exchange({ base_url, bearer: token }, api.rotation.self({ responseMode }))
  }
})

export class Client extends Context.Service<Client, Effect.Success<typeof make>>()("bridge-service/client/Client") {
  static readonly layer = Layer.effect(Client, make)
  static readonly layerFetch = Client.layer.pipe(Layer.provide(FetchHttpClient.layer))
}

const exchange = <A, E>(
  to: typeof To.Service,
  request: Effect.Effect<readonly [A, HttpClientResponse.HttpClientResponse], E | Unanswered>
) => {
  const once = request.pipe(Effect.timeout("10 seconds"), Effect.mapError(failureOf<E>))
  return Effect.flatMap(Patience, (patience) =>
    Effect.retry(once, { while: isPassing, schedule: pauses(patience) })
  ).pipe(
    Effect.flatMap(([body, { headers }]) =>
      // An answer without Date counts from when it arrived (RFC 9110 6.6.1).
      Effect.map(Clock.currentTimeMillis, (arrived): Answered<A> => ({
        body,
        at: new Date(headers["date"] ?? arrived)
      }))
    ),
    Effect.provideService(To, to),
    // A redirect could carry a credential elsewhere.
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" })
  )
}

const unwrapped = <A>({ at, body }: Answered<{ readonly body: A }>): Answered<A> => ({ at, body: body.body })

type Unanswered = HttpClientError.HttpClientError | Schema.SchemaError
type Failure<E> = Extract<E, Refusal> | ServiceUnreachable

const failureOf = <E>(error: E | Unanswered | Cause.TimeoutError): Failure<E> =>
  error instanceof Refusal ? (error as Extract<E, Refusal>) : unreachable(error as Unanswered | Cause.TimeoutError)

const unreachable = (error: Unanswered | Cause.TimeoutError) => {
  if (error._tag === "TimeoutError") {
    return new ServiceUnreachable({ message: "The service did not answer within 10 seconds.", passing: true })
  }
  if (error._tag === "SchemaError") {
    return new ServiceUnreachable({ message: "The answer is not of this protocol.", passing: false })
  }
  const status = error.response?.status
  if (status === undefined) return new ServiceUnreachable({ message: "The service did not answer.", passing: true })
  return new ServiceUnreachable({
    message: `The answer (status ${status}) is not of this protocol.`,
    passing: status >= 500 || status === 408 || status === 429
  })
}

/** Whether the same request may fare better by itself. */
export const isPassing = (error: ServiceUnreachable | Refusal): boolean =>
  error instanceof ServiceUnreachable ? error.passing : reactionTo(error) === "retry"

/** A random part of a pause that doubles up to 20 s, and never less than the service asks for. */
export const pauses = (patience: Duration.Duration) =>
  Schedule.exponential("200 millis").pipe(
    Schedule.upTo({ duration: patience }),
    Schedule.modifyDelay(({ duration, input }) =>
      Effect.map(Random.next, (part) =>
        Duration.millis(part * Math.min(Duration.toMillis(duration), 20_000) + secondsAsked(input) * 1000)
      )
    )
  )

const secondsAsked = (failure: unknown) => Math.min((failure instanceof Refusal && failure.retryAfter) || 0, 600)
