/**
 * Prints the last line of a run: `N passed, N failed`, followed by `, N skipped` if any test was skipped.
 *
 * A file or block that fails to load and an error outside a test count as failed. Skipped tests are listed with their
 * reasons (`context.skip("needs git")`); with CI=true they fail the run, because CI has everything installed.
 * SLOWEST=20 also lists the twenty files and the twenty tests that took longest, in seconds.
 */
import { writeSync } from "node:fs"
import type { Reporter, SerializedError, TestCase, TestModule } from "vitest/node"

export default class Summary implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandled: ReadonlyArray<SerializedError>) {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const count = (state: string) => tests.filter((test) => test.result().state === state).length
    const broken = modules
      .flatMap((module) => [module, ...module.children.allSuites()])
      .filter((suite) => suite.errors().length > 0).length
    const ci = process.env["CI"] === "true"
    // Tests that `-t` filters out are skipped without a note; only CI lists them.
    const skipped = tests.flatMap((test) => {
      const result = test.result()
      if (result.state !== "skipped" || (result.note === undefined && !ci)) return []
      return [`skipped: ${test.fullName} (${result.note ?? "no reason given"})`]
    })
    const failed = count("failed") + broken + unhandled.length
    const total = `${count("passed")} passed, ${failed} failed${count("skipped") > 0 ? `, ${count("skipped")} skipped` : ""}`

    const most = Number(process.env["SLOWEST"] ?? 0)
    const listed = most > 0 ? [...slowest("file", modules, most), ...slowest("test", tests, most)] : []

    // Written at exit, so that no output of a teardown follows it.
    process.once("exit", () => {
      if (ci && skipped.length > 0) {
        process.exitCode = 1
        skipped.push("CI=true: a skipped test fails the run.")
      }
      writeSync(1, [...listed, ...skipped, total, ""].join("\n"))
    })
  }
}

const slowest = (kind: string, timed: ReadonlyArray<TestModule | TestCase>, most: number) =>
  timed
    .map((each) => ({
      name: each.type === "module" ? each.relativeModuleId : `${each.module.relativeModuleId}: ${each.fullName}`,
      seconds: (each.diagnostic()?.duration ?? 0) / 1000
    }))
    .toSorted((a, b) => b.seconds - a.seconds)
    .slice(0, most)
    .map(({ name, seconds }) => `slow ${kind}: ${seconds.toFixed(1)} ${name}`)
