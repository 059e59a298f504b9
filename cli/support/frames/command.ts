/** A command of `service-admin`: the frame, with flags whose ids are whole, or sent to a service elsewhere. */
import { Effect } from "effect"
import type { Command } from "effect/cli"
import { frame, type Parts, type RemoteFailure } from "./frame.ts"
import { type More, remoteTarget, sender } from "../remote/remotely.ts"
import { localCommands } from "../remote/RemoteUse.ts"
import { withWholeIds } from "../wholeIds.ts"

export { using, usingUnmigrated } from "../services/using.ts"

export const command = <const Name extends string, const Flags extends Command.Command.Config, A extends object, E>(
  name: Name,
  parts: Parts<Flags, A, E>
) => {
  if (parts.remote === undefined) localCommands.add(name)
  return frame(
    name,
    parts,
    Effect.fnUntraced(function* (flags: Command.Command.Config.Infer<Flags>, asJson: boolean) {
      const target = yield* remoteTarget(name, parts.remote)
      if (target === undefined) return yield* parts.run(yield* withWholeIds(flags), asJson)
      const ask = sender(target, name, flags as object)
      const send = (more: More) => Effect.map(ask(more), unwrapped)
      const remotely: Effect.Effect<unknown, RemoteFailure> =
        parts.remotely === undefined ? send({}) : parts.remotely(flags, send, asJson)
      return (yield* remotely) as A
    })
  )
}

/** A result that is an array crosses the wire as `{"items": [...]}` (terminal/Print.ts). */
const unwrapped = (answer: unknown) => {
  const { items, ...rest } = answer as { readonly items?: unknown }
  return Array.isArray(items) && Object.keys(rest).length === 0 ? items : answer
}
