/**
 * `npm run chaos races`: the races and histories of the test suite, more of them.
 *
 * ROUNDS of each race (20) over two instances, and MODEL_RUNS random and concurrent histories (100) against the model of
 * spec 3, chosen by SEED (1). `ROUNDS=300 MODEL_RUNS=1000 npm run chaos races` takes a quarter of an hour
 * and gives up after 25 minutes.
 */
import { spawnSync } from "node:child_process"
import { readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const root = join(import.meta.dirname, "../../../..")
const report = join(tmpdir(), `bridge-races-${process.pid}.json`)
const settings = { ROUNDS: "20", MODEL_RUNS: "100", SEED: "1", ...process.env }
const started = performance.now()

const { status } = spawnSync(
  process.execPath,
  [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--reporter=json",
    `--outputFile=${report}`,
    "test/attacks/races",
    "test/attacks/model"
  ],
  { cwd: root, env: settings, stdio: ["ignore", "ignore", "inherit"], timeout: 25 * 60_000 }
)

const { numFailedTests, numPassedTests } = JSON.parse(readFileSync(report, "utf8"))
rmSync(report)
const figures = {
  script: "races",
  rounds: Number(settings.ROUNDS),
  histories: Number(settings.MODEL_RUNS),
  seed: settings.SEED,
  races_passed: numPassedTests,
  races_failed: numFailedTests,
  seconds: Math.round((performance.now() - started) / 1000)
}
process.stdout.write(`${JSON.stringify(figures)}\n`)
process.exit(status === 0 ? 0 : 1)
