/** The caller's side of a command that runs elsewhere: what is sent, and where to. */
import { Data, Effect, Option } from "effect"
import type { Flags } from "../../../src/operator/Commands.ts"
import { onlyProject, pathFlags } from "../Flags.ts"
import { HeldServices } from "../services/HeldServices.ts"
import { flagsOf } from "./flags.ts"
import type { RemoteUse } from "./RemoteUse.ts"
import { type Target, target } from "./Target.ts"
import { targetFlagNames } from "./targetFlagNames.ts"

class CommandIsLocal extends Data.TaggedError("OperatorCommandIsLocal")<{ readonly message: string }> {}

/** Undefined: the command runs here. */
export const remoteTarget = Effect.fnUntraced(function* (name: string, use: RemoteUse | undefined) {
  if ((yield* HeldServices) !== undefined) return undefined
  const found = yield* target
  if (found !== undefined && use === undefined)
    return yield* new CommandIsLocal({
      message: `${name} runs only where the database is: use it there, without --service and --profile.`
    })
  return found
})

/** Flags that the caller adds, or with undefined leaves out. */
export type More = Readonly<Record<string, Flags[string] | undefined>>

/** Sends the flags as they were typed, with the default project, and without those for this machine. */
export const sender = (target: Target, name: string, parsed: object) => (more: More) =>
  Effect.flatMap(
    Effect.promise(() => import("./call.ts")),
    ({ call }) => call(target, name, { ...kept(typed(name)), ...idOf(parsed), ...projectOf(target, parsed), ...more })
  )

const typed = (name: string) => flagsOf(process.argv.slice(process.argv.indexOf(name, 2) + 1))

const here = [...targetFlagNames, "json", "log-level"]

const kept = (flags: Flags) =>
  Object.fromEntries(Object.entries(flags).filter(([flag]) => !here.includes(flag) && !pathFlags.has(flag)))

/** Of what the command makes; the caller makes it, if nobody typed one. */
const idOf = (parsed: object): Flags => ("id" in parsed && typeof parsed.id === "string" ? { id: parsed.id } : {})

/** The project that was typed, or of SERVICE_PROJECT, or of the profile. Without one, the service takes its only one. */
const projectOf = (target: Target, parsed: object): Flags => {
  const { project } = parsed as { readonly project?: string | Option.Option<string> }
  const given = Option.isOption(project) ? Option.getOrUndefined(project) : project
  const used = given === onlyProject ? target.project : given
  return used === undefined ? {} : { project: used }
}
