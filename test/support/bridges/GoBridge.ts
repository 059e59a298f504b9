/** Builds examples/bridge.go into a folder; the path of the program. */
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { compiledIn, packageRoot } from "../run/Root.ts"

export const goBridge = (folder: string) => {
  const program = join(folder, "go-bridge")
  const env = { ...process.env, GOCACHE: compiledIn("check-bridge-go-cache"), GOTOOLCHAIN: "local" }
  execFileSync("go", ["build", "-o", program, join(packageRoot, "examples/bridge.go")], { env })
  return program
}
