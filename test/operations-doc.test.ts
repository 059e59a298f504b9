/** docs/operations.md says what there is to set, to type and to read: it is compared with the code. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Layer } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Settings } from "../src/Config.ts"
import { packageRoot } from "../src/Package.ts"
import { read, rows, sections } from "./support/Markdown.ts"
import { environment } from "./support/Service.ts"

const parts = sections(read("docs/operations.md"), 2)

/** The least that a start needs; with it, every other setting has its default. */
const least = {
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
  settings(ConfigProvider.fromUnknown({ ...least, ...environment }))

describe("the settings of docs/operations.md", () => {
  const documented = rows(parts.get("Settings")!) as ReadonlyArray<Record<"Name" | "Default" | "Bounds", string>>

  it.effect("are those that the service reads, and no other", () =>
    Effect.gen(function* () {
      const asked = new Set<string>()
      const values = ConfigProvider.fromUnknown(least)
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

  it.effect.each(documented.filter(({ Default }) => Default !== ""))("$Name has the default $Default", (setting) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* given({ [setting.Name]: setting.Default }), {
        ...(yield* given({})),
        // The one setting whose default is made from others; what it was made of stays visible.
        ...(setting.Name === "SERVICE_BASE_URL" && {
          http: { ...(yield* given({})).http, baseUrl: setting.Default }
        })
      })
    })
  )

  it.effect.each(documented.filter(({ Bounds }) => / to \d/.test(Bounds)))("$Name goes from $Bounds", (setting) =>
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

const sources = readdirSync(join(packageRoot, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.startsWith("client"))
  .map((file) => readFileSync(join(packageRoot, "src", file), "utf8"))
  .join("\n")

describe("docs/operations.md", () => {
  it("explains every log line, and no other", () => {
    const logged = [...sources.matchAll(/\blog(?:Info|Warning|Error|Fatal)?\(\s*["`](?=[A-Z])([^"`$]+)/g)].map(
      ([, said]) => said!.trim()
    )
    const explained = rows(parts.get("Watch")!).map(({ Line }) => Line!.replace(/ ?…$/, ""))
    assert.isNotEmpty(logged)
    for (const line of logged)
      assert.isTrue(
        explained.some((start) => line.startsWith(start)),
        line
      )
    for (const start of explained) assert.include(sources, start)
  })

  it("names every audit action, and no other", () => {
    const written = sources.matchAll(/"((?:project|account_reference|bridge|bridge_credential)\.[a-z_]+)"/g)
    assert.sameMembers(
      rows(parts.get("Audit")!).map(({ Action }) => Action),
      [...new Set([...written].map(([, action]) => action))]
    )
  })
})
