/** secrets.env: what a start adds to it, what is read from it, and when it is refused. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Redacted, References } from "effect"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { isRoot } from "../../../src/platform/database/embedded/PostgresAccount.ts"
import { generatedSecrets } from "../../../src/platform/settings/Secrets.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { checkout, temporaryFolder } from "../../support/database/PostgresUser.ts"

const enrollment = `SERVICE_BRIDGE_ENROLLMENT_SECRET=${"e".repeat(40)}\n`
const token = `SERVICE_BRIDGE_TOKEN_SECRET=${"t".repeat(40)}\n`

/** A data folder with this secrets.env. */
const folderWith = Effect.fnUntraced(function* (text: string) {
  const folder = yield* temporaryFolder
  const file = join(folder, "secrets.env")
  fs.writeFileSync(file, text, { mode: 0o600 })
  return { folder, file, read: () => fs.readFileSync(file, "utf8") }
})

const start = (folder: string) => Effect.provideService(generatedSecrets(folder), References.MinimumLogLevel, "None")

const settings = (folder: string, others: Readonly<Record<string, string>> = {}) =>
  Effect.service(Settings).pipe(
    Effect.provide(
      Settings.layer.pipe(
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ SERVICE_DATA_DIR: folder, ...others })))
      )
    ),
    Effect.provideService(References.MinimumLogLevel, "None")
  )

describe("a data folder", () => {
  it.effect.skipIf(process.platform !== "linux")("that the system does not let anybody make ends the start", () =>
    Effect.gen(function* () {
      const { _tag } = yield* Effect.flip(start("/proc/nowhere/data"))
      assert.strictEqual(_tag, "SecretsError")
    })
  )
})

describe("a start with a wrong setting", () => {
  it.effect("makes neither data folder nor secrets", () =>
    Effect.gen(function* () {
      const folder = join(yield* temporaryFolder, "data")
      for (const wrong of [{ SERVICE_PORT: "abc" }, { SERVICE_HOST: "0.0.0.0" }, { SERVICE_OAUTH_SECRET: "short" }]) {
        const { _tag } = yield* Effect.flip(settings(folder, wrong))
        assert.strictEqual(_tag, "ConfigurationError")
        assert.isFalse(fs.existsSync(folder))
      }
    })
  )

  it.effect("leaves secrets.env as an earlier release wrote it", () =>
    Effect.gen(function* () {
      const { folder, read } = yield* folderWith(enrollment + token)
      const { _tag } = yield* Effect.flip(settings(folder, { SERVICE_PORT: "abc" }))
      assert.strictEqual(_tag, "ConfigurationError")
      assert.strictEqual(read(), enrollment + token)
      assert.deepStrictEqual(fs.readdirSync(folder), ["secrets.env"])
    })
  )
})

describe("a start adds to secrets.env", () => {
  it.effect("a secret that an earlier release did not have, and keeps the others", () =>
    Effect.gen(function* () {
      // No line feed at the end, as an editor may leave it.
      const { file, folder, read } = yield* folderWith(enrollment + token.trim())
      yield* start(folder)
      assert.match(
        read(),
        new RegExp(`^${enrollment}${token}SERVICE_OAUTH_SECRET=[\\w-]{43}\\nSERVICE_BACKUP_KEY=[\\w-]{43}\\n$`)
      )
      assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
      const before = read()
      yield* start(folder)
      assert.strictEqual(read(), before)
      assert.deepStrictEqual(fs.readdirSync(folder), ["secrets.env"])
    })
  )

  it.effect("a value for a name that an editor left with spaces, and keeps the line after it", () =>
    Effect.gen(function* () {
      const { folder, read } = yield* folderWith(
        `SERVICE_BACKUP_KEY= \n${enrollment}SERVICE_OAUTH_SECRET=\t\r\n${token}`
      )
      yield* start(folder)
      assert.match(read(), /\nSERVICE_OAUTH_SECRET=[\w-]{43}\nSERVICE_BACKUP_KEY=[\w-]{43}\n$/)
      const { bridge } = yield* settings(folder)
      assert.strictEqual(Redacted.value(bridge.enrollmentSecret), "e".repeat(40))
      assert.strictEqual(Redacted.value(bridge.tokenSecret), "t".repeat(40))
    })
  )

  it.effect("the lines that a killed start had proposed", () =>
    Effect.gen(function* () {
      const { folder, read } = yield* folderWith(enrollment + token)
      fs.writeFileSync(join(folder, "secrets.env.new"), `SERVICE_BACKUP_KEY=${"b".repeat(43)}\n`, { mode: 0o600 })
      yield* start(folder)
      const proposed = `${enrollment}${token}SERVICE_BACKUP_KEY=${"b".repeat(43)}\n`
      assert.match(read(), new RegExp(`^${proposed}SERVICE_OAUTH_SECRET=[\\w-]{43}\\n$`))
      assert.deepStrictEqual(fs.readdirSync(folder), ["secrets.env"])
    })
  )

  it.live("the same key in every process that starts at that moment", () =>
    Effect.gen(function* () {
      const { folder, read } = yield* folderWith(enrollment + token)
      const program = `
        import { Config, Effect, References } from "effect"
        import { generatedSecrets } from "${checkout}/src/platform/settings/Secrets.ts"
        const read = Effect.flatMap(generatedSecrets(process.argv[1]), Config.String("SERVICE_BACKUP_KEY").parse)
        const value = await Effect.runPromise(Effect.provideService(read, References.MinimumLogLevel, "None"))
        console.log(value)`
      const run = Effect.promise(() =>
        promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, folder], { cwd: checkout })
      )
      const seen = yield* Effect.replicateEffect(run, 6, { concurrency: "unbounded" })
      const kept = /^SERVICE_BACKUP_KEY=(.*)$/m.exec(read())?.[1]
      assert.deepStrictEqual(new Set(seen.map(({ stdout }) => stdout.trim())), new Set([kept]))
    })
  )
})

describe("beside a database a start", () => {
  const withDatabase = Effect.fnUntraced(function* (text: string) {
    const made = yield* folderWith(text)
    fs.mkdirSync(join(made.folder, "postgres"))
    return made
  })
  const lacks = (file: string, names: string) =>
    `${file} lacks ${names}, which an earlier start wrote there: put your copy of the file back. If there is none, add a line NAME=VALUE for each, with the output of openssl rand -base64 32.`
  const oauth = `SERVICE_OAUTH_SECRET=${"o".repeat(40)}\n`
  const backup = `SERVICE_BACKUP_KEY=${"b".repeat(40)}\n`

  it.effect.each([
    ["a secret", enrollment + oauth + backup, "SERVICE_BRIDGE_TOKEN_SECRET"],
    ["one of two that a release brought", enrollment + token + oauth, "SERVICE_BACKUP_KEY"],
    ["all of them", "\n", "SERVICE_BRIDGE_ENROLLMENT_SECRET and SERVICE_BRIDGE_TOKEN_SECRET"]
  ] as const)("stops if %s is gone from the file, and leaves the file as it is", ([, text, names]) =>
    Effect.gen(function* () {
      const { file, folder, read } = yield* withDatabase(text)
      const { _tag, message } = yield* Effect.flip(settings(folder))
      assert.deepStrictEqual([_tag, message], ["SecretsError", lacks(file, names)])
      assert.strictEqual(read(), text)
    })
  )

  it.effect("stops if the file is gone, and makes none", () =>
    Effect.gen(function* () {
      const { file, folder } = yield* withDatabase("")
      fs.rmSync(file)
      const { message } = yield* Effect.flip(settings(folder))
      assert.strictEqual(message, lacks(file, "SERVICE_BRIDGE_ENROLLMENT_SECRET and SERVICE_BRIDGE_TOKEN_SECRET"))
      assert.isFalse(fs.existsSync(file))
    })
  )

  it.effect("adds what a later release brought", () =>
    Effect.gen(function* () {
      const { folder, read } = yield* withDatabase(enrollment + token)
      yield* start(folder)
      assert.match(read(), /\nSERVICE_OAUTH_SECRET=[\w-]{43}\nSERVICE_BACKUP_KEY=[\w-]{43}\n$/)
    })
  )

  it.effect("needs no line for what the environment sets", () =>
    Effect.gen(function* () {
      const { folder } = yield* withDatabase(enrollment)
      const { bridge } = yield* settings(folder, { SERVICE_BRIDGE_TOKEN_SECRET: "s".repeat(40) })
      assert.strictEqual(Redacted.value(bridge.tokenSecret), "s".repeat(40))
    })
  )
})

describe("secrets.env supplies", () => {
  it.effect("secrets, and no other setting", () =>
    Effect.gen(function* () {
      const lines =
        "SERVICE_BASE_URL=https://attacker.example\nSERVICE_APNS_ORIGIN_PRODUCTION=https://attacker.example\n"
      const { folder } = yield* folderWith(enrollment + token + lines)
      const { baseUrl, bridge, push } = yield* settings(folder)
      assert.strictEqual(Redacted.value(bridge.tokenSecret), "t".repeat(40))
      assert.strictEqual(baseUrl.origin, "http://127.0.0.1:8787")
      assert.strictEqual(push.origins.production, "https://api.push.apple.com")
    })
  )
})

describe("a start stops, and names the command that mends it, if", () => {
  const refused = Effect.fnUntraced(function* (folder: string) {
    const { _tag, message } = yield* Effect.flip(start(folder))
    assert.strictEqual(_tag, "DataFolderError")
    return message
  })

  for (const mode of [0o770, 0o757])
    it.effect(`others can write to the data folder: ${mode.toString(8)}`, () =>
      Effect.gen(function* () {
        const { folder, read } = yield* folderWith(enrollment)
        fs.chmodSync(folder, mode)
        assert.strictEqual(yield* refused(folder), `Other accounts can write to ${folder}; run: chmod go-w ${folder}`)
        assert.strictEqual(read(), enrollment)
      })
    )

  for (const mode of [0o640, 0o604])
    it.effect(`others can read secrets.env: ${mode.toString(8)}`, () =>
      Effect.gen(function* () {
        const { file, folder } = yield* folderWith(enrollment)
        fs.chmodSync(file, mode)
        assert.strictEqual(yield* refused(folder), `Other accounts can read ${file}; run: chmod 600 ${file}`)
      })
    )

  it.effect.skipIf(!isRoot())("the folder or secrets.env belongs to another account (needs root)", () =>
    Effect.gen(function* () {
      const { file, folder } = yield* folderWith(enrollment)
      const foreign = (path: string) =>
        `${path} belongs to another account: start as that account, or run: chown 0 ${path}`
      fs.chownSync(file, 65534, 65534)
      assert.strictEqual(yield* refused(folder), foreign(file))
      fs.chownSync(folder, 65534, 65534)
      assert.strictEqual(yield* refused(folder), foreign(folder))
    })
  )
})
