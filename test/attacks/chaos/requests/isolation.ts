/** 5,000 operations with ids of other projects are answered like unknown ids, and change nothing. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isolation } from "../../../support/attacks/Isolation.ts"
import { beside, chaos, scratch, seed, server, size } from "../harness.ts"

const count = size(5000, 200)

chaos(
  "isolation",
  () => ({}),
  Effect.gen(function* () {
    const folder = yield* scratch
    const settings = { SERVICE_APNS_TOPICS: "com.example.app" }
    const on = yield* beside(folder, yield* server(folder, settings), settings)
    const from = performance.now()
    const { operations, violations } = yield* isolation(on, { count, chunk: 250, folder, seed }).pipe(
      Effect.provideContext(Context.make(SqlClient.SqlClient, on.sql)),
      Effect.orDie
    )
    const seconds = (performance.now() - from) / 1000
    return { figures: { operations: count, kinds: operations, per_second: Math.round(count / seconds) }, violations }
  })
)
