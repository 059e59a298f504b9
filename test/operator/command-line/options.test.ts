/** No option of a command is ignored: without it, something else is asked of the services. */
import { NodeServices } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { ConfigProvider, Console, Effect, Exit, Redacted } from "effect"
import { CliConfig, Command } from "effect/cli"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serviceAdmin } from "../../../cli/commands/all.ts"
import { pathFlags } from "../../../cli/support/Flags.ts"
import { HeldServices } from "../../../cli/support/HeldServices.ts"
import { Write } from "../../../cli/support/terminal/Print.ts"
import type { Services } from "../../../cli/support/Services.ts"
import { format } from "../../../src/platform/crypto/Tokens.ts"
import { read, rows } from "../../support/run/Markdown.ts"

const uuid = "00000000-0000-7000-8000-0000000000aa"

const client = Redacted.value(format("sci", Buffer.alloc(32)))

/** A value for each option; true for a switch. */
const values: Readonly<Record<string, string | true>> = {
  "account-reference": "github:octo",
  action: "bridge.revoked",
  after: uuid,
  "application-type": "web",
  bootstrap: true,
  bridge: "workshop",
  channel: uuid,
  client: "https://agent.example/client.json",
  commit: "c".repeat(40),
  credential: uuid,
  device: uuid,
  document: uuid,
  embeddings: "off",
  entry: uuid,
  format: "markdown",
  from: "markdown",
  grant: uuid,
  id: uuid,
  key: uuid,
  kind: "webhook",
  label: "Ada",
  limit: "2",
  "memory-days": "30",
  name: "Shop",
  "no-console": true,
  now: true,
  "operator-token": uuid,
  project: uuid,
  "receipt-days": "30",
  "redirect-uri": "https://agent.example/callback",
  reenroll: "workshop",
  reference: "github:octo",
  "replace-newest": true,
  role: "reader",
  scope: "memory:read",
  session: uuid,
  since: "2026-01-01T00:00:00Z",
  task: uuid,
  title: "Guide",
  titles: true,
  token: uuid,
  ttl: "2h",
  url: "https://hooks.example/in",
  yes: true
}
const ofCommand: Readonly<Record<string, Readonly<Record<string, string | true>>>> = {
  "create-oauth-client": { id: client },
  "create-operator-token": { scope: "operator:read" },
  "list-account-references": { after: "github:octo" },
  "list-bridge-enrollment-credentials": { state: "unused" },
  "list-bridges": { after: "workshop", state: "pending" },
  "list-oauth-clients": { after: "https://agent.example/client.json" },
  "list-tasks": { state: "done" }
}

/** They work without services, or with services of their own, and are tested by themselves. */
const others = ["doctor", "restore-database", "set-profile", "list-profiles", "remove-profile"]
/** Options that matter on a terminal, or that an operator elsewhere sends. */
const elsewhere = ["yes", "dry-run", "watch", "minted"]
/** What destroys must be confirmed. */
const confirmed = ["set-project-limits", "purge-memory", "purge-task", "purge-document", "erase-subject"]
/** Of options that exclude each other, those that are left out. */
const leftOut: Readonly<Record<string, ReadonlyArray<string>>> = {
  "create-bridge-enrollment-credential": ["count", "out-dir"],
  "create-channel": ["secret-file"]
}

const documented = rows(read("docs/reference.md"))
  .filter((row) => "--json" in row && !others.includes(row["Command"]!))
  .map(({ Command: name = "", Flags = "" }) => ({
    name,
    given: [...Flags.matchAll(/--([a-z-]+)/g)]
      .map(([, flag]) => flag!)
      .filter((flag) => (flag === "yes" && confirmed.includes(name)) || !elsewhere.includes(flag))
      .filter((flag) => !leftOut[name]?.includes(flag))
  }))
  .filter(({ given }) => given.length > 0)

/** Answers that let each command go on: a list, a row with its secret, and numbers. */
const answer = Object.assign([], {
  counts: {},
  created_at: new Date(0),
  credential: Redacted.make("secret"),
  credential_id: uuid,
  found: [],
  lines: [],
  name: "Shop",
  project_id: uuid,
  token: Redacted.make("secret"),
  token_id: uuid,
  url: Redacted.make("secret")
})
/** Members of services that are effects. */
const effects = ["maintain", "mint", "rekey", "retryDead", "status", "take"]

/** Services that note what is asked of them. */
const noting = (asked: Array<unknown>) => {
  const note = (what: unknown) => Effect.sync(() => (asked.push(what), answer))
  const service = (name: string) =>
    new Proxy(
      {},
      {
        get: (_, member) =>
          effects.includes(String(member))
            ? note(`${name}.${String(member)}`)
            : (...given: ReadonlyArray<unknown>) =>
                // That a project exists is asked besides what is done with it.
                name === "projects" && member === "find"
                  ? Effect.succeed(answer)
                  : note([`${name}.${String(member)}`, given])
      }
    )
  const others: Readonly<Record<string, unknown>> = {
    baseUrl: "https://bridges.example",
    persistently: (work: unknown) => work,
    recorded: () => Effect.void
  }
  return new Proxy({}, { get: (_, name) => others[String(name)] ?? service(String(name)) }) as Services
}

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "options-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

/** Everything that a command asks for, and how it ends. */
const observed = Effect.fnUntraced(function* (name: string, flags: ReadonlyArray<string>) {
  const folder = yield* temporary
  writeFileSync(join(folder, "note.md"), "# Note\n")
  const asked: Array<unknown> = []
  const args = flags.flatMap((flag) => {
    const value = pathFlags.has(flag) ? join(folder, flag) : (ofCommand[name]?.[flag] ?? values[flag] ?? "5")
    return value === true ? [`--${flag}`] : [`--${flag}=${value}`]
  })
  const more = name === "import-memory" ? [folder] : []
  const run = Command.runWith(serviceAdmin, { version: "", renderErrors: false })
  const exit = yield* run([name, ...args, ...more, "--json"]).pipe(
    Effect.provideService(HeldServices, noting(asked)),
    Effect.provideService(Write, () => {}),
    Effect.provideService(Console.Console, { ...globalThis.console, log: () => {}, error: () => {} }),
    Effect.provide([
      NodeServices.layer,
      CliConfig.layer({ builtIns: [] }),
      ConfigProvider.layer(ConfigProvider.fromUnknown({}))
    ]),
    Effect.exit
  )
  const failed = Exit.isFailure(exit) && Exit.hasFails(exit) ? String(Exit.findErrorOption(exit)) : ""
  // Ids that the command makes differ from run to run.
  return JSON.stringify([asked, failed])
    .replaceAll(folder, "")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|sci_\w{49}/g, (id) =>
      [uuid, client].includes(id) ? id : "made"
    )
}, Effect.scoped)

it.effect.each(documented)("no option of $name is ignored", ({ given, name }) =>
  Effect.gen(function* () {
    const all = yield* observed(name, given)
    assert.match(all, /^\[\[[^\]]/, "the command has asked for something")
    assert.strictEqual(yield* observed(name, given), all)
    for (const flag of given.filter((flag) => !pathFlags.has(flag))) {
      const without = given.filter((other) => other !== flag)
      assert.notStrictEqual(yield* observed(name, without), all, `--${flag}`)
    }
  })
)
