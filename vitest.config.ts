import { defineConfig } from "vitest/config"
import LongestFirst from "./test/support/run/Sequencer.ts"

export default defineConfig({
  test: {
    environment: "node",
    globalSetup: "./test/support/run/globalSetup.ts",
    setupFiles: "./test/support/run/Seed.ts",
    include: ["test/**/*.test.ts"],
    pool: "forks",
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ["default", "./test/support/run/Summary.ts"]
  }
})
