/**
 * `npm run release`: makes the files of a release from the last commit in `release/`, with their checksums, which
 * `--key FILE` signs with an SSH key. It builds twice, in clones that differ in path, time, time zone and umask, and
 * stops unless both are the same byte for byte. Only files that nobody but their owner can read would differ: npm packs
 * them as they are.
 */
import { execFileSync, spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"

const root = join(import.meta.dirname, "../..")

/** Writes SHA256SUMS of the files in a folder and, with a key, its signature. */
export const seal = (folder: string, key?: string) => {
  const sum = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex")
  const lines = readdirSync(folder).map((name) => `${sum(name)}  ${name}\n`)
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""))
  if (key === undefined) return
  const sign = ["-q", "-Y", "sign", "-f", key, "-n", "bridge-service", join(folder, "SHA256SUMS")]
  execFileSync("ssh-keygen", sign, { stdio: ["inherit", "ignore", "inherit"] })
}

/** The files of a release by name, built in a clone that is removed again. */
const built = (path: string, umask: number, zone: string): ReadonlyMap<string, Buffer> => {
  const clone = mkdtempSync(join(tmpdir(), path))
  process.umask(umask)
  const env = { ...process.env, TZ: zone }
  const run = (program: string, ...args: ReadonlyArray<string>) =>
    execFileSync(program, args, { cwd: clone, env, stdio: ["ignore", "pipe", "inherit"], maxBuffer: 64 * 1024 * 1024 })
  try {
    run("git", "clone", "--quiet", root, ".")
    run("npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
    run("npm", "run", "-s", "pack")
    const packages = readdirSync(clone).filter((name) => name.endsWith(".tgz"))
    return new Map([
      ...packages.map((name) => [name, readFileSync(join(clone, name))] as const),
      ["sbom.json", run("npm", "run", "-s", "sbom")]
    ])
  } finally {
    rmSync(clone, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { key: { type: "string" } } })
  const { stdout: changed } = spawnSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" })
  if (changed !== "") throw new Error(`A release is made from the last commit; this is not in it:\n${changed}`)

  const files = built("release-", 0o022, "UTC")
  const again = built("release-of-another-path-", 0o002, "Asia/Kathmandu")
  for (const [name, content] of files) {
    if (again.get(name)?.equals(content) !== true) throw new Error(`${name} differs between two builds.`)
  }

  process.umask(0o022)
  const folder = join(root, "release")
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  for (const [name, content] of files) writeFileSync(join(folder, name), content)
  seal(folder, values.key)
  process.stdout.write(readFileSync(join(folder, "SHA256SUMS")))
}
