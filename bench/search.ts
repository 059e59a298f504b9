/**
 * How well memory_search answers: every question of bench/search, with the stages of the ranking added one by one, and by
 * what is difficult about a question.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { everyStage, type Stages, wordsOnly } from "../src/agents/ranking/Stages.ts"
import { type Answer, answers, answersOfTasks, averageOf, fill, fillTasks } from "./search/Collection.ts"
import * as harness from "./support/harness.ts"

const added: ReadonlyArray<readonly [name: string, keyof Stages]> = [
  ["other forms of words", "forms"],
  ["other words for the same", "synonyms"],
  ["dates", "dates"],
  ["coverage", "coverage"],
  ["context", "context"],
  ["names in titles", "names"]
]

const main = Effect.gen(function* () {
  const { context } = yield* harness.start
  const collection = yield* fill(context)
  const asked = (stages: Stages) => Effect.provide(answers(collection, stages), context)
  const row = (name: string, all: ReadonlyArray<Answer>, without?: ReadonlyArray<Answer>) => {
    const figures = [averageOf(all), ...(without === undefined ? [] : [averageOf(without)])]
    const cells = figures.flatMap(({ mrr, recall }) => [recall.toFixed(1), mrr.toFixed(1)])
    return `| ${[name, all.length, ...cells, ...(without === undefined ? ["", ""] : [])].join(" | ")} |`
  }

  const table = [
    "| what | questions | recall at 10, % | MRR | recall without this stage alone | MRR |",
    "|---|--:|--:|--:|--:|--:|",
    row("words alone (BM25)", yield* asked(wordsOnly))
  ]
  let stages = wordsOnly
  for (const [name, stage] of added) {
    stages = { ...stages, [stage]: everyStage[stage] }
    const without = { ...everyStage, [stage]: wordsOnly[stage] }
    table.push(row(`+ ${name}`, yield* asked(stages), yield* asked(without)))
  }
  const all = yield* asked(everyStage)
  for (const kind of new Set(all.map((answer) => answer.kind))) {
    table.push(
      row(
        `all stages, questions of the kind ${kind}`,
        all.filter((answer) => answer.kind === kind)
      )
    )
  }
  const tasks = yield* Effect.provide(fillTasks(context), context)
  table.push(row("the same entries as tasks, by `search`", yield* answersOfTasks(tasks, context)))
  process.stdout.write(`${table.join("\n")}\n`)
}).pipe(Effect.scoped)

NodeRuntime.runMain(main)
