// `npm run chaos [name ...]`: runs the scripts of test/attacks/chaos one after the other. Each stops after the time that
// docs/proof.md gives. Each prints one JSON line of figures; exit code 1 if one found a violation.
// SEED selects the faults, SLICE=1 the small size that `npm test` uses. Options go to the scripts:
//
//     npm run chaos tenants -- --only dense-search
import { spawnSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { basename, join } from "node:path"

const folder = join(import.meta.dirname, "../test/attacks/chaos")
const files = new Map(
  readdirSync(folder, { recursive: true })
    .filter((file) => /^(?!parts).+\/.+\.ts$/.test(file))
    .map((file) => [basename(file, ".ts"), join(folder, file)])
)
const all = [...files.keys()]
const given = process.argv.slice(2)
const firstOption = given.findIndex((argument) => argument.startsWith("--"))
const [requested, options] = firstOption === -1 ? [given, []] : [given.slice(0, firstOption), given.slice(firstOption)]
const unknown = requested.filter((name) => !all.includes(name))
if (unknown.length > 0) {
  process.stderr.write(`Unknown script: ${unknown.join(", ")}. Choose from: ${all.join(", ")}.\n`)
  process.exit(64)
}

/** Minutes of those that take longer than the others. */
const longest = { soak: 190, versions: 190 }
const failed = (requested.length > 0 ? requested : all).filter((name) => {
  const minutes = longest[name] ?? 25
  const settings = { stdio: ["ignore", "inherit", "inherit"], timeout: minutes * 60_000 }
  return spawnSync(process.execPath, [files.get(name), ...options], settings).status !== 0
})
if (failed.length > 0) process.stderr.write(`Failed: ${failed.join(", ")}\n`)
process.exit(failed.length > 0 ? 1 : 0)
