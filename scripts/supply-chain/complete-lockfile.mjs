// Run after `npm install <package>`. If the registry does not serve an optional package (a mirror without the builds for
// other platforms), npm leaves it out of package-lock.json, and `npm ci` then rejects the lock file on every machine.
// This script adds the missing entries. They have no integrity, so nobody could tell what a registry serves under their
// names: their platform is "unverified", which no machine is, and npm installs them nowhere. On a registry that serves
// them, delete these entries and run `npm install`: npm writes their integrity.
import { readFileSync, writeFileSync } from "node:fs"

const file = new URL("../../package-lock.json", import.meta.url)
const lock = JSON.parse(readFileSync(file, "utf8"))

let added = 0
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`
    if (lock.packages[key] !== undefined || !/^\d/.test(version)) continue
    const dev = parent.dev === true ? { dev: true } : {}
    lock.packages[key] = { version, ...dev, optional: true, os: ["unverified"] }
    added += 1
  }
}

const [root, ...rest] = Object.entries(lock.packages)
rest.sort(([left], [right]) => left.localeCompare(right, "en"))
lock.packages = Object.fromEntries([root, ...rest])
writeFileSync(file, JSON.stringify(lock, undefined, 2) + "\n")
process.stdout.write(`Added ${added} entries to package-lock.json.\n`)
