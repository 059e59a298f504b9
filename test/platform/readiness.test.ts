/** `/readyz` answers within two seconds (decisions.md, Liveness and readiness). */
import { HttpRouter, HttpServer } from "effect/http"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { HealthHttp } from "../../src/platform/edge/Health.ts"

/** As on a connection that went silent: its statements never answer, and their interruption waits for them. */
const makeSilent = () => {
  let asked = 0
  const statement = () =>
    Effect.suspend(() => {
      asked += 1
      return Effect.uninterruptible(Effect.never)
    })
  return { sql: statement as unknown as SqlClient.SqlClient, asked: () => asked }
}

it("/readyz answers within two seconds though a statement cannot even be interrupted, and asks no second one", async () => {
  const { asked, sql } = makeSilent()
  const { dispose, handler } = HttpRouter.toWebHandler(
    HealthHttp.pipe(
      Layer.provide(Layer.succeed(SqlClient.SqlClient, sql)),
      Layer.provideMerge(HttpServer.layerServices)
    ),
    { disableLogger: true }
  )
  const ready = async () => {
    const started = performance.now()
    const { status } = await handler(new Request("http://localhost/readyz"))
    return [status, performance.now() - started < 2500]
  }
  assert.deepStrictEqual(await ready(), [503, true])
  await new Promise((resolve) => setTimeout(resolve, 1100))
  assert.deepStrictEqual(await ready(), [503, true])
  assert.strictEqual(asked(), 1)
  void dispose()
})
