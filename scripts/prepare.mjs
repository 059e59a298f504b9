// After `npm ci`: the Effect diagnostics inside tsc, and dist/. Without the development tools there is nothing to do:
// the service and its command run from the sources.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

if (!["esbuild", "@effect/tsgo", "typescript"].every((tool) => existsSync(`node_modules/${tool}`))) {
  process.stdout.write("prepare: no development tools here, running from the sources\n")
  process.exit(0)
}

// A platform without them still builds and runs; test/docs/layers.test.ts fails there and says so.
spawnSync("node_modules/.bin/effect-tsgo", ["patch"], { stdio: "inherit" })
await import("./build.mjs")
