/** docs/reference.md lists settings, commands, exit codes, log lines and audit actions: each list is compared with the code. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Layer } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { packageRoot } from "../../support/run/Root.ts"
import { notificationKindNames } from "../../../src/wire/mobile/Notifications.ts"
import { read, rows, sections } from "../../support/run/Markdown.ts"
import { commandSources, sources } from "../../support/run/Sources.ts"
import { environment } from "../../support/service/Service.ts"

const parts = sections(read("docs/reference.md"), 2)

/** The settings a start requires; every other setting then has its default. */
const required = {
  DATABASE_URL: environment.DATABASE_URL,
  SERVICE_BRIDGE_ENROLLMENT_SECRET: environment.SERVICE_BRIDGE_ENROLLMENT_SECRET,
  SERVICE_BRIDGE_TOKEN_SECRET: environment.SERVICE_BRIDGE_TOKEN_SECRET
}

const settings = (provider: ConfigProvider.ConfigProvider) =>
  Effect.scoped(Layer.build(Layer.fresh(Settings.layer))).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, provider),
    Effect.map((context) => Context.get(context, Settings))
  )
const given = (environment: Readonly<Record<string, string>>) =>
  settings(ConfigProvider.fromUnknown({ ...required, ...environment }))

describe("the settings of docs/reference.md", () => {
  type Column = "Name" | "Default" | "Bounds" | "Set it when"
  const documented = rows(parts.get("Settings")!) as ReadonlyArray<Record<Column, string>>

  it.effect("are exactly those that the service reads", () =>
    Effect.gen(function* () {
      const asked = new Set<string>()
      const values = ConfigProvider.fromUnknown(required)
      const provider = ConfigProvider.make((path) => {
        if (path.length > 0) asked.add(path.join("_"))
        return values.load(path)
      })
      yield* settings(provider)
      assert.sameMembers(
        documented.map(({ Name }) => Name),
        [...asked]
      )
    })
  )

  it("have a reason to be set", () => {
    const without = documented.filter((setting) => !/\w/.test(setting["Set it when"] ?? ""))
    assert.deepStrictEqual(
      without.map(({ Name }) => Name),
      []
    )
  })

  it.effect.each(documented.filter(({ Default }) => Default !== ""))("$Name has the default $Default", (setting) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* given({ [setting.Name]: setting.Default }), {
        ...(yield* given({})),
        // The default of this setting is made from others; setting it explicitly changes only the base URL itself.
        ...(setting.Name === "SERVICE_BASE_URL" && {
          http: { ...(yield* given({})).http, baseUrl: setting.Default }
        })
      })
    })
  )

  it.effect.each(documented.filter(({ Bounds }) => / to \d/.test(Bounds)))(
    "$Name accepts $Bounds, bounds included",
    (setting) =>
      Effect.gen(function* () {
        const [least, most] = setting.Bounds.split(" to ").map(Number) as [number, number]
        for (const inside of [least, most]) yield* given({ [setting.Name]: String(inside) })
        for (const outside of [least - 1, most + 1]) {
          const { message } = yield* Effect.flip(given({ [setting.Name]: String(outside) }))
          assert.include(message, setting.Name)
        }
      })
  )
})

const help = async (command: string, ...args: ReadonlyArray<string>) => {
  const program = join(packageRoot, "cli", `${command}.mjs`)
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args, "--help"])
  return stdout.split("\n\n").map((section) => section.split("\n"))
}

/** The first word of each line in the sections of a command's help that `wanted` selects. */
const words = (sections: Awaited<ReturnType<typeof help>>, wanted: (title: string) => boolean) =>
  sections.flatMap(([title, ...lines]) =>
    wanted(title!) ? lines.flatMap((line) => /^ {2}(\S+)/.exec(line)?.[1] ?? []) : []
  )

const notCommands = ["DESCRIPTION", "USAGE", "GLOBAL FLAGS"]

describe.each([
  ["service-admin", "Commands"],
  ["bridge", "The reference Bridge"],
  ["bridge-service", "bridge-service"]
] as const)("the commands of %s in docs/reference.md", (program, part) => {
  const documented = rows(parts.get(part)!)

  it("are exactly those of the program, in its order", async () => {
    assert.deepStrictEqual(
      documented.map(({ Command }) => Command),
      words(await help(program), (title) => !notCommands.includes(title))
    )
  })

  it.concurrent.each(documented)("$Command has exactly the documented flags", async ({ Command, Flags }) => {
    const flags = Flags!.split(", ").flatMap((flag) => flag.replaceAll("`", "") || [])
    assert.sameMembers(
      flags,
      words(await help(program, Command!), (title) => title === "FLAGS")
    )
  })
})

/** Kinds of notifications have the form of actions; some names are both. */
const isAction = (name: string) =>
  !(notificationKindNames as ReadonlyArray<string>).includes(name) || sources.includes(`action: "${name}"`)

describe("docs/reference.md", () => {
  it("lists exactly the exit codes in use", () => {
    const special = readFileSync(join(packageRoot, "src/platform/process/Exit.ts"), "utf8").matchAll(
      /^ {2}\w+: (\d+),?$/gm
    )
    const everywhere = ["0", "1"]
    const interrupted = ["130"]
    assert.sameMembers(
      rows(parts.get("Exit codes")!).map((row) => row["Exit code"]),
      [...new Set([...everywhere, ...[...special].map(([, code]) => code), ...interrupted])]
    )
  })

  it("explains exactly the log lines in the sources", () => {
    const logged = [...sources.matchAll(/\blog(?:Info|Warning|Error|Fatal)?\(\s*["`](?=[A-Z])([^"`$]+)/g)].map(
      ([, said]) => said!.trim()
    )
    const explained = rows(parts.get("Log lines")!).map(({ Line }) => Line!.replace(/ ?…$/, ""))
    assert.isNotEmpty(logged)
    for (const line of logged)
      assert.isTrue(
        explained.some((start) => line.startsWith(start)),
        line
      )
    for (const start of explained) assert.include(sources, start)
  })

  it("lists exactly the audit actions in the sources", () => {
    const written = `${sources}\n${commandSources}`.matchAll(
      /"((?:audit_log|database|project|project_token|person_key|operator_token|account_reference|bridge|bridge_credential|console(?:_\w+)?|oauth_\w+|memory|task|document|subject|mobile_device|channel|push|mcp(?=\.write))\.[a-z_]+)"/g
    )
    assert.sameMembers(
      [...new Set(rows(parts.get("Audit actions")!).map(({ Action }) => Action))],
      [...new Set([...written].map(([, action]) => action!))].filter(isAction)
    )
  })
})
