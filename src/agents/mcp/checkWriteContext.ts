/**
 * Checks the write_context of a mutation (spec 4.11): the client must name this service, this instance and the project
 * of its credential.
 *
 * The check authorizes nothing; the credential alone decides which project is written. It stops a client that is
 * connected to another service or project than it believes, before its other arguments are read, and writes an audit
 * event (spec 6.2). The JSON text of a write_context counts as what it says.
 */
import { Effect } from "effect"
import type { Audit } from "../../platform/audit/Audit.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { fromJson } from "./calls/AsWritten.ts"
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
  const fault = faultOf(expected, fromJson(given, isObject) ?? given)
  if (fault === undefined) return
  const code = given === undefined || given === null ? "write_context_required" : "write_context_mismatch"
  const event = {
    action: "mcp.write",
    code,
    project_id: actor.project_id,
    actor: actorName(actor),
    subject: { tool, credential_id: actor.credential_id }
  }
  yield* persistence(audit.refused(now, event))
  return yield* code === "write_context_required"
    ? refuse(code)
    : withDetails(refuse(code), { reason: fault }, `${fault}; copy write_context whole from server_identity.`)
})

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Which of its parts is not as expected, without repeating what was sent. */
const faultOf = (expected: WriteContext, given: unknown) => {
  if (!isObject(given)) return "write_context is not an object"
  for (const [name, value] of Object.entries(expected)) {
    if (!Object.hasOwn(given, name)) return `write_context lacks ${name}`
    if (Reflect.get(given, name) !== value) return `${name} is another than that of this credential`
  }
  return Object.keys(given).length === Object.keys(expected).length
    ? undefined
    : `write_context has more than ${Object.keys(expected).join(", ")}`
}
