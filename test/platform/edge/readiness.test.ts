/** `/readyz` answers within two seconds, and 200 only if no migration is missing (decisions.md, Liveness and readiness). */
import { HttpRouter, HttpServer } from "effect/http"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { shipped } from "../../../src/platform/database/Migrations.ts"
import { HealthHttp } from "../../../src/platform/edge/routes/Health.ts"

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

const readyzOf = (sql: SqlClient.SqlClient) =>
  HttpRouter.toWebHandler(
    HealthHttp.pipe(
      Layer.provide(Layer.succeed(SqlClient.SqlClient, sql)),
      Layer.provideMerge(HttpServer.layerServices)
    ),
    { disableLogger: true }
  )
const request = () => new Request("http://localhost/readyz")

it("/readyz answers within two seconds though a statement cannot even be interrupted, and asks no second one", async () => {
  const { asked, sql } = makeSilent()
  const { dispose, handler } = readyzOf(sql)
  const ready = async () => {
    const started = performance.now()
    const { status } = await handler(request())
    // By itself it would never answer.
    return [status, performance.now() - started < 10_000]
  }
  assert.deepStrictEqual(await ready(), [503, true])
  await new Promise((resolve) => setTimeout(resolve, 1100))
  assert.deepStrictEqual(await ready(), [503, true])
  assert.strictEqual(asked(), 1)
  void dispose()
})

const last = shipped.at(-1)!.id
it.each([
  ["has every migration", shipped, last, 200],
  ["lacks the last migration", shipped.slice(0, -1), last, 503],
  ["was never migrated", [], undefined, 503],
  ["requires a later release", shipped, last + 1, 503]
] as const)("/readyz of a database that %s", async (_, applied, required, expected) => {
  const ran = applied.map(({ checksum, id, name }) => ({ migration_id: id, name, checksum }))
  const answer = ([statement = ""]: ReadonlyArray<string>) => {
    if (statement.includes("to_regclass"))
      return Effect.succeed([{ begun: ran.length > 0, requires: required !== undefined }])
    return Effect.succeed(statement.includes("schema_requires()") ? [{ migration_id: required }] : ran)
  }
  const { dispose, handler } = readyzOf(answer as unknown as SqlClient.SqlClient)
  assert.strictEqual((await handler(request())).status, expected)
  await dispose()
})
