/** A command of `service-admin`: the frame, with flags whose ids are whole. */
import type { Command } from "effect/cli"
import { frame, type Parts } from "./frame.ts"
import { withWholeIds } from "./wholeIds.ts"

export { using, usingUnmigrated } from "./using.ts"

export const command = <const Name extends string, const Flags extends Command.Command.Config, A extends object, E>(
  name: Name,
  parts: Parts<Flags, A, E>
) => frame(name, parts, withWholeIds)
