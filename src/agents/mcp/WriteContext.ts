/**
 * The write_context of a mutation (spec 4.11): proof that the client means this service, this instance and this project.
 *
 * It authorizes nothing: the credential has decided already which project is written. A client that is wrong about where it
 * is is stopped before anything else of its call is read, and the audit log keeps that it was.
 */
import { Effect } from "effect"
import type { Audit } from "../../platform/audit/Audit.ts"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { refuse } from "./Errors.ts"

export const writeContextOf = (resource: string, { instance_id, project_id }: Actor) => ({
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
  yield* audit.refused(now, {
    action: "mcp.write",
    code,
    project_id: actor.project_id,
    actor: actorName(actor),
    subject: { tool, credential_id: actor.credential_id }
  })
  return yield* refuse(code)
})

const isExactly = (expected: Readonly<Record<string, string>>, given: unknown) =>
  typeof given === "object" &&
  given !== null &&
  Object.keys(given).length === Object.keys(expected).length &&
  Object.entries(expected).every(([name, value]) => Object.hasOwn(given, name) && Reflect.get(given, name) === value)
