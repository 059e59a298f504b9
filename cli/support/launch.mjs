// Starts a command: from dist/ if nothing in cli/ or src/ is newer than the bundle there, otherwise from the sources.
// If this Node is too old for either, it starts the Node that npm installed.
import { spawn } from "node:child_process"
import { existsSync, readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const installed = join(root, "node_modules", "node", "bin", "node")
const [major, minor] = process.versions.node.split(".").map(Number)

export const launch = async (name) => {
  // Until the program handles its signals: by default this one opens Node's debugger.
  process.on("SIGUSR1", () => {})
  const bundle = join(root, "dist", `${name}.mjs`)
  if (major > 22 || (major === 22 && minor >= 19)) {
    await import(isBuilt(bundle) ? bundle : join(root, "cli", `${name}.ts`))
  } else if (existsSync(installed)) {
    const child = spawn(installed, ["--disable-sigusr1", ...process.argv.slice(1)], { stdio: "inherit" })
    for (const signal of ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]) process.on(signal, () => child.kill(signal))
    child.on("exit", (code) => process.exit(code ?? 1))
  } else {
    process.stderr.write(
      `Node ${process.version} is too old, and node_modules holds no other: run npm ci, or use Node 22.19 or newer.\n`
    )
    process.exit(78)
  }
}

/** Whether the bundle is there and newer than every source. */
export const isBuilt = (bundle) => {
  const built = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs
  if (built === undefined) return false
  const sources = ["cli", "src"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((entry) => join(folder, entry))
  )
  return [...sources, "package-lock.json"].every((source) => statSync(join(root, source)).mtimeMs <= built)
}
