/** Starts the file that takes longest first: started last, it would run for minutes while the other worker has nothing. */
import { BaseSequencer, type TestSpecification } from "vitest/node"

const longest = /[/\\]attacks[/\\]chaos\.test\.ts$/

export default class LongestFirst extends BaseSequencer {
  override sort = async (files: Array<TestSpecification>) => {
    const others = await BaseSequencer.prototype.sort.call(this, files)
    return others.toSorted((a, b) => Number(longest.test(b.moduleId)) - Number(longest.test(a.moduleId)))
  }
}
