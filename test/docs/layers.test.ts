/** Every rule of the house bites: a violation of each is written to a tree of its own, and the linters must see it. */
import { execFile } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"

const imports = (path: string) => `import ${JSON.stringify(path)}`
const ownOnly = "imported by its own domain only"
const nothing = "Nothing in src/ imports"
const shareable = "Api.ts and Errors.ts are shareable"
const tables = "A Store.ts knows tables"
const http = "Only the Http.ts and Api.ts of a domain know HTTP"
const leaves = "they import no other domain"
const above = "does not stand above"

/** File, line of code, what the linter must say about it (nothing when it is harmless). */
const layers: ReadonlyArray<readonly [file: string, code: string, says?: string]> = [
  ["src/wire/Ids.ts", imports("effect/Schema")],
  ["src/wire/Ids.ts", imports("./Text.ts")],
  ["src/wire/Ids.ts", imports("node:crypto"), "wire/ knows nobody"],
  ["src/wire/Ids.ts", imports("../Config.ts"), "wire/ knows nobody"],
  ["src/wire/Ids.ts", imports("@noble/ed25519"), "wire/ knows nobody"],

  ["src/wire/bridges/EnrollmentApi.ts", imports("effect/http-api")],
  ["src/wire/bridges/EnrollmentApi.ts", imports("../wire/Ids.ts")],
  ["src/wire/bridges/EnrollmentApi.ts", imports("../bridge/Errors.ts")],
  ["src/wire/bridges/EnrollmentApi.ts", imports("../bridge/Bridges.ts"), shareable],
  ["src/wire/bridges/EnrollmentApi.ts", imports("../database/Clock.ts"), shareable],
  ["src/wire/bridges/EnrollmentErrors.ts", imports("../wire/Refusal.ts")],
  ["src/wire/bridges/EnrollmentErrors.ts", imports("./Enrollment.ts"), shareable],
  ["src/wire/bridges/EnrollmentErrors.ts", imports("node:http"), shareable],
  ["src/wire/Api.ts", imports("./enrollment/Api.ts")],
  ["src/wire/Api.ts", imports("./enrollment/Http.ts"), shareable],

  ["src/bridges/enrollment/Enrollment.ts", imports("effect")],
  ["src/bridges/enrollment/Enrollment.ts", imports("./ProofStore.ts")],
  ["src/bridges/enrollment/Enrollment.ts", imports("./Api.ts")],
  ["src/bridges/enrollment/Enrollment.ts", imports("../crypto/Tokens.ts")],
  ["src/bridges/enrollment/Enrollment.ts", imports("effect/http"), http],
  ["src/bridges/enrollment/Enrollment.ts", imports("effect/http/HttpRouter"), http],
  ["src/bridges/enrollment/Enrollment.ts", imports("effect/http-api"), http],
  ["src/bridges/enrollment/Enrollment.ts", imports("../Api.ts"), http],
  ["src/bridges/enrollment/Enrollment.ts", imports("./Http.ts"), "An Http.ts is mounted"],
  ["src/agents/mcp/Handlers.ts", imports("effect/http-api"), http],
  ["src/agents/mcp/Http.ts", imports("effect/http-api")],
  ["src/agents/mcp/Http.ts", imports("../Api.ts")],
  ["src/agents/mcp/Http.ts", imports("../mobile/Http.ts"), "An Http.ts is mounted"],
  ["src/signin/oauth/Http.ts", imports("./FlatHttp.ts")],
  ["src/Http.ts", imports("./mcp/Http.ts")],

  ["src/bridges/enrollment/ProofStore.ts", imports("effect/sql")],
  ["src/bridges/enrollment/ProofStore.ts", imports("../wire/Rows.ts")],
  ["src/bridges/enrollment/ProofStore.ts", imports("../bridge/Identity.ts")],
  ["src/bridges/enrollment/ProofStore.ts", imports("../bridge/Bridges.ts"), tables],
  ["src/bridges/enrollment/ProofStore.ts", imports("../bridge/Store.ts"), ownOnly],
  ["src/bridges/enrollment/ProofStore.ts", imports("./Enrollment.ts"), tables],
  ["src/bridges/rotation/RotationStore.ts", imports("../bridge/Identity.ts")],
  ["src/signin/access/AccessStore.ts", imports("../bridge/Identity.ts"), tables],
  ["src/signin/oauth/tokens/CodeStore.ts", imports("./AccessTokenStore.ts")],
  ["src/signin/oauth/tokens/CodeStore.ts", imports("./Codes.ts"), tables],
  ["src/signin/oauth/tokens/CodeStore.ts", imports("../access/Store.ts"), ownOnly],
  ["src/signin/access/AccessStore.ts", imports("effect/http"), tables],
  ["src/signin/access/AccessStore.ts", imports("../crypto/Tokens.ts"), tables],
  ["src/bridges/rotation/Rotation.ts", imports("./Store.ts")],
  ["src/bridges/rotation/Rotation.ts", imports("../bridge/Store.ts"), ownOnly],
  ["src/App.ts", imports("./bridge/Store.ts"), ownOnly],
  ["cli/list-bridges.ts", imports("../src/bridge/Store.ts"), ownOnly],
  ["cli/list-bridges.ts", imports("../src/bridge/Bridges.ts")],
  ["test/bridges/enrollment.test.ts", imports("../src/enrollment/ProofStore.ts"), ownOnly],

  ["src/bridges/enrollment/Enrollment.ts", imports("../bridge/Bridges.ts")],
  ["src/bridges/rotation/Rotation.ts", imports("../bridge/Bridges.ts")],
  ["src/bridges/identity/Bridges.ts", imports("../enrollment/Enrollment.ts"), above],
  ["src/bridges/identity/Bridges.ts", imports("../rotation/Errors.ts"), above],
  ["src/bridges/rotation/Rotation.ts", imports("../enrollment/Enrollment.ts"), above],
  ["src/agents/mcp/Handlers.ts", imports("../access/Access.ts")],
  ["src/mobile/Mobile.ts", imports("../access/Access.ts")],
  ["src/signin/access/Access.ts", imports("../oauth/OAuth.ts")],
  ["src/signin/access/Access.ts", imports("../mcp/Tools.ts"), above],
  ["src/signin/access/Access.ts", imports("../mobile/Mobile.ts"), above],
  ["src/oauth/OAuth.ts", imports("../access/Access.ts"), above],
  ["src/signin/oauth/Http.ts", imports("../mcp/Tools.ts"), above],
  ["src/agents/tasks/Tasks.ts", imports("../push/Outbox.ts")],
  ["src/agents/tasks/Tasks.ts", imports("../push/Devices.ts"), above],
  ["src/bridges/identity/Bridges.ts", imports("../audit/Audit.ts")],
  ["src/oauth/OAuth.ts", imports("../projects/Projects.ts")],
  ["src/operator/projects/Projects.ts", imports("../database/Clock.ts")],
  ["src/operator/projects/Projects.ts", imports("../audit/Audit.ts")],
  ["src/operator/projects/Projects.ts", imports("../bridge/Bridges.ts"), leaves],
  ["src/platform/audit/Audit.ts", imports("../bridge/Bridges.ts"), leaves],
  ["src/push/outbox/Outbox.ts", imports("../bridge/Bridges.ts"), leaves],
  ["src/push/outbox/Outbox.ts", imports("./Errors.ts")],
  ["src/signin/oauth/consent/Pages.ts", imports("../site/Html.ts")],
  ["src/signin/oauth/consent/Pages.ts", imports("../site/Docs.ts"), above],
  ["src/platform/html/Page.ts", imports("../oauth/OAuth.ts"), leaves],
  ["src/people/site/Docs.ts", imports("../mcp/Tools.ts")],
  ["src/agents/mcp/Http.ts", imports("../site/Docs.ts"), above],

  ["src/client/Client.ts", imports("../Api.ts")],
  ["src/client/Client.ts", imports("../wire/Ids.ts")],
  ["src/client/Client.ts", imports("../crypto/Ed25519.ts")],
  ["src/client/Client.ts", imports("effect/http")],
  ["src/client/Client.ts", imports("../enrollment/Enrollment.ts"), "client/ runs without the server"],
  ["src/client/Client.ts", imports("../Config.ts"), "client/ runs without the server"],
  ["src/bridges/enrollment/Http.ts", imports("../client/Client.ts"), "client/ is for whoever calls"],
  ["src/platform/crypto/Tokens.ts", imports("node:crypto")],
  ["src/platform/crypto/Tokens.ts", imports("../bridge/Bridges.ts"), "What is no domain"],
  ["src/platform/edge/Requirements.ts", imports("../bridge/Errors.ts")],

  ["src/main.ts", imports("./App.ts")],
  ["src/main.ts", imports("../cli/service-admin.ts"), nothing],
  ["src/platform/database/Database.ts", imports("../../test/support/Database.ts"), nothing],
  ["src/platform/database/Database.ts", imports("../../bench/load.ts"), nothing],
  ["src/platform/database/Database.ts", imports("../../scripts/build.mjs"), nothing],
  ["src/platform/audit/Audit.ts", imports("../App.ts"), "top of the graph"],

  ["src/documents/Pages.ts", `export * from "../../mcp/Tools.ts"`, above],
  ["src/documents/Pages.ts", `export { tools } from "../../mcp/Tools.ts"`, above],
  ["src/documents/Pages.ts", `import type { Tools } from "../../mcp/Tools.ts"; export type T = Tools`, above],
  ["src/documents/Pages.ts", `export type Listed = typeof import("../../mcp/Tools.ts")`, above],
  ["src/documents/Pages.ts", `export const later = () => import("../../mcp/Tools.ts")`, above],

  ["src/weather/Sky.ts", "export const blue = 1", "has no row"],
  ["src/edge/Sky.ts", "export const blue = 1"],
  ["src/metrics/Sky.ts", "export const blue = 1"],
  ["src/people/operator/Gauges.ts", imports("../bridge/Errors.ts")],
  ["src/people/operator/Gauges.ts", imports("../bridge/Bridges.ts"), "What is no domain"],

  ["src/audit/Instants.ts", "export const past = new Date(5)"],
  ["src/audit/Instants.ts", "export const today = new Date()", "database clock"],
  ["src/audit/Instants.ts", "export const tick = Date.now()", "database clock"],
  ["src/audit/Instants.ts", "export const ticks = globalThis.Date.now", "database clock"],
  ["src/audit/Settings.ts", `import { env } from "node:process"; export const all = env`, "read in Config.ts"],
  ["src/audit/Settings.ts", "export const { env: kept } = process", "read in Config.ts"],
  ["src/platform/settings/Settings.ts", `import { env } from "node:process"; export const all = env`],
  ["test/platform/clock.test.ts", "export const today = new Date()"]
]

const cycles: typeof layers = [
  ["src/documents/One.ts", `import { two } from "../Two.ts"; export const one = () => two`, "cycle"],
  ["src/documents/Two.ts", `import { one } from "../One.ts"; export const two = () => one`, "cycle"],
  ["src/documents/Three.ts", `import { one } from "../One.ts"; export const three = () => one`]
]

const effects: typeof layers = [
  ["src/bridges/identity/Bridges.ts", `export const home = process.env["HOME"]`, "processEnv"],
  ["src/platform/settings/Settings.ts", `export const home = process.env["HOME"]`],
  ["test/support/Home.ts", `export const home = process.env["HOME"]`],
  ["src/bridge/Dice.ts", "export const die = Math.random()", "globalRandom"],
  ["test/support/Home.ts", "export const die = Math.random()"],
  ["src/bridge/Dice.ts", "export const uuid = crypto.randomUUID()", "cryptoRandomUUID"],
  ["src/platform/crypto/Random.ts", "export const uuid = crypto.randomUUID()"],
  ["src/bridge/Print.ts", `console.error("lost")`, "globalConsole"],
  ["src/bridge/Print.ts", `export const said = Effect.log("kept")`],
  ["src/bridge/Float.ts", `export const lost = Effect.sync(() => { Effect.log("lost") })`, "floatingEffect"],
  ["src/bridge/Wire.ts", "export const run = Effect.void.pipe(Effect.provide(Layer.empty))", "strictEffectProvide"],
  ["src/App.ts", "export const run = Effect.void.pipe(Effect.provide(Layer.empty))"],
  ["cli/support/run.ts", "export const run = Effect.void.pipe(Effect.provide(Layer.empty))"]
]

const root = resolve(import.meta.dirname, "../..")
const tree = mkdtempSync(join(tmpdir(), "layers-"))
afterAll(() => rmSync(tree, { recursive: true, force: true }))

/** Writes each line to its file, after the given first line, and answers the line's number there. */
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

/** One run of the tool over the seeded tree, then one test for each seed. `at` is how the tool begins a report. */
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

describe("the linter keeps the layers, the clock and the environment", () => {
  proves("layers", layers, () => lint("layers", "house("), linted)
})

describe("the linter finds a circle", () => {
  proves("cycles", cycles, () => lint("cycles", "no-cycle"), linted)
})

describe("the compiler finds what Effect has a service for (`npm run prepare` teaches it)", () => {
  proves(
    "effects",
    effects,
    async () => (await output("effects", "tsc", "--pretty", "false")).filter((report) => report.includes(" effect(")),
    (file, line) => `${file}(${line},`,
    `import { Effect, Layer } from "effect"; export const used = [Effect, Layer]`
  )
})
