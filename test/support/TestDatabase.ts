/** A fresh migrated database of its own, dropped with the scope. */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { inject } from "vitest"

/** Where it is, for whoever connects to it by another way than the tests' own `SqlClient`. */
export class TestDatabase extends Context.Service<
  TestDatabase,
  { readonly host: string; readonly port: number; readonly username: string; readonly database: string }
>()("test/TestDatabase") {
  static readonly layer = Layer.effect(
    TestDatabase,
    Effect.gen(function* () {
      const cluster = inject("cluster")
      const database = `test_${randomUUID().replaceAll("-", "")}`
      const admin = (statement: string) =>
        SqlClient.SqlClient.use((sql) => sql.unsafe(statement).unprepared).pipe(
          Effect.provide(PgClient.layer({ ...cluster, database: "postgres", maxConnections: 1 })),
          Effect.orDie
        )
      yield* Effect.acquireRelease(admin(`create database ${database} template template_migrated`), () =>
        admin(`drop database ${database} with (force)`)
      )
      return { ...cluster, database }
    })
  )

  /** The tests' own connections, for looking at rows. */
  static readonly sql = Layer.unwrap(
    Effect.map(TestDatabase, (address) => PgClient.layer({ ...address, maxConnections: 2 }))
  ).pipe(Layer.provideMerge(TestDatabase.layer))
}
