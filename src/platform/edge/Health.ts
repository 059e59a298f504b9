/** Liveness and readiness. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { refuse } from "../../wire/Errors.ts"
import { answer } from "../../wire/Refusal.ts"
import { review } from "../database/Migrations.ts"
import { onlyMethods } from "./Methods.ts"

const ok = HttpServerResponse.jsonUnsafe({ status: "ok" }, { headers: { "cache-control": "no-store" } })

/** The process answers, without a query to the database (spec 4.9). */
const healthz = HttpRouter.add("GET", "/healthz", Effect.succeed(ok))

/** The process can serve: the database answers and has every migration (decisions.md, Liveness and readiness). */
const readyz = HttpRouter.use((router) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    // Requests within a second share one outcome, and one review runs at a time, so a flood costs the database nothing.
    const ready = yield* review().pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
      Effect.map(({ pending }) => pending.length === 0),
      Effect.timeout("2 seconds"),
      Effect.catchCause(() => Effect.succeed(false)),
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
