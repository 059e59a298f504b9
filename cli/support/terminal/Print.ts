/** Output for people: the next command is spelled out. Without a terminal, times are absolute (ISO 8601, UTC). */
import { Context } from "effect"
import { calledAs } from "../../../src/platform/process/CalledAs.ts"
import { shellWord } from "../../../src/operator/ShellWord.ts"
import { flagsOf } from "../remote/flags.ts"
import { targetFlagNames } from "../remote/targetFlagNames.ts"
import type { Line } from "./table.ts"
import { screen } from "./screen.ts"
import { visible } from "./visible.ts"

export { facts, type Line, table } from "./table.ts"

/** Read from the raw arguments: after a usage error there are no parsed ones. */
export const asJson = process.argv.slice(2).some((argument) => /^--json(=true)?$/.test(argument))

/** Where the pages of a list go while it is read. */
export const Write = Context.Reference<(text: string) => void>("cli/Write", {
  defaultValue: () => (text: string) => void process.stdout.write(text)
})

export const printed = (lines: ReadonlyArray<Line>, on = screen()) =>
  lines.map((line) => (typeof line === "string" ? visible(line) : line(on))).join("\n")

export const json = (result: object) => visible(JSON.stringify(Array.isArray(result) ? { items: result } : result))

export const next = (command: string, why = "", program: Parameters<typeof calledAs>[0] = "service-admin") =>
  `Next: ${calledAs(program)} ${command}${program === "service-admin" ? sameService : ""}${why && `   # ${why}`}`

/** For a caller elsewhere: a command that runs only where the database is. */
export const nextOnServer = (command: string) => `Next, on the server: service-admin ${command}`

/** The command as it was typed, but for one flag; `next` adds the service. */
export const typedWithout = (name: string, flag: string) =>
  Object.entries(flagsOf(process.argv.slice(2)))
    .filter(([given]) => given !== flag && !targetFlagNames.includes(given))
    .flatMap(([given, value]) =>
      [value].flat().map((one) => (one === true ? ` --${given}` : ` --${given}=${shellWord(String(one))}`))
    )
    .reduce((typed, one) => typed + one, name)

/** The flags of this command that name a service elsewhere. */
const sameService = Object.entries(flagsOf(process.argv.slice(2)))
  .filter(([name]) => targetFlagNames.includes(name))
  .map(([name, value]) => ` --${name} ${shellWord(String(value))}`)
  .join("")
