/** Liveness and readiness. */
import { Effect, Fiber, Layer, Option, Semaphore } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { refuse } from "../../../wire/Errors.ts"
import { answer } from "../../../wire/Refusal.ts"
import { review } from "../../database/Migrations.ts"
import { onlyMethods } from "./Methods.ts"

const ok = HttpServerResponse.jsonUnsafe({ status: "ok" }, { headers: { "cache-control": "no-store" } })

/** The process answers, without a query to the database (spec 4.9). */
const healthz = HttpRouter.add("GET", "/healthz", Effect.succeed(ok))

/** The process can serve: the database answers, and its schema suits (decisions.md, Liveness and readiness). */
const readyz = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const oneAtATime = yield* Semaphore.make(1)
    const reviewed = review().pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.map(({ pending, works }) => works && pending.length === 0),
      oneAtATime.withPermitsIfAvailable(1),
      Effect.map(Option.getOrElse(() => false)),
      Effect.catchCause(() => Effect.succeed(false))
    )
    // In a fiber of its own: on a silent connection the interruption would wait for the connection, and the answer with
    // it. Requests within a second share one outcome, and one review runs at a time: a flood costs the database nothing.
    const ready = yield* Effect.forkDetach(reviewed).pipe(
      Effect.flatMap((review) =>
        Fiber.join(review).pipe(
          Effect.timeoutOrElse({
            duration: "2 seconds",
            orElse: () => Effect.as(Effect.forkDetach(Fiber.interrupt(review)), false)
          })
        )
      ),
      Effect.cachedWithTTL("1 second")
    )
    yield* router.add(
      "GET",
      "/readyz",
      Effect.map(ready, (is) => (is ? ok : answer(refuse("bridge_persistence_error", 1))))
    )
  })
)

export const HealthHttp = Layer.mergeAll(
  healthz,
  readyz,
  onlyMethods("/healthz", ["GET"]),
  onlyMethods("/readyz", ["GET"])
)
