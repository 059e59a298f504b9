/**
 * `POST /operator/v1/commands/{name}`: runs a command of `service-admin` for an operator elsewhere (decisions.md, Operators
 * from elsewhere). The body holds the command's flags, the answer is what it prints with --json.
 *
 * It is a plain route, because shape and codes of an answer are those of the command.
 */
import { Duration, Effect, Exit, Layer, Option, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Commands } from "../../operator/Commands.ts"
import { refuse } from "../../operator/tokens/Errors.ts"
import { OperatorTokens, type RemoteOperator } from "../../operator/tokens/OperatorTokens.ts"
import { CurrentShare, Shares } from "../../platform/database/Shares.ts"
import { Attempts, keyOf, type Outcome } from "../../platform/edge/limits/Attempts.ts"
import { credentialOf } from "../../platform/edge/BearerCredential.ts"
import { isTooLarge } from "../../platform/edge/Form.ts"
import { onlyMethods } from "../../platform/edge/routes/Methods.ts"
import { RateLimit } from "../../platform/edge/limits/RateLimit.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { answer, Refusal } from "../../wire/Refusal.ts"

export const commandPath = "/operator/v1/commands/:name"

const rate = { perSecond: 5, burst: 100 }
/** Of one process. A command holds at most a page of a list in memory. */
const atOnce = 4
const longest = Duration.seconds(60)

const Body = Schema.Record(
  Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9-]{0,40}$/)),
  Schema.Union([Schema.String, Schema.Finite, Schema.Boolean, Schema.Array(Schema.String)])
)

export const CommandsHttp = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const commands = yield* Commands
    const operators = yield* OperatorTokens
    const attempts = yield* Attempts
    const limits = yield* RateLimit
    const shares = yield* Shares
    const perCredential = limits.buckets(rate)
    let running = 0

    const authenticated = Effect.fnUntraced(function* ({ headers }: HttpServerRequest.HttpServerRequest) {
      const credential = Option.getOrUndefined(credentialOf(headers["authorization"]))
      if (credential === undefined) return yield* refuse("unauthorized")
      const authenticate: Effect.Effect<RemoteOperator, Refusal> = operators.authenticate(credential)
      const found = yield* attempts.attempt({ credential, perCredential, outcomeOf, limited }, authenticate)
      return { ...found, credential }
    })

    const run = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const { actor, credential, scopes } = yield* authenticated(request)
      const { name = "" } = yield* HttpRouter.params
      const command = commands.find(name)
      if (command === undefined) return yield* refuse("operator_command_not_found")
      if (command === "local") return yield* refuse("operator_command_is_local")
      if (!scopes.has(command.scope)) return yield* refuse("insufficient_scope")
      const flags = yield* flagsOf(request)
      if (running >= atOnce) return yield* refuse("rate_limited", 1)
      running++
      const result = yield* command.run(flags).pipe(
        Effect.provideService(CurrentOperator, actor),
        Effect.provideService(CurrentShare, shares.known(keyOf(credential))),
        Effect.timeoutOrElse({
          duration: longest,
          orElse: () => Effect.fail<Refusal>(refuse("bridge_persistence_error"))
        }),
        Effect.ensuring(Effect.sync(() => running--))
      )
      return HttpServerResponse.text(result, {
        contentType: "application/json",
        headers: { "cache-control": "no-store" }
      })
    })

    yield* router.add("POST", commandPath, (request) =>
      run(request).pipe(
        Effect.catch((error) => (error instanceof Refusal ? Effect.succeed(answer(error)) : Effect.die(error)))
      )
    )
  })
).pipe((route) => Layer.merge(route, onlyMethods(commandPath, ["POST"])))

const outcomeOf = (exit: Exit.Exit<unknown, Refusal>): Outcome => {
  if (Exit.isSuccess(exit)) return "accepted"
  return Option.exists(Exit.findErrorOption(exit), ({ _tag }) => _tag === "unauthorized") ? "rejected" : "undecided"
}

const limited = (seconds: number) => Effect.fail(refuse("rate_limited", seconds))

const flagsOf = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? ""))
    return yield* refuse("unsupported_media_type")
  const body = yield* Effect.mapError(request.json, (error) =>
    refuse(isTooLarge(error) ? "payload_too_large" : "invalid_request")
  )
  return yield* Effect.mapError(Schema.decodeUnknownEffect(Body)(body, { onExcessProperty: "error" }), () =>
    refuse("invalid_request")
  )
})
