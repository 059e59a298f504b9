/**
 * How a program is called on this machine, so that a printed next command works as it stands: in a clone through npm, in
 * an installed package through npx, by its name if that is on PATH, or by its path.
 */
import { existsSync } from "node:fs"
import { delimiter, dirname, join, relative } from "node:path"
import { packageRoot } from "../settings/Package.ts"

type Program = "service-admin" | "bridge-service" | "bridge" | "start"

export interface Call {
  /** The second one is the script that Node runs. */
  readonly argv: ReadonlyArray<string>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  /** The folder of the clone, or of the installed package. */
  readonly root: string
}

const ours = (): Call => ({ argv: process.argv, env: process.env, cwd: process.cwd(), root: packageRoot })

export const calledAs = (program: Program, { argv, cwd, env, root }: Call = ours()): string => {
  const script = argv[1] ?? ""
  if (existsSync(join(root, "src"))) {
    if (cwd === root) return inClone[program]
    return `node ${pathFrom(cwd, join(root, program === "start" ? "src/main.ts" : `cli/${program}.mjs`))}`
  }
  if (dirname(script) === join(root, "dist"))
    return `node ${pathFrom(cwd, join(root, `dist/${program === "start" ? "main" : program}.mjs`))}`
  const name = inPackage[program]
  if (env["npm_lifecycle_event"] === "npx") {
    const from = env["npm_config_package"]
    return from ? `npx --package ${from} ${name}` : `npx ${name}`
  }
  const isOnPath = (env["PATH"] ?? "").split(delimiter).includes(dirname(script))
  return isOnPath ? name : pathFrom(cwd, join(dirname(script), name))
}

const inClone = {
  start: "npm start",
  "service-admin": "npx service-admin",
  "bridge-service": "npx bridge-service",
  bridge: "npm run -s bridge --"
}

const inPackage = {
  start: "bridge-service start",
  "service-admin": "service-admin",
  "bridge-service": "bridge-service",
  bridge: "bridge-service bridge"
}

const pathFrom = (cwd: string, path: string) => {
  const short = relative(cwd, path)
  return short.startsWith("..") ? path : short.includes("/") ? short : `./${short}`
}
