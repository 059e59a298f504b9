/** The results of a check as text, JSON and JUnit. */
export interface Result {
  /** The command and what happens to it: `rotate, and the answer of confirm is lost`. */
  readonly scenario: string
  /** What a Bridge promises here. */
  readonly promise: string
  /** Null if the Bridge does not promise it. */
  readonly kept: boolean | null
  /** What was seen instead, or why it was not asked for. */
  readonly why: string | null
  readonly seconds: number
}

export interface Report {
  readonly ok: boolean
  readonly kept: number
  readonly broken: number
  readonly skipped: number
  readonly results: ReadonlyArray<Result>
}

export const reportOf = (results: ReadonlyArray<Result>): Report => {
  const count = (as: Result["kept"]) => results.filter(({ kept }) => kept === as).length
  return { ok: count(false) === 0, kept: count(true), broken: count(false), skipped: count(null), results }
}

/** A line for each scenario, two more for a promise that is not kept. */
export const lines = ({ broken, kept, results, skipped }: Report): ReadonlyArray<string> => [
  ...results.flatMap((result) => {
    if (result.kept === null) return [`skipped ${result.scenario}`]
    if (result.kept) return [`kept    ${result.scenario}`]
    return [`BROKEN  ${result.scenario}`, `        Promise: ${result.promise}`, `        Seen: ${result.why}`]
  }),
  ...(skipped > 0 ? [`skipped: ${results.find(({ kept }) => kept === null)!.why}`] : []),
  `${kept} kept, ${broken} broken${skipped > 0 ? `, ${skipped} skipped` : ""}`
]

/** XML 1.0 has no other control characters than these three, not even as references. */
const escaped = (text: string) =>
  text
    .replaceAll(/[^\P{Cc}\t\n\r]/gu, "\uFFFD")
    .replaceAll(/[<>&"\t\n\r]/g, (character) => `&#${character.codePointAt(0)};`)

/** The XML that continuous integration reads: one suite, one test case for each scenario. */
export const junit = ({ broken, results, skipped }: Report): string => {
  const cases = results.map(({ kept, promise, scenario, seconds, why }) => {
    const head = `<testcase classname="check-bridge" name="${escaped(scenario)}" time="${seconds.toFixed(3)}"`
    if (kept) return `${head}/>`
    const message = `message="${escaped(why ?? "")}"`
    return kept === null
      ? `${head}><skipped ${message}/></testcase>`
      : `${head}><failure ${message}>${escaped(promise)}</failure></testcase>`
  })
  const time = results.reduce((sum, { seconds }) => sum + seconds, 0)
  return [
    `<?xml version="1.0" encoding="UTF-8"?>`,
    `<testsuite name="check-bridge" tests="${results.length}" failures="${broken}" skipped="${skipped}" time="${time.toFixed(3)}">`,
    ...cases,
    "</testsuite>",
    ""
  ].join("\n")
}
