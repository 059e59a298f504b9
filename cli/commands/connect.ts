/** Writes, checks and removes what connects a client: its entry, and the section for agents. */
import { Config, Data, Effect, Option, Schema } from "effect"
import { Argument, Flag } from "effect/cli"
import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { delimiter, join, resolve } from "node:path"
import { check as tryConnection } from "../../src/client/connect/check.ts"
import {
  type ClientName,
  clients,
  clientsByName,
  type Entry,
  helperFor,
  type Places,
  type Scope
} from "../../src/client/connect/Clients.ts"
import { type ConfigRefused, follow, read, refused, replaceAll } from "../../src/client/connect/ConfigFile.ts"
import type { Edited } from "../../src/client/connect/Edit.ts"
import { hooksOf, withHooks } from "../../src/client/connect/Hooks.ts"
import * as Section from "../../src/client/connect/Section.ts"
import { shellWord } from "../../src/operator/ShellWord.ts"
import { findSecret } from "../../src/platform/secrets/Secrets.ts"
import { isLoopback } from "../../src/platform/settings/Settings.ts"
import { frame } from "../support/frames/frame.ts"
import { type Bridge, reading } from "./bridge.ts"
import * as Flags from "../support/Flags.ts"

class UsageError extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

/** The base URL or the address of /mcp; both mean the latter. */
const McpUrl = Schema.String.check(
  Schema.makeFilter((given: string) => mcpUrl(given) !== undefined, { expected: "an address" })
)

const mcpUrl = (given: string) => {
  const url = URL.canParse(given) ? new URL(given) : undefined
  const plain = url && url.username + url.password + url.search + url.hash === "" && !/[?#@]/.test(given)
  if (!plain || !(url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url)))) return undefined
  // URL lets a host contain `;`, `$` and quotes, and hooks put the address into a shell command.
  if (!/^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/.test(url.hostname)) return undefined
  return ["/", "/mcp", "/mcp/"].includes(url.pathname) ? `${url.origin}/mcp` : undefined
}

/** A token could be a name, too, also one of which a part was cut off: people paste it here. */
const Variable = Schema.String.check(
  Schema.isPattern(/^(?!s[a-z]{2}_[A-Za-z0-9]{20})[A-Za-z_][A-Za-z0-9_]{0,99}$/),
  Schema.makeFilter((name) => findSecret(name) === undefined, { expected: "no secret" })
)

const variables = Effect.map(
  Effect.all(
    (["CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "APPDATA"] as const).map((name) =>
      Config.option(Config.String(name)).pipe(Effect.map((value) => [name, Option.getOrElse(value, () => "")] as const))
    )
  ),
  (entries): Places["variables"] => Object.fromEntries(entries)
)

const searchPath = Config.String("PATH").pipe(Config.withDefault(""))

const tokenIn = (name: string) =>
  Config.option(Config.Redacted(name)).pipe(
    Effect.flatMap(
      Option.match({
        onSome: Effect.succeed,
        onNone: () =>
          new UsageError({ message: `The variable ${name} is not set: export it where the client starts, too.` })
      })
    )
  )

type Action = "written" | "unchanged" | "removed" | "printed" | "checked"

/** One file of the connection. */
interface Part {
  readonly part: "entry" | "section" | "hooks"
  readonly file: string
  /** The folder that symbolic links may not lead out of. */
  readonly within: string
  readonly set: (text: string) => Edited
  readonly remove: (text: string) => Edited
}

interface Result {
  readonly client: ClientName | null
  readonly parts: ReadonlyArray<{
    readonly part: Part["part"]
    readonly file: string
    readonly action: Action
    /** For `printed`: the part as a file of its own. */
    readonly text?: string
  }>
  /** For `checked`. */
  readonly findings?: ReadonlyArray<{ readonly step: string; readonly ok: boolean; readonly message: string }>
  readonly next: ReadonlyArray<string>
}

const notOnPath =
  "The hooks call bridge-service, which is not on the PATH: install its package with npm install --global. Until then they do nothing."

const helperNotOnPath =
  "The client calls bridge-service, which is not on the PATH: install its package with npm install --global."

const nextSteps = (
  client: ClientName,
  { bridgeState, hooks, scope }: Given,
  tokenEnv: string | undefined,
  path: string
) => {
  const isOnPath = path.split(delimiter).some((folder) => existsSync(join(folder, "bridge-service")))
  const { projectNote, signIn } = clientsByName[client]
  return [
    ...(scope === "project" && projectNote !== undefined ? [projectNote] : []),
    ...(hooks && !isOnPath ? [notOnPath] : []),
    ...(Option.isSome(bridgeState) && !isOnPath ? [helperNotOnPath] : []),
    Option.isSome(bridgeState)
      ? "Next: start the client; it runs the command of the entry whenever it connects."
      : tokenEnv === undefined
        ? `Next: ${signIn}   # sign in, with a project token from the operator`
        : `Next: export ${tokenEnv}=...   # a project token, wherever the client starts`
  ]
}

interface Given {
  /** Not needed for the section alone. */
  readonly client: Option.Option<ClientName>
  /** Not needed to remove the entry. */
  readonly url: Option.Option<string>
  readonly scope: Scope
  readonly dir: string
  readonly tokenEnv: Option.Option<string>
  readonly bridgeState: Option.Option<string>
  readonly section: boolean
  readonly hooks: boolean
  readonly print: boolean
  readonly check: boolean
  readonly remove: boolean
}

const connected = Effect.fnUntraced(function* (given: Given): Effect.fn.Return<Result, Failure> {
  const { check, print, remove } = given
  const client = Option.getOrNull(given.client)
  const url = mcpUrl(Option.getOrElse(given.url, () => "")) ?? ""
  const variable = Option.getOrUndefined(given.tokenEnv)
  const places = yield* placesFor(given)
  const folder = Option.getOrUndefined(Option.map(given.bridgeState, (path) => resolve(path)))
  const helper = folder === undefined ? undefined : helperFor(shellWord(folder))
  const parts = partsOf(given, places, { url, tokenEnv: variable, helper })
  const next = client === null || remove ? [] : nextSteps(client, given, variable, yield* searchPath)
  if (print) {
    const printed = parts.map(({ file, part, set }) => {
      const edited = set("")
      return { part, file, action: "printed" as const, text: "why" in edited ? "" : (edited.text ?? "") }
    })
    return { client, parts: printed, next }
  }
  if (folder !== undefined && !check && !remove) yield* reading(folder, ({ token }) => token)
  const placed = yield* Effect.forEach(parts, (part) =>
    Effect.map(follow(part.file, part.within), (target) => ({ ...part, target }))
  )
  const result = (actionOf: (part: Part) => Action, more: Partial<Result> = {}): Result => ({
    client,
    parts: placed.map((part) => ({ part: part.part, file: part.file, action: actionOf(part) })),
    next,
    ...more
  })
  // Everything is read before anything is written: a file that is refused keeps the others as they are.
  const before = new Map<string, string | undefined>()
  for (const { target } of placed) before.set(target, yield* read(target))
  const after = new Map<string, string | null>(Array.from(before, ([file, text]) => [file, text ?? ""]))
  const changed = new Set<Part>()
  for (const part of remove ? placed.toReversed() : placed) {
    const text = after.get(part.target) ?? ""
    const edited = (remove ? part.remove : part.set)(text)
    if ("why" in edited) return yield* refused(part.file, edited.why, edited.remedy)
    if (edited.text !== text) changed.add(part)
    after.set(part.target, edited.text)
  }
  if (check) {
    const findings = placed.map((part) => inPlace(part, !changed.has(part), before.get(part.target) ?? "", client, url))
    if (client === null) return result(() => "checked", { findings, next: [] })
    const token =
      folder !== undefined
        ? yield* reading(folder, ({ accessToken }) => accessToken)
        : variable === undefined
          ? undefined
          : yield* tokenIn(variable)
    return result(() => "checked", { findings: [...findings, ...(yield* tryConnection(url, token))], next: [] })
  }
  const changes = Array.from(after).flatMap(([path, text]) => {
    const was = before.get(path)
    if (text === (was ?? "")) return []
    // A file that did not exist ends with a newline; that tells it from an empty one when our part is removed.
    return [{ path, before: was, after: was === undefined && text !== null && text !== "" ? `${text}\n` : text }]
  })
  yield* replaceAll(changes, [places.home, places.project])
  return result((part) => (changed.has(part) ? (remove ? "removed" : "written") : "unchanged"))
})

type Failure = ConfigRefused | UsageError | Config.ConfigError | Effect.Error<Bridge["accessToken"]>

const placesFor = Effect.fnUntraced(function* ({ client, dir, scope, section }: Given) {
  const needsFolder = section || (Option.isSome(client) && scope === "project")
  if (needsFolder && !existsSync(dir)) return yield* new UsageError({ message: `There is no folder ${dir}.` })
  return { home: homedir(), project: resolve(dir), platform: process.platform, variables: yield* variables }
})

const partsOf = (
  { client: named, hooks, scope, section }: Given,
  places: Places,
  entry: Entry
): ReadonlyArray<Part> => {
  const client = Option.map(named, (name) => clientsByName[name])
  const { project } = places
  // People link the files in their home from wherever they keep them.
  const within = scope === "project" ? project : "/"
  const entries = Option.match(client, {
    onNone: () => [],
    onSome: ({ files, remove, set }): ReadonlyArray<Part> => [
      { part: "entry", file: existing(files(scope, places)), within, set: (text) => set(text, entry), remove }
    ]
  })
  const hooked = Option.flatMapNullishOr(named, (name) => hooksOf(name, scope, places, entry))
  const name = Option.match(client, { onNone: () => "AGENTS.md", onSome: ({ instructions }) => instructions })
  const file = join(project, name)
  return [
    ...entries,
    ...(hooks && Option.isSome(hooked) ? [{ part: "hooks" as const, within, ...hooked.value }] : []),
    ...(section ? [{ part: "section" as const, file, within: project, set: Section.set, remove: Section.remove }] : [])
  ]
}

/** The first file that exists, otherwise the last. */
const existing = (files: ReadonlyArray<string>) => files.find((file) => existsSync(file)) ?? files.at(-1)!

const inPlace = ({ file, part }: Part, ok: boolean, before: string, client: ClientName | null, url: string) => {
  const finding = (message: string) => ({ step: part, ok, message })
  if (ok) return finding(`${file} has the ${part}.`)
  const repair = "run this without --check"
  if (part !== "entry" || client === null) return finding(`${file} lacks the ${part} of this release: ${repair}.`)
  const configured = clientsByName[client].url(before)
  return finding(
    "value" in configured && configured.value === url
      ? `${file} has an entry that differs, perhaps in --token-env: correct the flags, or ${repair}.`
      : `${file} has no entry for ${url}: ${repair}.`
  )
}

export const connect = frame("connect", {
  description:
    "Connect a client (claude-code, codex, gemini, opencode, vscode, cursor): write its entry, and leave everything else in its file as it is",
  flags: {
    client: Argument.Literals("client", clients).pipe(Argument.optional),
    url: Flags.flag(
      "url",
      McpUrl,
      "expected the address of the service, such as https://bridge.example.com; http only for a loopback address",
      "Address of the service, with or without /mcp"
    ).pipe(Flag.optional),
    scope: Flag.Literals("scope", ["user", "project"]).pipe(
      Flag.withDescription("project: only in --dir (the default); user: in every folder"),
      Flag.withDefault("project" as const)
    ),
    dir: Flags.path("dir", "Folder of the project (default: this one)").pipe(Flag.withDefault(".")),
    tokenEnv: Flags.flag(
      "token-env",
      Variable,
      "expected the name of the environment variable that holds the token, not the token",
      "Variable that holds a project token (default: the client signs in by OAuth)"
    ).pipe(Flag.withMetavar("NAME"), Flag.optional),
    bridgeState: Flags.path(
      "bridge-state",
      "State folder of this machine's Bridge: the client gets its header from `bridge token` (claude-code)"
    ).pipe(Flag.optional),
    section: Flag.Boolean("section").pipe(
      Flag.withDescription(
        "Also write the section that tells an agent when to use the service: CLAUDE.md for claude-code, GEMINI.md for gemini, otherwise AGENTS.md"
      ),
      Flag.withDefault(false)
    ),
    hooks: Flag.Boolean("hooks").pipe(
      Flag.withDescription(
        `Also run bridge-service hook in the sessions of ${withHooks.join(", ")}: where work stands at the start, reminders later`
      ),
      Flag.withDefault(false)
    ),
    print: Flag.Boolean("print").pipe(
      Flag.withDescription("Print what would be written, and write nothing"),
      Flag.withDefault(false)
    ),
    check: Flag.Boolean("check").pipe(
      Flag.withDescription("Try the connection as the client would, and write nothing"),
      Flag.withDefault(false)
    ),
    remove: Flag.Boolean("remove").pipe(Flag.withDescription("Remove what was written"), Flag.withDefault(false))
  },
  refuse: ({ bridgeState, check, client, hooks, print, remove, section, tokenEnv, url }) => {
    if ([check, print, remove].filter(Boolean).length > 1) return "Use only one of --print, --check and --remove."
    if (Option.isNone(client))
      return section && !hooks ? undefined : `Name a client: ${clients.join(", ")}; or use --section.`
    if (Option.isSome(bridgeState) && clientsByName[client.value].runsHelper !== true)
      return "--bridge-state is for claude-code: the other clients run no command for their headers."
    if (Option.isSome(bridgeState) && Option.isSome(tokenEnv)) return "Use only one of --bridge-state and --token-env."
    if (hooks && !withHooks.includes(client.value)) return `--hooks is for ${withHooks.join(", ")}.`
    return remove || Option.isSome(url) ? undefined : "Pass --url, the address of the service."
  },
  run: (flags) => connected(flags),
  print: ({ findings, next, parts }) => [
    ...parts.flatMap(({ action, file, part, text }) =>
      action === "printed"
        ? [`# ${file}`, ...(text ?? "").split("\n")]
        : action === "written"
          ? [`${file} has the ${part} now.`]
          : action === "removed"
            ? [`${file} has no ${part} any more.`]
            : action === "unchanged"
              ? [`${file} needs no change.`]
              : []
    ),
    ...(findings ?? []).map(({ message, ok }) => `${ok ? "ok " : "bad"}  ${message}`),
    ...next
  ],
  ok: ({ findings }) => findings?.every(({ ok }) => ok) ?? true
})
