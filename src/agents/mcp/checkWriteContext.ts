/**
 * Checks the write_context of a mutation (spec 4.11): the client must name this service, this instance and the project
 * of its credential.
 *
 * The check authorizes nothing; the credential alone decides which project is written. It stops a client that is
 * connected to another service or project than it believes, before its other arguments are read, and writes an audit
 * event (spec 6.2).
 */
import { Effect } from "effect"
import type { Audit } from "../../platform/audit/Audit.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { refuse } from "./Errors.ts"
import type { WriteContext } from "./Shapes.ts"

export const writeContextOf = (resource: string, { instance_id, project_id }: Actor): WriteContext => ({
  resource,
  instance_id,
  project_id
})

export const checkWriteContext = Effect.fnUntraced(function* (
  audit: Audit["Service"],
  now: Date,
  { actor, resource, tool }: { readonly actor: Actor; readonly resource: string; readonly tool: string },
  given: unknown
) {
  const expected = writeContextOf(resource, actor)
  if (isExactly(expected, given)) return
  const code = given === undefined || given === null ? "write_context_required" : "write_context_mismatch"
  const event = {
    action: "mcp.write",
    code,
    project_id: actor.project_id,
    actor: actorName(actor),
    subject: { tool, credential_id: actor.credential_id }
  }
  yield* persistence(audit.refused(now, event))
  return yield* refuse(code)
})

const isExactly = (expected: WriteContext, given: unknown) =>
  typeof given === "object" &&
  given !== null &&
  Object.keys(given).length === Object.keys(expected).length &&
  Object.entries(expected).every(([name, value]) => Object.hasOwn(given, name) && Reflect.get(given, name) === value)
