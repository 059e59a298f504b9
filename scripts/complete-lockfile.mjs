// After `npm install <package>`: npm leaves an optional package out of package-lock.json when the registry could not
// serve it (a mirror without the builds for other platforms), and `npm ci` then refuses the lock file everywhere.
// This writes the missing entries from what the parent package pins and from the platform that the name spells.
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
    if (only("os").length !== 1 || only("cpu").length !== 1) throw new Error(`No platform in the name ${name}`)
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
process.stdout.write(`${added} entries added\n`)
