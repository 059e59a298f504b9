// Starts a program: in an installed package from dist/; in a clone from dist/ if nothing in cli/ or src/ is newer than
// the bundle there, otherwise from the sources. If this Node is too old, it starts the Node that npm installed in a clone.
import { existsSync, readdirSync, statSync } from "node:fs"
import * as module from "node:module"
import { userInfo } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const installed = join(root, "node_modules", "node", "bin", "node")
const [major, minor] = process.versions.node.split(".").map(Number)
const isClone = existsSync(join(root, "src"))

/** The first argument of `bridge-service` that names a program of its own. */
const programs = { start: "main", admin: "service-admin", bridge: "bridge", hook: "hook" }

// Node 22 says of its SQLite, with which a Bridge locks its folder, that it is experimental.
if (major === 22) {
  const [print] = process.listeners("warning")
  process.removeAllListeners("warning")
  process.on("warning", (warning) => warning.name === "ExperimentalWarning" || print(warning))
}

export const launch = async (called) => {
  // Until the program handles its signals: by default this one opens Node's debugger.
  process.on("SIGUSR1", () => {})
  const [first, ...rest] = process.argv.slice(2)
  const asksForHelp = [first, ...rest].some((argument) => ["--help", "-h", "--version", undefined].includes(argument))
  const isCurrent = major > 22 || (major === 22 && minor >= 19)
  if (!isCurrent && existsSync(installed)) {
    const { spawn } = await import("node:child_process")
    const child = spawn(installed, ["--disable-sigusr1", "--max-semi-space-size=16", ...process.argv.slice(1)], {
      stdio: "inherit"
    })
    for (const signal of ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]) process.on(signal, () => child.kill(signal))
    child.on("exit", (code) => process.exit(code ?? 1))
    return
  }
  if (!isCurrent && !asksForHelp) {
    const why = isClone ? ", and node_modules holds no other: run npm ci, or use" : ": use"
    process.stderr.write(`Node ${process.version} is too old${why} Node 22.19 or newer.\n`)
    process.exit(78)
  }
  const named = called === "bridge-service" && Object.hasOwn(programs, first ?? "") ? programs[first] : undefined
  const program = named ?? called
  const bundle = join(root, "dist", `${program}.mjs`)
  if (named !== undefined && !isClone && !existsSync(bundle)) {
    process.stderr.write(`This package has no ${first}: install the package of the server instead.\n`)
    process.exit(78)
  }
  if (named !== undefined) process.argv.splice(2, 1)
  if (program === "main") refuseArguments(rest)
  else cacheCompiledCode()
  const isBundled = !isClone || isBuilt(bundle)
  if (isBundled && asksForHelp) {
    const { help } = await import(join(root, "dist/help.mjs"))
    if (help(program, process.argv.slice(2))) return
  }
  await import(isBundled ? bundle : join(root, program === "main" ? "src/main.ts" : `cli/${program}.ts`))
}

const startUsage = `bridge-service start

Runs the server until Ctrl-C, with a PostgreSQL of its own in ./data unless DATABASE_URL names another. Settings come from
the environment: SERVICE_PORT, SERVICE_DATA_DIR, and those that its pages list at /docs/reference.
`

/** The server takes none: whoever asks for help, or means a flag, does not want a new service here. */
const refuseArguments = (given) => {
  if (given.length === 0) return
  const asksForHelp = given.includes("--help") || given.includes("-h")
  if (asksForHelp) process.stdout.write(startUsage)
  else process.stderr.write(`start takes no arguments; its settings come from the environment.\n\n${startUsage}`)
  process.exit(asksForHelp ? 0 : 64)
}

/**
 * Node runs cached code without asking who wrote it. Its own default is a folder in /tmp that any account can make first;
 * this one is in the home folder of the account, by its uid and not by HOME, which sudo may keep.
 */
const cacheCompiledCode = () => {
  try {
    module.enableCompileCache?.(join(userInfo().homedir, ".cache", "bridge-service"))
  } catch {
    // An account without a home folder starts a tenth of a second later.
  }
}

/** Whether the bundle is there and newer than every source. */
export const isBuilt = (bundle) => {
  const built = statSync(bundle, { throwIfNoEntry: false })?.mtimeMs
  if (built === undefined) return false
  const sources = ["cli", "src", "migrations"].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((entry) => join(folder, entry))
  )
  return [...sources, "package-lock.json"].every((source) => statSync(join(root, source)).mtimeMs <= built)
}
