/** The statements for the database in which a backup is tried: made beside the service's own, and dropped afterwards. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../sql/Rows.ts"

const Facts = Schema.Struct({
  mayCreate: Schema.Boolean,
  /** Of the service's own database, in bytes. */
  size: Schema.Number,
  /** For the scratch database; the same at every process, so that what a crash left is found and replaced. */
  name: Schema.String
})
export type Facts = typeof Facts.Type

export const make = (sql: SqlClient.SqlClient) => {
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
  return {
    facts: Effect.map(
      rows(Facts)(sql`
        select rolcreatedb or rolsuper as "mayCreate",
               pg_database_size(current_database())::float8 as size,
               'bridge_service_trial_' || d.oid as name
          from pg_roles, pg_database d
         where rolname = current_user
           and d.datname = current_database()`),
      ([found]) => found!
    ),
    create: (name: string) =>
      Effect.forEach(
        [
          `drop database if exists ${quoted(name)} with (force)`,
          `create database ${quoted(name)} template template0 encoding 'UTF8'`,
          // What is dropped again does not wait for the disk, and leaves it to the service.
          `alter database ${quoted(name)} set synchronous_commit to off`
        ],
        (statement) => sql.unsafe(statement),
        { discard: true }
      ),
    drop: (name: string) => sql.unsafe(`drop database if exists ${quoted(name)} with (force)`),

    /** Held until the transaction ends; at most one backup of a database is made or tried at a time. */
    lock: Effect.map(
      rows(Schema.Struct({ mine: Schema.Boolean }))(
        sql`select pg_try_advisory_xact_lock(hashtext('bridge-service backup'), 0) as mine`
      ),
      ([found]) => found?.mine === true
    ),
    alive: sql`select 1`
  }
}
