/**
 * Checks that the credential holds every scope of every tool that a request calls, or that reads its resource (spec 5.2).
 *
 * It runs before the SDK reads the body, because a missing scope is an HTTP 403 that names the scopes to request.
 */
import { Effect } from "effect"
import type { Access } from "../../signin/access/Access.ts"
import type { Actor } from "../../wire/Actor.ts"
import { calledTool, readUri } from "./Messages.ts"
import { readerOf } from "./Resources.ts"
import { toolFor } from "./Tools.ts"

export const checkScopes = Effect.fnUntraced(function* (
  access: Access["Service"],
  actor: Actor,
  messages: ReadonlyArray<unknown>
) {
  for (const name of messages.map((message) => calledTool(message) ?? readerOf(readUri(message) ?? "")?.[0])) {
    // The SDK answers a call of an unknown tool.
    const tool = name === undefined ? undefined : toolFor(actor.role, name)
    if (tool !== undefined) yield* access.require(actor, ...tool.needs)
  }
})
