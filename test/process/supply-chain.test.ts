/** What is installed can be verified, and a release says what it is made of (decisions.md, Verified packages). */
import { execFileSync } from "node:child_process"
import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { version } from "../../src/platform/settings/Package.ts"
import { packageRoot } from "../support/run/Root.ts"
import { read } from "../support/run/Markdown.ts"
import { commandSources, sources } from "../support/run/Sources.ts"

interface Entry {
  readonly version: string
  readonly integrity?: string
}
const lock: Readonly<Record<string, Entry>> = JSON.parse(read("package-lock.json")).packages
const nameOf = (path: string) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)
/** The packages that the server and the commands import themselves. */
const imported = [
  ...new Set(
    [...(sources + commandSources).matchAll(/^import [^"]*"((?:@[^/"]+\/)?[^./"][^/"]*)/gm)].map(([, name]) => name!)
  )
].filter((name) => !name.startsWith("node:"))
const packages = Object.entries(lock)
  .filter(([path]) => path !== "")
  .map(([path, entry]) => ({ ...entry, id: `${nameOf(path)} ${entry.version}` }))

describe("npm ci", () => {
  const folder = mkdtempSync(join(tmpdir(), "service-lock-"))
  for (const file of ["package.json", "package-lock.json"]) cpSync(join(packageRoot, file), join(folder, file))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const unverified = new Set(packages.filter(({ integrity }) => integrity === undefined).map(({ id }) => id))

  it.each([
    ["linux", "x64", "glibc"],
    ["linux", "x64", "musl"],
    ["linux", "arm64", "glibc"],
    ["linux", "arm64", "musl"],
    ["linux", "arm", "glibc"],
    ["linux", "ppc64", "glibc"],
    ["linux", "riscv64", "glibc"],
    ["linux", "s390x", "glibc"],
    ["darwin", "arm64", ""],
    ["darwin", "x64", ""],
    ["freebsd", "x64", ""],
    ["android", "arm64", ""],
    ["openharmony", "arm64", ""],
    ["win32", "x64", ""],
    ["win32", "arm64", ""]
  ])("installs only packages whose integrity the lock file has, on %s %s %s", { timeout: 60_000 }, (os, cpu, libc) => {
    const platform = [`--os=${os}`, `--cpu=${cpu}`, ...(libc === "" ? [] : [`--libc=${libc}`])]
    const output = execFileSync(
      "npm",
      ["ci", "--dry-run", "--ignore-scripts", "--offline", "--loglevel=notice", ...platform],
      {
        cwd: folder,
        encoding: "utf8",
        stdio: "pipe"
      }
    )
    const installed = [...output.matchAll(/^add (.+)$/gm)].map(([, id]) => id!)
    assert.isAbove(installed.length, 300)
    assert.deepStrictEqual(
      installed.filter((id) => unverified.has(id)),
      []
    )
  })

  it("has a strong hash for every other package", () => {
    const others = packages.filter(({ id }) => !unverified.has(id))
    assert.deepStrictEqual(
      others.filter(({ integrity }) => !integrity!.startsWith("sha512-")),
      []
    )
  })
})

describe("npm run sbom", () => {
  it("names this release, and every package that runs in production with its hash", { timeout: 60_000 }, () => {
    const bill = JSON.parse(
      execFileSync("npm", ["run", "-s", "sbom"], { cwd: packageRoot, encoding: "utf8", stdio: "pipe" })
    )
    assert.strictEqual(bill.bomFormat, "CycloneDX")
    const { name, version: released } = bill.metadata.component
    assert.deepStrictEqual([name, released], ["@bridge-service/server", version])

    const named = bill.components.map((one: { name: string; version: string }) => `${one.name} ${one.version}`)
    const direct = imported.map((name) => `${name} ${lock[`node_modules/${name}`]!.version}`)
    assert.includeMembers(direct, ["effect 4.1.0"])
    assert.includeMembers(named, direct)
    assert.isFalse(named.some((id: string) => id.startsWith("vitest")))
    for (const { hashes, name } of bill.components) assert.isNotEmpty(hashes, name)
  })
})
