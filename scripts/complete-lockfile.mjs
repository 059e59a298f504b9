// Run after `npm install <package>`. If the registry does not serve an optional package (a mirror without the builds for
// other platforms), npm leaves it out of package-lock.json, and `npm ci` then rejects the lock file on every machine.
// This script adds the missing entries: the version from the parent package, the platform from the package's name.
import { readFileSync, writeFileSync } from "node:fs"

const file = new URL("../package-lock.json", import.meta.url)
const lock = JSON.parse(readFileSync(file, "utf8"))
const words = {
  os: ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32"],
  cpu: ["arm", "arm64", "ia32", "loong64", "mips64el", "ppc64", "riscv64", "s390x", "x64"]
}

let added = 0
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`
    if (lock.packages[key] !== undefined || !/^\d/.test(version)) continue
    const parts = name.split(/[/-]/)
    const only = (of) => words[of].filter((word) => parts.includes(word))
    const libc = parts.some((part) => part.startsWith("musl")) ? "musl" : parts.includes("gnu") ? "glibc" : undefined
    if (only("os").length !== 1 || only("cpu").length !== 1)
      throw new Error(`The name ${name} does not tell its platform; add its entry to package-lock.json by hand.`)
    const dev = parent.dev === true ? { dev: true } : {}
    lock.packages[key] = {
      version,
      cpu: only("cpu"),
      ...dev,
      ...(libc === undefined ? {} : { libc: [libc] }),
      optional: true,
      os: only("os")
    }
    added += 1
  }
}

const [root, ...rest] = Object.entries(lock.packages)
rest.sort(([left], [right]) => left.localeCompare(right, "en"))
lock.packages = Object.fromEntries([root, ...rest])
writeFileSync(file, JSON.stringify(lock, undefined, 2) + "\n")
process.stdout.write(`Added ${added} entries to package-lock.json.\n`)
