/** Starts the file that takes longest first: started last, it would run for minutes while the other worker has nothing. */
import { BaseSequencer, type TestSpecification } from "vitest/node"

const longest = /[/\\]attacks[/\\]chaos\.test\.ts$/

export default class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => Number(longest.test(b.moduleId)) - Number(longest.test(a.moduleId)))
  }
}
