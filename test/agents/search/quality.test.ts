/**
 * How well the search answers the questions of bench/search. The bounds lie two questions below what was measured
 * (docs/benchmarks.md): an intended change may move a question or two, a lost stage moves more.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  answers,
  answersOfTasks,
  averageOf,
  entries,
  fill,
  fillTasks,
  questions
} from "../../../bench/search/Collection.ts"
import { everyStage, wordsOnly } from "../../../src/agents/ranking/Stages.ts"
import { Service } from "../../support/service/Service.ts"

layer(Service.layer)("the search of 300 entries with 150 questions", (it) => {
  it.effect("answers as well as measured, better than by words alone", () =>
    Effect.gen(function* () {
      assert.lengthOf(entries, 300)
      assert.lengthOf(questions, 150)
      const names = new Set(entries.map(({ name }) => name))
      assert.strictEqual(names.size, entries.length)
      for (const { relevant, text } of questions) for (const name of relevant) assert.isTrue(names.has(name), text)

      const { services } = yield* Service
      const collection = yield* fill(services)
      const all = yield* answers(collection, everyStage)
      const quality = averageOf(all)
      const ofWords = averageOf(yield* answers(collection, wordsOnly))
      assert.isAtLeast(quality.recall, 87.3)
      assert.isAtLeast(quality.mrr, 76.2)
      assert.isAbove(quality.recall, ofWords.recall + 2)
      assert.isAbove(quality.mrr, ofWords.mrr + 1.5)
      for (const { kind, recall, text } of all) {
        if (["identifier", "path", "commit", "error", "cjk", "mixed"].includes(kind))
          assert.strictEqual(recall, 100, text)
      }
    })
  )

  it.effect("finds them as well if they are tasks", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const quality = averageOf(yield* answersOfTasks(yield* fillTasks(services), services))
      assert.isAtLeast(quality.recall, 86)
      assert.isAtLeast(quality.mrr, 73.4)
    })
  )
})
