/** secrets.env of the embedded database gets the secrets that a later release needs (decisions.md, Secrets). */
import { execFile } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { packageRoot } from "../../src/platform/settings/Package.ts"

let folder: string
let file: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "secrets-file-test-"))
  file = join(folder, "secrets.env")
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** What a process reads as the OAuth secret, or `none`; it looks at `at`, so that several look at once. */
const started = async (at = 0, limits = "true", layer: "layer" | "layerUnchanged" = "layer") => {
  const code = `
    import { ConfigProvider, Context, Effect, Layer, Logger, Redacted } from "effect"
    import { Settings } from "./src/platform/settings/Settings.ts"
    while (Date.now() < ${at});
    const read = Effect.map(Layer.build(Settings.${layer}), (context) => Context.get(context, Settings).oauth)
    const { secret } = await Effect.runPromise(Effect.scoped(read).pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown({ SERVICE_DATA_DIR: "${folder}" })),
      Effect.provide(Logger.layer([]))))
    process.stdout.write(secret === undefined ? "none" : Redacted.value(secret))`
  const { stdout } = await promisify(execFile)(
    "/bin/sh",
    ["-c", `${limits}; exec "$0" --input-type=module -e "$1"`, process.execPath, code],
    { cwd: packageRoot }
  )
  return stdout
}

/** The file of a release that knew two secrets, without a newline at its end. */
const older = [
  "# kept by hand",
  `SERVICE_BRIDGE_ENROLLMENT_SECRET=${"e".repeat(40)}`,
  `SERVICE_BRIDGE_TOKEN_SECRET=${"t".repeat(40)}`
].join("\n")

describe("secrets.env", () => {
  it("of a new service holds three secrets, readable by its owner only", async () => {
    const secret = await started()
    const lines = readFileSync(file, "utf8").trimEnd().split("\n")
    expect(lines.map((line) => line.split("=")[0])).toEqual([
      "SERVICE_BRIDGE_ENROLLMENT_SECRET",
      "SERVICE_BRIDGE_TOKEN_SECRET",
      "SERVICE_OAUTH_SECRET"
    ])
    expect(new Set(lines.map((line) => line.split("=")[1])).size).toBe(3)
    expect(lines[2]).toBe(`SERVICE_OAUTH_SECRET=${secret}`)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it("of an older release gets the secret that it lacks, and every process that starts at once uses the same", async () => {
    writeFileSync(file, older, { mode: 0o600 })
    const at = Date.now() + 3000
    const seen = await Promise.all(Array.from({ length: 4 }, () => started(at)))
    expect(new Set(seen).size).toBe(1)
    expect(Buffer.from(seen[0]!, "base64url")).toHaveLength(32)
    const text = readFileSync(file, "utf8")
    expect(text.startsWith(`${older}\nSERVICE_OAUTH_SECRET=`)).toBe(true)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(await started()).toBe(seen[0])
    expect(readFileSync(file, "utf8")).toBe(text)
  })

  it("uses the first of two lines with one name", async () => {
    const [first, second] = ["f".repeat(40), "s".repeat(40)]
    writeFileSync(file, `${older}\nSERVICE_OAUTH_SECRET=${first}\nSERVICE_OAUTH_SECRET=${second}\n`)
    expect(await started()).toBe(first)
  })

  it("that cannot be written stops no start: the service runs without the new secret", async () => {
    writeFileSync(file, older)
    expect(await started(0, "trap '' XFSZ; ulimit -f 0")).toBe("none")
    expect(readFileSync(file, "utf8")).toBe(older)
  })

  it("is not changed by doctor", async () => {
    writeFileSync(file, older)
    chmodSync(file, 0o600)
    expect(await started(0, "true", "layerUnchanged")).toBe("none")
    expect(readFileSync(file, "utf8")).toBe(older)
  })
})
