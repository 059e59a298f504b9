/** Builds examples/bridge.go into a folder; the path of the program. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { compiledIn, packageRoot } from "../run/Root.ts"

export const goBridge = (folder: string) =>
  Effect.promise(async () => {
    const program = join(folder, "go-bridge")
    const env = { ...process.env, GOCACHE: compiledIn("check-bridge-go-cache"), GOTOOLCHAIN: "local" }
    await promisify(execFile)("go", ["build", "-o", program, join(packageRoot, "examples/bridge.go")], { env })
    return program
  })
