/** Manual pages and prepared help, made from the definitions of the commands when the packages are built. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, Layer } from "effect"
import { CliConfig, CliOutput, Command, GlobalFlag, type HelpDoc } from "effect/cli"
import { version } from "../src/platform/settings/Package.ts"
import { serviceAdmin } from "./commands/all.ts"
import { bridge } from "./commands/bridge.ts"
import { bridgeService } from "./commands/bridgeService.ts"
import { argumentRow, flagRow, usageOf } from "./support/help.ts"

const programs = [
  { name: "service-admin", root: serviceAdmin, summary: "operate Bridge Service" },
  { name: "bridge-service", root: bridgeService, summary: "run Bridge Service, connect agents, check Bridges" },
  { name: "bridge-service-bridge", root: bridge, summary: "keep a Bridge enrolled on this machine" }
] as const

/** What --help would print. */
const docOf = (root: Command.Command.Any, path: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    let doc: HelpDoc.HelpDoc | undefined
    const presenter = CliOutput.layerPresenter({
      present: (event) =>
        Effect.sync(() => {
          if (event._tag === "Help") doc = event.helpDoc
        })
    })
    yield* Command.runWith(root as typeof serviceAdmin, { version })([...path, "--help"]).pipe(
      Effect.provide(Layer.merge(presenter, CliConfig.layer({ builtIns })))
    )
    return doc!
  })

const builtIns = [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions, GlobalFlag.LogLevel]

const manuals = Effect.forEach(programs, (program) =>
  Effect.gen(function* () {
    const doc = yield* docOf(program.root, [])
    const groups = yield* Effect.forEach(doc.subcommands ?? [], ({ commands, group }) =>
      Effect.map(
        Effect.forEach(commands, (command) => docOf(program.root, [command.name])),
        (docs) => ({ title: group ?? "Commands", docs })
      )
    )
    return { ...program, doc, groups }
  })
)

/** Each program with the help of its commands. */
const manual = Effect.runPromise(Effect.provide(manuals, NodeServices.layer))

/** File names and texts. */
export const manualPages = async () =>
  (await manual).map(({ doc, groups, name, summary }) => [`${name}.1`, page(name, summary, doc, groups)] as const)

/** What help.ts prints, by program and command. */
export const preparedHelp = async () => {
  const docs = (await manual).flatMap(({ doc, groups }) => [doc, ...groups.flatMap(({ docs }) => docs)])
  return Object.fromEntries(docs.map((doc) => [doc.commandPath!.join(" "), doc]))
}

interface Group {
  readonly title: string
  readonly docs: ReadonlyArray<HelpDoc.HelpDoc>
}

const page = (name: string, summary: string, doc: HelpDoc.HelpDoc, groups: ReadonlyArray<Group>) =>
  [
    `.TH ${text(name.toUpperCase())} 1 "" "Bridge Service ${text(version)}" "Bridge Service"`,
    ".SH NAME",
    `${text(name)} \\- ${text(summary)}`,
    ".SH SYNOPSIS",
    `.B ${text(name)}`,
    ".I COMMAND",
    "[flags]",
    ".SH DESCRIPTION",
    text(doc.description),
    ".SH COMMANDS",
    ...groups.flatMap(({ docs, title }) => [`.SS ${text(title)}`, ...docs.flatMap(command)]),
    ".SH GLOBAL FLAGS",
    ...(doc.globalFlags ?? []).map(flagRow).flatMap(row),
    ".SH SEE ALSO",
    programs.map((program) => `.BR ${text(program.name)} (1)`).join(" ,\n"),
    ".PP",
    "A running service shows its documentation at",
    ".IR /docs ."
  ].join("\n") + "\n"

const command = (doc: HelpDoc.HelpDoc) => [
  ".TP",
  `.B ${text(usageOf(doc))}`,
  text(doc.description),
  ...(doc.flags.length + (doc.args ?? []).length === 0
    ? []
    : [".RS", ...[...doc.flags.map(flagRow), ...(doc.args ?? []).map(argumentRow)].flatMap(row), ".RE"])
]

const row = ([name, description]: readonly [string, string]) => [".TP", `.B ${text(name)}`, text(description)]

/** Dashes that can be copied, and no line that begins with a control character of roff. */
const text = (given: string) =>
  given
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll("`", "\\(ga")
    .replaceAll("'", "\\(aq")
    .replace(/^\./, "\\&.")
