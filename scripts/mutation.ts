/**
 * Mutation testing: would the tests notice a mistake? Each mutant changes one thing in the code of an area (an operator, a
 * condition, a statement, a line of SQL) and runs the test files that reach the place, until one fails. Mutants that no test
 * notices are printed. Exit code 1 if fewer than 90 % of an area's mutants are noticed.
 *
 *     npm run mutation -- --record              finds out which tests reach which functions; takes as long as the tests
 *     npm run mutation rotation access          these areas; without a name all of them
 *     npm run mutation -- --file src/push       files whose path starts with this, whatever their area
 *     npm run mutation -- --conditions          only left-out conditions of SQL
 *     npm run mutation -- --share 4             every fourth mutant
 *     npm run mutation -- --minutes 6           begins no mutant after so many minutes; says how many it tried
 *     npm run mutation -- --from 40             leaves out the first forty, which such a run has tried
 *     npm run mutation -- --again FILE          those that the output of an earlier run names, now that they have tests
 *     npm run mutation -- --tests test/push     the test files below this path, instead of those that reach the place;
 *                                               of several paths, the first one's first
 *     npm run mutation -- --seconds 120         a mutant gets so many seconds of tests, those that reach the least first (default 60)
 *
 * Mutants in scripts/mutation/unseen.json change nothing that can be seen. Each has its reason there, and is left out.
 */
import { globSync, readFileSync } from "node:fs"
import { performance } from "node:perf_hooks"
import { parseArgs } from "node:util"
import { makeCluster } from "../test/support/run/globalSetup.ts"
import { areaNames, filesOf } from "./mutation/areas.ts"
import { lineAt, type Mutant, mutantsOf } from "./mutation/mutants.ts"
import { hasReach, loadReach, recordReach } from "./mutation/reach.ts"
import { makeSandbox, type Sandbox } from "./mutation/sandbox.ts"

const threshold = 0.9

interface Described {
  readonly file: string
  readonly line: string
  readonly change: string
}
const unseen: ReadonlyArray<Described> = JSON.parse(
  readFileSync(new URL("mutation/unseen.json", import.meta.url), "utf8")
)

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    record: { type: "boolean", default: false },
    file: { type: "string", multiple: true },
    conditions: { type: "boolean", default: false },
    share: { type: "string", default: "1" },
    minutes: { type: "string", default: "Infinity" },
    from: { type: "string", default: "0" },
    again: { type: "string" },
    tests: { type: "string", multiple: true },
    seconds: { type: "string", default: "60" },
    at: { type: "string", default: "2" }
  }
})
const unknown = positionals.filter((name) => !areaNames.includes(name))
if (unknown.length > 0) {
  process.stderr.write(`Unknown area: ${unknown.join(", ")}. Choose from: ${areaNames.join(", ")}.\n`)
  process.exit(64)
}
const again = values.again === undefined ? undefined : survivorsIn(readFileSync(values.again, "utf8"))
const end = performance.now() + Number(values.minutes) * 60_000
const budget = values.tests === undefined ? Number(values.seconds) : Infinity
const testFiles = globSync("test/**/*.test.ts").toSorted()
const named = [...new Set(values.tests?.flatMap((path) => testFiles.filter((file) => file.startsWith(path))))]
/** Without a record nobody knows how long they take. */
const given = named.map((name) => ({ name, seconds: 10 }))

const { cluster, stop } = await makeCluster()
const sandboxes = Array.from({ length: Number(values.at) }, () => makeSandbox(cluster))
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void stop().then(() => process.exit(130)))

// They would notice everything. A record leaves them out.
if (named.length > 0 && !(await sandboxes[0]!.pass(named, 20 + 30 * named.length))) {
  process.stderr.write("One of the tests fails without a change.\n")
  await stop()
  process.exit(1)
}
if (values.record || (!hasReach() && values.tests === undefined)) await recordReach(sandboxes)
if (!values.record) {
  const testsAt = values.tests === undefined ? loadReach() : () => given

  /** The change as unseen.json names it: the line's own text, since line numbers move. */
  const described = ({ end, file, instead, start }: Mutant, text: string): Described => ({
    file,
    line: lineAt(text, start).trim(),
    change: `${text.slice(start, end).trim().replace(/\s+/g, " ")} -> ${instead.trim()}`
  })
  const isIn = (list: ReadonlyArray<Described>, mutant: Mutant, text: string) => {
    const { change, file, line } = described(mutant, text)
    return list.some((known) => known.file === file && known.line === line && known.change === change)
  }

  /** Runs tests in growing groups until one fails or the budget is spent. Those of the command line keep their order. */
  const isNoticed = async (sandbox: Sandbox, mutant: Mutant, text: string) => {
    const tests = testsAt(mutant.file, text, mutant.start)
    let spent = 0
    const affordable = tests.filter(({ seconds }, at) => at === 0 || (spent += seconds) <= budget)
    sandbox.write(mutant.file, text.slice(0, mutant.start) + mutant.instead + text.slice(mutant.end))
    let noticed = false
    for (
      let from = 0, size = values.tests === undefined ? 3 : 1;
      from < affordable.length && !noticed;
      from += size, size *= 2
    ) {
      const some = affordable.slice(from, from + size)
      const limit = 20 + 3 * some.reduce((sum, { seconds }) => sum + seconds, 0)
      noticed = !(await sandbox.pass(
        some.map(({ name }) => name),
        limit
      ))
    }
    sandbox.write(mutant.file, text)
    return noticed
  }

  const groups =
    values.file === undefined
      ? (positionals.length > 0 ? positionals : areaNames).map((area) => ({ area, files: filesOf(area) }))
      : values.file.map((prefix) => ({
          area: prefix,
          files: globSync("src/**/*.ts").filter((file) => file.startsWith(prefix))
        }))
  for (const { area, files } of groups) {
    const texts = new Map(files.map((file) => [file, readFileSync(file, "utf8")]))
    const mutants = files
      .flatMap((file) => mutantsOf(file, texts.get(file)!))
      .filter((mutant) => (mutant.condition || !values.conditions) && !isIn(unseen, mutant, texts.get(mutant.file)!))
      .filter((mutant) => again === undefined || isIn(again, mutant, texts.get(mutant.file)!))
      .filter((_, at) => at % Number(values.share) === 0)
      .toSorted((left, right) => Number(right.condition) - Number(left.condition))
      .slice(Number(values.from))
    const waiting = [...mutants]
    let survived = 0
    await Promise.all(
      sandboxes.map(async (sandbox) => {
        while (waiting.length > 0 && performance.now() < end) {
          const mutant = waiting.shift()!
          const text = texts.get(mutant.file)!
          if (await isNoticed(sandbox, mutant, text)) continue
          survived++
          process.stdout.write(
            `${JSON.stringify({ at: text.slice(0, mutant.start).split("\n").length, ...described(mutant, text) })}\n`
          )
        }
      })
    )
    const tried = mutants.length - waiting.length
    const noticed = 1 - survived / Math.max(1, tried)
    const found = { area, mutants: mutants.length, tried, noticed: Number(noticed.toFixed(3)), threshold }
    process.stdout.write(`${JSON.stringify(found)}\n`)
    if (noticed < threshold) process.exitCode = 1
  }
}
await stop()
process.exit()

/** A run prints each mutant that survives as a line of JSON. */
function survivorsIn(output: string): ReadonlyArray<Described> {
  return output
    .split("\n")
    .filter((line) => line.includes('"change"'))
    .map((line) => JSON.parse(line))
}
