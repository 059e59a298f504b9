/**
 * `--help`, alone or after the name of a command, from what the build prepared: printed without loading the commands, in a
 * third of the time. Every other way to ask for help, and a clone without a build, go through run.ts.
 */
import { helpOf } from "./support/help.ts"
import { prepared } from "./support/prepared.ts"

/** Whether it was printed. */
export const help = (program: string, args: ReadonlyArray<string>) => {
  const isAsked = args.length <= 2 && ["--help", "-h"].includes(args.at(-1) ?? "")
  const name = [program, ...args.slice(0, -1)].join(" ")
  if (!isAsked || !Object.hasOwn(prepared, name)) return false
  process.stdout.write(`${helpOf(prepared[name]!)}\n`)
  return true
}
