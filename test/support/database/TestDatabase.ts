/** A separate database for each scope, migrated or empty, dropped when the scope closes. */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { inject } from "vitest"

const database = (template: string) =>
  Effect.gen(function* () {
    const { host, port, username } = inject("cluster")
    const database = `test_${randomUUID().replaceAll("-", "")}`
    const admin = (statement: string) =>
      SqlClient.SqlClient.use((sql) => sql.unsafe(statement).unprepared).pipe(
        Effect.provide(PgClient.layer({ host, port, username, database: "postgres", maxConnections: 1 })),
        Effect.orDie
      )
    return yield* Effect.acquireRelease(
      // Copied as files: the other way writes every page to the WAL, and takes twice as long.
      Effect.as(admin(`create database ${database} template ${template} strategy file_copy`), {
        host,
        port,
        username,
        database
      }),
      () => admin(`drop database ${database} with (force)`)
    )
  })

/** The account of deploy/roles.sql that serves. Tests read and prepare rows as a superuser. */
export const servingAccount = "bridge_service"

/** The database's address, for tests that connect without the shared `SqlClient`. */
export class TestDatabase extends Context.Service<
  TestDatabase,
  { readonly host: string; readonly port: number; readonly username: string; readonly database: string }
>()("test/TestDatabase") {
  static readonly layer = Layer.effect(TestDatabase, database("template_migrated"))

  /** Connections of the test itself, for reading rows. */
  private static readonly connections = Layer.unwrap(
    Effect.map(TestDatabase, (address) => PgClient.layer({ ...address, maxConnections: 2 }))
  )
  static readonly sql = this.connections.pipe(Layer.provideMerge(TestDatabase.layer))

  /** The same on a database without tables. */
  static readonly emptySql = this.connections.pipe(
    Layer.provideMerge(Layer.effect(TestDatabase, database("template0")))
  )
}
