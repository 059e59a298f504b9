/** Output for people. Times are absolute (ISO 8601, UTC), and the next command is spelled out. */
import { Context } from "effect"
import { calledAs } from "../../src/platform/process/CalledAs.ts"
import { shellWord } from "../../src/operator/ShellWord.ts"
import { escapes } from "../../src/wire/Text.ts"
import { flagsOf } from "./remote/flags.ts"
import { targetFlagNames } from "./remote/targetFlagNames.ts"

/** Read from the raw arguments: after a usage error there are no parsed ones. */
export const asJson = process.argv.slice(2).some((argument) => /^--json(=true)?$/.test(argument))

/** Where the pages of a list go while it is read. */
export const Write = Context.Reference<(text: string) => void>("cli/Write", {
  defaultValue: () => (text: string) => void process.stdout.write(text)
})

/**
 * Text as a terminal may show it. Characters that control it, reverse it or leave no mark become `\\u` and four hex
 * digits per UTF-16 unit: names and user agents come from strangers. In JSON that is another spelling of the same value.
 */
export const visible = (text: string) => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu, escapes)

export const printed = (lines: ReadonlyArray<string>) => lines.map(visible).join("\n")

export const json = (result: object) => visible(JSON.stringify(Array.isArray(result) ? { items: result } : result))

export const next = (command: string, why = "", program: Parameters<typeof calledAs>[0] = "service-admin") =>
  `Next: ${calledAs(program)} ${command}${program === "service-admin" ? sameService : ""}${why && `   # ${why}`}`

/** The flags of this command that name a service elsewhere. */
const sameService = Object.entries(flagsOf(process.argv.slice(2)))
  .filter(([name]) => targetFlagNames.includes(name))
  .map(([name, value]) => ` --${name} ${shellWord(String(value))}`)
  .join("")

/** One line per field: its name, padded, and its value. */
export const facts = (record: object): ReadonlyArray<string> => {
  const rows = Object.entries(record)
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${format(value)}`)
}

/** One line per item under a header of column names; the line `none` if there are no items. */
export const table = <Item extends object>(
  items: ReadonlyArray<Item>,
  columns: ReadonlyArray<keyof Item & string>,
  none: string
): ReadonlyArray<string> => {
  if (items.length === 0) return [none]
  const rows = [[...columns], ...items.map((item) => columns.map((column) => format(item[column])))]
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join("  ")
      .trimEnd()
  )
}

const format = (value: unknown): string => {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return "-"
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(format).join(",")
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}
