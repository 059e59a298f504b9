/** Writes, checks and removes the entry of this service in the configuration of a client. */
import { Config, Data, Effect, Option, Redacted, Schema } from "effect"
import { Argument, Flag } from "effect/cli"
import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { resolve } from "node:path"
import { check as tryConnection } from "../../src/client/connect/check.ts"
import { type ClientName, clients, clientsByName, type Places, type Scope } from "../../src/client/connect/Clients.ts"
import { read, refused, replace } from "../../src/client/connect/ConfigFile.ts"
import { findSecret } from "../../src/platform/secrets/Secrets.ts"
import { isLoopback } from "../../src/platform/settings/Settings.ts"
import { frame } from "../support/frame.ts"
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

const fileOf = Effect.fnUntraced(function* (client: ClientName, scope: Scope, dir: string) {
  if (scope === "project" && !existsSync(dir)) return yield* new UsageError({ message: `There is no folder ${dir}.` })
  const places = { home: homedir(), project: resolve(dir), platform: process.platform, variables: yield* variables }
  const files = clientsByName[client].files(scope, places)
  return files.find((file) => existsSync(file)) ?? files.at(-1)!
})

const tokenIn = (name: string) =>
  Config.option(Config.Redacted(name)).pipe(
    Effect.map(Option.filter((token) => Redacted.value(token) !== "")),
    Effect.flatMap(
      Option.match({
        onSome: Effect.succeed,
        onNone: () =>
          new UsageError({ message: `The variable ${name} is not set: export it where the client starts, too.` })
      })
    )
  )

interface Result {
  readonly client: ClientName
  readonly file: string
  readonly action: "written" | "unchanged" | "removed" | "printed" | "checked"
  /** For `printed`: the entry as a file of its own. */
  readonly entry?: string
  /** For `checked`. */
  readonly findings?: ReadonlyArray<{ readonly step: string; readonly ok: boolean; readonly message: string }>
  readonly next: ReadonlyArray<string>
}

const nextSteps = (client: ClientName, scope: Scope, tokenEnv: string | undefined) => {
  const { projectNote, signIn } = clientsByName[client]
  return [
    ...(scope === "project" && projectNote !== undefined ? [projectNote] : []),
    tokenEnv === undefined
      ? `Next: ${signIn}   # sign in, with a project token from the operator`
      : `Next: export ${tokenEnv}=...   # a project token, wherever the client starts`
  ]
}

interface Given {
  readonly client: ClientName
  /** Not needed to remove the entry. */
  readonly url: Option.Option<string>
  readonly scope: Scope
  readonly dir: string
  readonly tokenEnv: Option.Option<string>
  readonly print: boolean
  readonly check: boolean
  readonly remove: boolean
}

const connected = Effect.fnUntraced(function* ({
  check,
  client,
  dir,
  print,
  remove,
  scope,
  tokenEnv,
  url: given
}: Given) {
  const url = mcpUrl(Option.getOrElse(given, () => "")) ?? ""
  const variable = Option.getOrUndefined(tokenEnv)
  const { remove: without, set, url: urlIn } = clientsByName[client]
  const file = yield* fileOf(client, scope, dir)
  const result = (action: Result["action"], more: Partial<Result> = {}): Result => ({
    client,
    file,
    action,
    next: [],
    ...more
  })
  const next = nextSteps(client, scope, variable)
  if (print) {
    const entry = set("", { url, tokenEnv: variable })
    return result("printed", { entry: "why" in entry ? "" : entry.text!, next })
  }
  const before = yield* read(file)
  if (check) {
    const configured = urlIn(before ?? "")
    if ("why" in configured) return yield* refused(file, configured.why)
    const edited = set(before ?? "", { url, tokenEnv: variable })
    const isSame = !("why" in edited) && edited.text === before
    const otherwise = `${file} has an entry that differs, perhaps in --token-env: correct the flags, or run this without --check.`
    const missing = `${file} has no entry for ${url}: run this without --check.`
    const entry = {
      step: "entry",
      ok: isSame,
      message: isSame ? `${file} has the entry.` : configured.value === url ? otherwise : missing
    }
    const token = variable === undefined ? undefined : yield* tokenIn(variable)
    return result("checked", { findings: [entry, ...(yield* tryConnection(url, token))] })
  }
  const edited = remove ? without(before ?? "") : set(before ?? "", { url, tokenEnv: variable })
  if ("why" in edited) return yield* refused(file, edited.why)
  // A file that did not exist ends with a newline; that tells it from an empty one when the entry is removed.
  const after = before === undefined && edited.text !== "" && edited.text !== null ? `${edited.text}\n` : edited.text
  if (after === (before ?? "")) return result("unchanged", remove ? {} : { next })
  yield* replace(file, before, after)
  return remove ? result("removed") : result("written", { next })
})

export const connect = frame("connect", {
  description:
    "Connect a client (claude-code, codex, gemini, opencode, vscode, cursor): write its entry, and leave everything else in its file as it is",
  flags: {
    client: Argument.Literals("client", clients),
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
    print: Flag.Boolean("print").pipe(
      Flag.withDescription("Print the entry and write nothing"),
      Flag.withDefault(false)
    ),
    check: Flag.Boolean("check").pipe(
      Flag.withDescription("Try the connection as the client would, and write nothing"),
      Flag.withDefault(false)
    ),
    remove: Flag.Boolean("remove").pipe(Flag.withDescription("Remove the entry again"), Flag.withDefault(false))
  },
  refuse: ({ check, print, remove, url }) => {
    if ([check, print, remove].filter(Boolean).length > 1) return "Use only one of --print, --check and --remove."
    return remove || Option.isSome(url) ? undefined : "Pass --url, the address of the service."
  },
  run: (flags) => connected(flags),
  print: ({ action, entry, file, findings, next }) => [
    ...(entry === undefined ? [] : [`# ${file}`, ...entry.split("\n")]),
    ...(findings ?? []).map(({ message, ok }) => `${ok ? "ok " : "bad"}  ${message}`),
    ...(action === "written" ? [`${file} has the entry now.`] : []),
    ...(action === "unchanged" ? [`${file} needs no change.`] : []),
    ...(action === "removed" ? [`${file} has no entry any more.`] : []),
    ...next
  ],
  ok: ({ findings }) => findings?.every(({ ok }) => ok) ?? true
})
