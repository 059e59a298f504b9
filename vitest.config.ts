import { globSync, readFileSync } from "node:fs"
import { defineConfig } from "vitest/config"
import { compileCache } from "./test/support/run/Root.ts"
import LongestFirst from "./test/support/run/Sequencer.ts"

/** Tests that replace a module. Nothing else may have loaded it before. */
const mocking = globSync("test/**/*.test.ts").filter((file) => readFileSync(file, "utf8").includes("vi.mock("))

export default defineConfig({
  test: {
    environment: "node",
    globalSetup: "./test/support/run/globalSetup.ts",
    env: { NODE_COMPILE_CACHE: compileCache },
    setupFiles: "./test/support/run/Seed.ts",
    pool: "forks",
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ["default", "./test/support/run/Summary.ts"],
    projects: [
      // A worker keeps the modules that it has loaded: a third of the time went into loading them for each file.
      { extends: true, test: { name: "shared", isolate: false, include: ["test/**/*.test.ts"], exclude: mocking } },
      { extends: true, test: { name: "mocking", include: mocking } }
    ]
  }
})
