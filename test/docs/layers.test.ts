/** Each rule about imports, the clock and the environment is broken once in a temporary tree; the linters must report it. */
import { execFile } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { read, rows } from "../support/run/Markdown.ts"

const imports = (path: string) => `import ${JSON.stringify(path)}`
const outside = "Nothing in src/ imports"
const ownWing = "Statements are used within their wing only"
const contract = "wire/ is the contract"
const standalone = "client/ runs without the server"
const http = "A file that handles HTTP contains no SQL"
const top = "App.ts, Http.ts and Server.ts are the top"
const statement = "export const find = (sql: any) => sql`select 1`"

/** The file, a line of code in it, and what the linter must say about that line; no message: it must accept the line. */
const layers: ReadonlyArray<readonly [file: string, code: string, says?: string]> = [
  // The files that the seeds below import.
  ["src/bridges/rotation/EndStore.ts", statement],
  ["src/platform/database/Clock.ts", statement],

  ["src/wire/Ids.ts", imports("effect/Schema")],
  ["src/wire/Ids.ts", imports("./Text.ts")],
  ["src/wire/Api.ts", imports("./bridges/RotationApi.ts")],
  ["src/wire/bridges/RotationApi.ts", imports("effect/http-api")],
  ["src/wire/bridges/RotationApi.ts", imports("../Ids.ts")],
  ["src/wire/Ids.ts", imports("node:crypto"), contract],
  ["src/wire/Ids.ts", imports("@noble/ed25519"), contract],
  ["src/wire/Ids.ts", imports("effect/sql"), contract],
  ["src/wire/Ids.ts", imports("../platform/settings/Settings.ts"), contract],
  ["src/wire/Ids.ts", imports("../bridges/identity/Guard.ts"), contract],

  ["src/client/bridge/Client.ts", imports("./Journal.ts")],
  ["src/client/bridge/Client.ts", imports("../../wire/Api.ts")],
  ["src/client/bridge/Client.ts", imports("effect/http")],
  ["src/client/bridge/Client.ts", imports("node:fs")],
  ["src/client/bridge/Client.ts", imports("effect/sql"), standalone],
  ["src/client/bridge/Client.ts", imports("../../platform/crypto/Tokens.ts"), standalone],
  ["src/client/bridge/Client.ts", imports("../../bridges/rotation/Rotation.ts"), standalone],
  ["src/bridges/rotation/Http.ts", imports("../../client/bridge/Client.ts"), "client/ is for callers of the service"],

  // The wings, one above the other.
  ["src/platform/crypto/Tokens.ts", imports("node:crypto")],
  ["src/platform/crypto/Tokens.ts", imports("../../wire/Ids.ts")],
  ["src/platform/audit/Audit.ts", imports("../../bridges/identity/Bridges.ts"), "platform/ is below bridges/"],
  ["src/push/outbox/Outbox.ts", imports("../../platform/database/Clock.ts")],
  ["src/push/outbox/Outbox.ts", imports("../../operator/projects/Projects.ts"), "push/ is below operator/"],
  ["src/operator/projects/Projects.ts", imports("../../push/outbox/Outbox.ts")],
  ["src/operator/projects/Projects.ts", imports("../../bridges/identity/Bridges.ts"), "operator/ is below bridges/"],
  ["src/bridges/identity/Bridges.ts", imports("../../operator/projects/Projects.ts")],
  ["src/bridges/identity/Bridges.ts", imports("../../signin/access/Access.ts"), "bridges/ is below signin/"],
  ["src/signin/access/Access.ts", imports("../../bridges/identity/Bridges.ts")],
  ["src/signin/access/Access.ts", imports("../../agents/mcp/Tools.ts"), "signin/ is below agents/"],
  ["src/agents/mcp/Tools.ts", imports("../../signin/access/Access.ts")],
  ["src/agents/mcp/Tools.ts", imports("../../people/site/Docs.ts"), "agents/ is below people/"],
  ["src/people/site/Docs.ts", imports("../../agents/mcp/Tools.ts")],

  // The folders of a wing.
  ["src/platform/database/Database.ts", imports("../sql/Rows.ts")],
  ["src/platform/sql/Rows.ts", imports("../database/Clock.ts"), "platform/sql is not above platform/database"],
  ["src/platform/html/Page.ts", imports("../edge/Boundary.ts"), "platform/html is not above platform/edge"],
  ["src/bridges/rotation/Rotation.ts", imports("../identity/Guard.ts")],
  ["src/bridges/rotation/Rotation.ts", imports("../enrollment/Enrollment.ts"), "bridges/rotation is not above"],
  ["src/bridges/identity/Guard.ts", imports("../rotation/Rotation.ts"), "bridges/identity is not above"],
  ["src/signin/access/Access.ts", imports("../oauth/grants/Grants.ts")],
  ["src/signin/oauth/grants/Grants.ts", imports("../../access/Access.ts"), "signin/oauth is not above"],
  ["src/bridges/Requirements.ts", imports("./identity/Guard.ts")],

  // Statements and HTTP.
  ["src/bridges/rotation/Rotation.ts", imports("./EndStore.ts")],
  ["src/bridges/enrollment/Revocation.ts", imports("effect/sql")],
  ["src/agents/tasks/Tasks.ts", imports("../../bridges/rotation/EndStore.ts"), ownWing],
  ["cli/commands/bridges.ts", imports("../../src/bridges/rotation/EndStore.ts"), ownWing],
  ["cli/commands/bridges.ts", imports("../../src/bridges/identity/Bridges.ts")],
  ["test/bridges/rotation.test.ts", imports("../../src/bridges/rotation/EndStore.ts"), ownWing],
  ["src/agents/tasks/Tasks.ts", imports("../../platform/database/Clock.ts")],
  ["src/bridges/rotation/Http.ts", imports("effect/http-api")],
  ["src/bridges/rotation/Http.ts", imports("./Rotation.ts")],
  ["src/bridges/rotation/Http.ts", imports("./EndStore.ts"), http],
  ["src/bridges/rotation/Http.ts", imports("effect/sql"), http],

  // The top, and what stands outside.
  ["src/App.ts", imports("./people/site/Docs.ts")],
  ["src/main.ts", imports("./Server.ts")],
  ["src/Http.ts", imports("./bridges/rotation/Http.ts")],
  ["src/platform/audit/Audit.ts", imports("../../App.ts"), top],
  ["src/main.ts", imports("../cli/service-admin.ts"), outside],
  ["src/main.ts", imports("../cli/support/remote/Served.ts")],
  ["src/App.ts", imports("../cli/support/remote/Served.ts"), outside],
  ["src/platform/database/Database.ts", imports("../../../test/support/database/Cluster.ts"), outside],
  ["src/platform/database/Database.ts", imports("../../../bench/support/load/load.ts"), outside],
  ["src/platform/database/Database.ts", imports("../../../scripts/build.mjs"), outside],

  // Every form of an import counts.
  ["src/agents/documents/Pages.ts", `export * from "../../people/site/Docs.ts"`, "agents/ is below"],
  ["src/agents/documents/Pages.ts", `export { docs } from "../../people/site/Docs.ts"`, "agents/ is below"],
  ["src/agents/documents/Pages.ts", `import type { D } from "../../people/site/Docs.ts"; export type E = D`, "agents/"],
  ["src/agents/documents/Pages.ts", `export type L = typeof import("../../people/site/Docs.ts")`, "agents/ is below"],
  ["src/agents/documents/Pages.ts", `export const m = () => import("../../people/site/Docs.ts")`, "agents/ is below"],

  ["src/weather/Sky.ts", "export const blue = 1", "has no row"],
  ["src/bridges/weather/Sky.ts", "export const blue = 1", "has no row"],
  ["src/platform/edge/Sky.ts", "export const blue = 1"],

  ["src/platform/audit/Instants.ts", "export const past = new Date(5)"],
  ["src/platform/audit/Instants.ts", "export const today = new Date()", "database clock"],
  ["src/platform/audit/Instants.ts", "export const tick = Date.now()", "database clock"],
  ["src/platform/audit/Instants.ts", "export const ticks = globalThis.Date.now", "database clock"],
  [
    "src/platform/audit/Settings.ts",
    `import { env } from "node:process"; export const all = env`,
    "environment is read"
  ],
  ["src/platform/audit/Settings.ts", "export const { env: kept } = process", "environment is read"],
  ["src/platform/settings/Settings.ts", `import { env } from "node:process"; export const all = env`],
  ["cli/commands/bridges.ts", "export const today = new Date()", "database clock"],
  ["test/platform/database/clock.test.ts", "export const today = new Date()"]
]

const cycles: typeof layers = [
  ["src/agents/documents/One.ts", `import { two } from "./Two.ts"; export const one = () => two`, "cycle"],
  ["src/agents/documents/Two.ts", `import { one } from "./One.ts"; export const two = () => one`, "cycle"],
  ["src/agents/documents/Three.ts", `import { one } from "./One.ts"; export const three = () => one`]
]

const effects: typeof layers = [
  ["src/bridges/identity/Bridges.ts", `export const home = process.env["HOME"]`, "processEnv"],
  ["src/platform/settings/Settings.ts", `export const home = process.env["HOME"]`],
  ["test/support/Home.ts", `export const home = process.env["HOME"]`],
  ["src/bridges/identity/Dice.ts", "export const die = Math.random()", "globalRandom"],
  ["test/support/Home.ts", "export const die = Math.random()"],
  ["src/bridges/identity/Dice.ts", "export const uuid = crypto.randomUUID()", "cryptoRandomUUID"],
  ["src/platform/crypto/Random.ts", "export const uuid = crypto.randomUUID()"],
  ["src/bridges/identity/Print.ts", `console.error("lost")`, "globalConsole"],
  ["src/bridges/identity/Print.ts", `export const said = Effect.log("kept")`],
  ["src/bridges/identity/Float.ts", `export const lost = Effect.sync(() => { Effect.log("lost") })`, "floatingEffect"],
  [
    "src/bridges/identity/Wire.ts",
    "export const run = Effect.void.pipe(Effect.provide(Layer.empty))",
    "strictEffectProvide"
  ],
  ["src/App.ts", "export const run = Effect.void.pipe(Effect.provide(Layer.empty))"],
  ["cli/support/run.ts", "export const run = Effect.void.pipe(Effect.provide(Layer.empty))"]
]

const root = resolve(import.meta.dirname, "../..")
const tree = mkdtempSync(join(tmpdir(), "layers-"))
afterAll(() => rmSync(tree, { recursive: true, force: true }))

/** Writes each line of code to its file, below `first`, and returns its line number there. */
const seed = (folder: string, seeds: typeof layers, first = "") => {
  const files = new Map<string, Array<string>>()
  const lines = seeds.map(([file, code]) => {
    const content = files.get(file) ?? [first]
    files.set(file, content)
    return content.push(code)
  })
  for (const path of [".oxlintrc.json", "tsconfig.json", "package.json", "scripts/layers.mjs"]) {
    cpSync(join(root, path), join(tree, folder, path))
  }
  symlinkSync(join(root, "node_modules"), join(tree, folder, "node_modules"))
  for (const [file, content] of files) {
    mkdirSync(dirname(join(tree, folder, file)), { recursive: true })
    writeFileSync(join(tree, folder, file), content.join("\n") + "\n")
  }
  return lines
}

const output = (folder: string, tool: string, ...args: ReadonlyArray<string>) =>
  new Promise<ReadonlyArray<string>>((done) => {
    const options = { cwd: join(tree, folder), maxBuffer: 1 << 26 }
    execFile(join(root, "node_modules/.bin", tool), args, options, (_, stdout) => done(stdout.split("\n")))
  })

/** Runs the tool once over the seeded tree, then makes one test per seed. `at` is the start of the tool's report. */
const proves = (
  folder: string,
  seeds: typeof layers,
  run: () => Promise<ReadonlyArray<string>>,
  at: (file: string, line: number) => string,
  first = ""
) => {
  let lines: ReadonlyArray<number> = []
  let reported: ReadonlyArray<string> = []
  beforeAll(async () => {
    lines = seed(folder, seeds, first)
    reported = await run()
  })
  it.each(seeds.map(([file, code, says], index) => ({ file, code, says, index })))("$file: $code", (seeded) => {
    const here = reported.filter((report) => report.startsWith(at(seeded.file, lines[seeded.index]!)))
    if (seeded.says === undefined) assert.deepEqual(here, [])
    else assert.include(here.join("\n"), seeded.says)
  })
}

const lint = async (folder: string, rule: string) =>
  (await output(folder, "oxlint", "--format", "unix")).filter((report) => report.includes(rule))
const linted = (file: string, line: number) => `${file}:${line}:`

describe("the linter enforces the layers, the clock and the environment", () => {
  proves("layers", layers, () => lint("layers", "house("), linted)
})

describe("the linter reports import cycles", () => {
  proves("cycles", cycles, () => lint("cycles", "no-cycle"), linted)
})

describe("the compiler reports globals that Effect has a service for (`npm run prepare` installs the plugin)", () => {
  proves(
    "effects",
    effects,
    async () => (await output("effects", "tsc", "--pretty", "false")).filter((report) => report.includes(" effect(")),
    (file, line) => `${file}(${line},`,
    `import { Effect, Layer } from "effect"; export const used = [Effect, Layer]`
  )
})

describe("docs/architecture.md", () => {
  it("lists the wings and their folders in the order that the linter enforces", () => {
    const [, enforced = ""] = /^const wings = (\{[^]*?^\})/m.exec(read("scripts/layers.mjs")) ?? []
    const wings: Record<string, ReadonlyArray<string | ReadonlyArray<string>>> = JSON.parse(
      enforced.replaceAll(/^ {2}(\w+):/gm, `"$1":`)
    )
    const documented = rows(read("docs/architecture.md")).filter(({ Wing }) => Wing !== undefined)
    assert.deepEqual(
      documented.map(({ Folders, Wing }) => [Wing, [...Folders!.matchAll(/[a-z]+/g)].map(([name]) => name)]),
      Object.entries(wings).map(([wing, folders]) => [wing, folders.flat()])
    )
  })
})
