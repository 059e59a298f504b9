/** One line per tool: from its input to the noun that does it. */
import { Context, Effect, Layer } from "effect"
import { Settings } from "../../platform/settings/Settings.ts"
import { Memory } from "../memory/Memory.ts"
import { Snapshot } from "../handover/Snapshot.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { Documents } from "../documents/Documents.ts"
import type { Actor } from "../../wire/Actor.ts"
import type { Refusal } from "../../wire/Refusal.ts"
import type { ServerIdentity, ToolName, Tools } from "./Tools.ts"
import { writeContextOf } from "./WriteContext.ts"

type Handlers = {
  readonly [Name in ToolName]: (
    actor: Actor,
    input: Tools[Name]["input"]["Type"]
  ) => Effect.Effect<Tools[Name]["output"]["Type"], Refusal>
}

export class ToolHandlers extends Context.Service<ToolHandlers, Handlers>()("service/mcp/ToolHandlers") {
  static readonly layer = Layer.effect(
    ToolHandlers,
    Effect.gen(function* () {
      const memory = yield* Memory
      const tasks = yield* Tasks
      const snapshot = yield* Snapshot
      const documents = yield* Documents
      const { identity, resource } = yield* Settings

      const serverIdentity = (actor: Actor): ServerIdentity => ({
        resource,
        instance_id: actor.instance_id,
        ...identity,
        project: { id: actor.project_id, name: actor.project_name },
        role: actor.role,
        scopes: [...actor.scopes],
        write_context: writeContextOf(resource, actor)
      })

      return {
        server_identity: (actor) => Effect.succeed(serverIdentity(actor)),
        continuity_context: (actor, { max_bytes }) => snapshot.take(actor, max_bytes),
        memory_add: (actor, input) =>
          Effect.map(memory.add(actor, input), ({ answer, replayed }) => ({ entry: answer, replayed })),
        memory_get: (actor, { id }) => Effect.map(memory.get(actor, id), (entry) => ({ entry })),
        memory_search: (actor, input) => memory.search(actor, input),
        task_create: (actor, input) =>
          Effect.map(tasks.create(actor, input), ({ answer, replayed }) => ({ task: answer, replayed })),
        task_get: (actor, { id }) => tasks.get(actor, id),
        task_list: (actor, input) => tasks.list(actor, input),
        task_update: (actor, input) =>
          Effect.map(tasks.update(actor, input), ({ answer, replayed }) => ({ ...answer, replayed })),
        runtime_bootstrap_get: (actor) => Effect.map(documents.references(actor), (found) => ({ documents: found })),
        git_document_get: (actor, input) => documents.fragment(actor, input)
      }
    })
  )
}
