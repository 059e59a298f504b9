/**
 * The text of --help. Commands stand under their noun, and flags that a command needs stand in its usage line. It loads no
 * library, because prepared help (../help.ts) is to appear at once.
 */
import type { HelpDoc } from "effect/cli"
import { bold, columns } from "./terminal/columns.ts"

/** Longer names have a line of their own. */
const widest = 28

export const helpOf = (doc: HelpDoc.HelpDoc): string => {
  const width = Math.min(columns() ?? 100, 100)
  return [
    [bold("DESCRIPTION"), ...wrapped(doc.description, width - 2).map((line) => `  ${line}`)],
    [bold("USAGE"), ...usage(doc, width)],
    section("ARGUMENTS", (doc.args ?? []).map(argumentRow), width),
    section("FLAGS", doc.flags.map(flagRow), width),
    ...(doc.subcommands ?? []).map(({ commands, group }) =>
      section(
        group?.toUpperCase() ?? "COMMANDS",
        commands.map(({ description, name, shortDescription }) => [name, shortDescription ?? description]),
        width
      )
    ),
    section("GLOBAL FLAGS", (doc.globalFlags ?? []).map(flagRow), width)
  ]
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join("\n"))
    .join("\n\n")
}

type Row = readonly [name: string, description: string]

/** `service-admin revoke-bridge --bridge BRIDGE [flags]` */
export const usageOf = ({ args, commandPath, flags, subcommands }: HelpDoc.HelpDoc) => {
  const needed = flags.filter(({ required }) => required)
  return [
    typedAs(commandPath ?? []),
    ...(subcommands === undefined ? [] : ["COMMAND"]),
    ...needed.map((flag) => `--${flag.name} ${partsOf(flag).values}`),
    ...(flags.length > needed.length || subcommands !== undefined ? ["[flags]"] : []),
    ...(args ?? []).map(({ name, variadic }) => `${name.toUpperCase()}${variadic ? "..." : ""}`)
  ].join(" ")
}

/** `bridge` is the name of no program: it is called as `bridge-service bridge`. */
export const typedAs = ([program = "", ...path]: ReadonlyArray<string>) =>
  [program === "bridge" ? "bridge-service bridge" : program, ...path].join(" ")

const usage = (doc: HelpDoc.HelpDoc, width: number) =>
  wrapped(usageOf(doc), width - 6).map((line, number) => (number === 0 ? `  ${line}` : `      ${line}`))

export const argumentRow = ({ description, name, variadic }: HelpDoc.ArgDoc): Row => [
  `${name.toUpperCase()}${variadic ? "..." : ""}`,
  given(description)
]

export const flagRow = (flag: HelpDoc.FlagDoc): Row => {
  const { aliases, name, required, type } = flag
  const { description, values } = partsOf(flag)
  const value = type === "boolean" ? "" : ` ${values}`
  return [
    `--${name}${aliases.map((alias) => `, ${alias}`).join("")}${value}`,
    `${description}${required ? " (required)" : ""}`
  ]
}

/** The library says in the description which values there are, and calls their type `choice`. */
const partsOf = ({ description, type }: HelpDoc.FlagDoc) => {
  const [text = "", choices] = given(description).split(" (choices: ")
  const values = choices === undefined || type !== "choice" ? type : choices.split(")", 1)[0]!.replaceAll(", ", "|")
  return { description: text, values }
}

const given = (description: HelpDoc.FlagDoc["description"]) => (description._tag === "Some" ? description.value : "")

const section = (title: string, rows: ReadonlyArray<Row>, width: number) => {
  if (rows.length === 0) return []
  const left = Math.min(Math.max(...rows.map(([name]) => name.length)), widest)
  const lines = rows.flatMap(([name, description]) => {
    const [first = "", ...more] = wrapped(description, width - left - 4)
    const isLong = name.length > left
    return [
      `  ${isLong ? name : `${name.padEnd(left)}  ${first}`.trimEnd()}`,
      ...(isLong ? [first, ...more] : more).map((line) => `${" ".repeat(left + 4)}${line}`)
    ]
  })
  return [bold(title), ...lines]
}

/** Lines of at most `width` characters, broken between words. */
export const wrapped = (text: string, width: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  for (const word of text.split(" ")) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}
