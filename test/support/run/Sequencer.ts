/**
 * Starts the files that take longest first: started last, one would run for minutes while the other worker has nothing. The
 * tests that replace a module come last: they are short, and each starts a process of its own.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { packageRoot } from "./Root.ts"

/** Longest first. The others follow by the size of their files; one that is small and takes long is here, too. */
const longest = [
  "test/attacks/chaos.test.ts",
  "test/client/check/kit.test.ts",
  "test/docs/readme.test.ts",
  "test/platform/database/embedded-postgres.test.ts",
  "test/people/console/browser.test.ts",
  "test/operator/backups/automatic.test.ts",
  "test/operator/command-line/lists.test.ts",
  "test/people/site/browser.test.ts",
  "test/attacks/failpoints/agents.test.ts",
  "test/operator/projects/erasure.test.ts",
  "test/process/processes.test.ts",
  "test/process/process.test.ts",
  "test/operator/doctor/doctor.test.ts",
  "test/process/demo.test.ts"
].map((file) => join(packageRoot, file))

const gone = longest.filter((file) => !existsSync(file))
if (gone.length > 0) throw new Error(`${gone.join(", ")}: gone, and still in the order of the tests`)

export default class LongestFirst extends BaseSequencer {
  override sort = async (files: Array<TestSpecification>) => {
    const others = await BaseSequencer.prototype.sort.call(this, files)
    const place = ({ moduleId, project }: TestSpecification) => {
      const found = longest.indexOf(moduleId)
      return project.config.isolate ? longest.length + 1 : found === -1 ? longest.length : found
    }
    return others.toSorted((a, b) => place(a) - place(b))
  }
}
