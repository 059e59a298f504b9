// Starts a command with what is there: dist/ when it is built and nothing in cli/ or src/ is newer, else the sources.
// A Node too old for either hands over to the one that npm installed.
import { spawn } from "node:child_process"
import { existsSync, readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const installed = join(root, "node_modules", "node", "bin", "node")
const [major, minor] = process.versions.node.split(".").map(Number)

export const launch = async (name) => {
  const bundle = join(root, "dist", `${name}.mjs`)
  if (major > 22 || (major === 22 && minor >= 19)) {
    await import(isBuilt(bundle) ? bundle : join(root, "cli", `${name}.ts`))
  } else if (existsSync(installed)) {
    const command = spawn(installed, process.argv.slice(1), { stdio: "inherit" })
    for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => command.kill(signal))
    command.on("exit", (code) => process.exit(code ?? 1))
  } else {
    process.stderr.write(`Node ${process.version} is too old and npm has installed no other: use 22.19 or newer.\n`)
    process.exit(78)
  }
}

const isBuilt = (bundle) => {
  const built = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs
  if (built === undefined) return false
  const sources = ["cli", "src"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((entry) => join(folder, entry))
  )
  return [...sources, "package-lock.json"].every((source) => statSync(join(root, source)).mtimeMs <= built)
}
