// Runs after `npm ci` and before `npm pack`: patches tsc with the Effect diagnostics and builds dist/. Without the
// development tools it does nothing.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

if (!["esbuild", "@effect/tsgo", "typescript"].every((tool) => existsSync(`node_modules/${tool}`))) {
  process.stdout.write("prepare: no development tools installed, so nothing was built\n")
  process.exit(0)
}

// Where effect-tsgo does not run, the build works without the diagnostics; test/docs/layers.test.ts reports it.
spawnSync("node_modules/.bin/effect-tsgo", ["patch"], { stdio: "inherit" })
await import("./build.mjs")
