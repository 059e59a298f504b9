/** The results of a check as text, JSON and JUnit. */
export interface Result {
  /** The command and what happens to it: `rotate, and the answer of confirm is lost`. */
  readonly scenario: string
  /** What a Bridge promises here. */
  readonly promise: string
  readonly kept: boolean
  /** What was seen instead. */
  readonly why: string | null
  readonly seconds: number
}

export interface Report {
  readonly ok: boolean
  readonly kept: number
  readonly broken: number
  readonly results: ReadonlyArray<Result>
}

export const reportOf = (results: ReadonlyArray<Result>): Report => {
  const broken = results.filter(({ kept }) => !kept).length
  return { ok: broken === 0, kept: results.length - broken, broken, results }
}

/** A line for each scenario, two more for a promise that is not kept. */
export const lines = ({ broken, kept, results }: Report): ReadonlyArray<string> => [
  ...results.flatMap((result) =>
    result.kept
      ? [`kept    ${result.scenario}`]
      : [`BROKEN  ${result.scenario}`, `        Promise: ${result.promise}`, `        Seen: ${result.why}`]
  ),
  `${kept} kept, ${broken} broken`
]

/** XML 1.0 has no other control characters than these three, not even as references. */
const escaped = (text: string) =>
  text
    .replaceAll(/[^\P{Cc}\t\n\r]/gu, "\uFFFD")
    .replaceAll(/[<>&"\t\n\r]/g, (character) => `&#${character.codePointAt(0)};`)

/** The XML that continuous integration reads: one suite, one test case for each scenario. */
export const junit = ({ broken, results }: Report): string => {
  const cases = results.map(({ kept, promise, scenario, seconds, why }) => {
    const head = `<testcase classname="check-bridge" name="${escaped(scenario)}" time="${seconds.toFixed(3)}"`
    return kept
      ? `${head}/>`
      : `${head}><failure message="${escaped(why ?? "")}">${escaped(promise)}</failure></testcase>`
  })
  const time = results.reduce((sum, { seconds }) => sum + seconds, 0)
  return [
    `<?xml version="1.0" encoding="UTF-8"?>`,
    `<testsuite name="check-bridge" tests="${results.length}" failures="${broken}" time="${time.toFixed(3)}">`,
    ...cases,
    "</testsuite>",
    ""
  ].join("\n")
}
