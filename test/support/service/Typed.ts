/** Commands of service-admin on services that only answer: what they ask, what they show and how they end. */
import { NodeServices } from "@effect/platform-node"
import { ConfigProvider, Console, Effect, Exit, Option, Redacted } from "effect"
import { CliConfig, Command } from "effect/cli"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { serviceAdmin } from "../../../cli/commands/all.ts"
import { HeldServices } from "../../../cli/support/services/HeldServices.ts"
import type { Services } from "../../../cli/support/services/Services.ts"
import { Write } from "../../../cli/support/terminal/Print.ts"

export const uuid = "00000000-0000-7000-8000-0000000000aa"

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
export const noting = (asked: Array<unknown>) => {
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

/** Services of which some answer as they are told. */
export const answering = (given: object) => Object.assign(Object.create(noting([])), given) as Services

export const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "typed-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

interface Failure {
  readonly message?: string
  readonly errors?: ReadonlyArray<{ readonly message: string }>
}

/** Runs a command on these services: what it shows, the failure that it ends with, and its sentences. */
export const typed = Effect.fnUntraced(function* (services: Services, ...args: ReadonlyArray<string>) {
  const shown: Array<string> = []
  const show = (text: string) => void shown.push(text)
  const exit = yield* Command.runWith(serviceAdmin, { version: "", renderErrors: false })(args).pipe(
    Effect.provideService(HeldServices, services),
    Effect.provideService(Write, show),
    Effect.provideService(Console.Console, { ...globalThis.console, log: show, error: () => {} }),
    Effect.provide([
      NodeServices.layer,
      CliConfig.layer({ builtIns: [] }),
      ConfigProvider.layer(ConfigProvider.fromUnknown({}))
    ]),
    Effect.exit
  )
  const failed = Exit.isFailure(exit) && Exit.hasFails(exit) ? String(Exit.findErrorOption(exit)) : ""
  const failure = Option.getOrElse(Exit.findErrorOption(exit), () => ({})) as Failure
  // Flags that are refused are listed within one failure.
  const why = (failure.errors ?? [failure]).map(({ message = "" }) => message).join("\n")
  return { shown: shown.join("\n"), failed, why }
})
