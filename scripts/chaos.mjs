// `npm run chaos [name ...]`: the scripts of test/attacks/chaos, one after the other. Each gives up after 60 s, but for the races
// when they are asked for more rounds. One JSON line of figures each; exit code 1 when one of them saw a violation.
// SEED chooses the faults, SLICE=1 the small size of the test command.
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
const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !all.includes(name))
if (unknown.length > 0) {
  process.stderr.write(`No such script: ${unknown.join(", ")}. There are: ${all.join(", ")}.\n`)
  process.exit(64)
}

const failed = (asked.length > 0 ? asked : all).filter((name) => {
  const options = { stdio: ["ignore", "inherit", "inherit"], timeout: 25 * 60_000 }
  return spawnSync(process.execPath, [files.get(name)], options).status !== 0
})
if (failed.length > 0) process.stderr.write(`Failed: ${failed.join(", ")}\n`)
process.exit(failed.length > 0 ? 1 : 0)
