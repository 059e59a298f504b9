/** The output of `server_identity`, and the `write_context` that every mutation carries (spec 2.8, 4.11). */
import { Schema } from "effect"
import { Role, Scope } from "../../wire/Scopes.ts"

export const WriteContext = Schema.Struct({
  resource: Schema.String,
  instance_id: Schema.String,
  project_id: Schema.String
})
export type WriteContext = typeof WriteContext.Type

export const ServerIdentity = Schema.Struct({
  resource: Schema.String,
  instance_id: Schema.String,
  environment: Schema.String,
  service_revision: Schema.String,
  project: Schema.Struct({ id: Schema.String, name: Schema.String }),
  role: Role,
  scopes: Schema.Array(Scope),
  write_context: WriteContext
})
export type ServerIdentity = typeof ServerIdentity.Type

/** The input of a tool without parameters. Not an empty struct: that would accept any object. */
export const NoParameters = Schema.Record(Schema.String, Schema.Never)
