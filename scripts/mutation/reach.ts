/**
 * Which test files reach which functions of `src/`, and how long each takes: recorded once by running every test file alone
 * on a copy whose functions report their first call. Of a file that changed since, only the file as a whole is known.
 */
import { createHash } from "node:crypto"
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { performance } from "node:perf_hooks"
import { walk } from "./code.ts"
import type { Sandbox } from "./sandbox.ts"

interface Reach {
  /** By source file: the hash of the text that was recorded. */
  readonly sources: Record<string, string>
  /** By test file. `reached` are ids of functions. */
  readonly tests: Record<string, { readonly seconds: number; readonly reached: ReadonlyArray<string> }>
}

const record = ".mutation/reach.json"
const functions = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"])
const idOf = (file: string, start: number) => `${file}:${start}`
const hashOf = (text: string) => createHash("sha256").update(text).digest("hex")

/** The text, with a report at the start of the file and of each function. */
const reporting = (file: string, text: string) => {
  const report = (start: number) => `globalThis.__reached?.(${JSON.stringify(idOf(file, start))})`
  const insertions: Array<readonly [at: number, text: string]> = [[0, `${report(0)};`]]
  walk(file, text, ({ body, start, type }) => {
    if (!functions.has(type) || body === null) return
    if (body.type === "BlockStatement" || body.type === "FunctionBody")
      insertions.push([body.start + 1, `${report(start)};`])
    else insertions.push([body.start, `(${report(start)}, `], [body.end, ")"])
  })
  return insertions
    .toSorted(([left], [right]) => right - left)
    .reduce((changed, [at, inserted]) => changed.slice(0, at) + inserted + changed.slice(at), text)
}

/** Runs every test file. Those that fail on the copy, because they read the sources, are left out. */
export const recordReach = async (sandboxes: ReadonlyArray<Sandbox>) => {
  const sources: Record<string, string> = {}
  for (const file of globSync("src/**/*.ts").toSorted()) {
    const text = readFileSync(file, "utf8")
    sources[file] = hashOf(text)
    for (const sandbox of sandboxes) sandbox.write(file, reporting(file, text))
  }
  const tests: Reach["tests"] = {}
  const waiting = globSync("test/**/*.test.ts").toSorted()
  await Promise.all(
    sandboxes.map(async (sandbox) => {
      for (let test = waiting.shift(); test !== undefined; test = waiting.shift()) {
        const file = join(sandbox.folder, "reached.txt")
        writeFileSync(file, "")
        const hook = join(import.meta.dirname, "Reached.mjs")
        const began = performance.now()
        const passed = await sandbox.pass([test], 300, { REACHED_FILE: file, NODE_OPTIONS: `--import ${hook}` })
        const seconds = Math.ceil((performance.now() - began) / 100) / 10
        const reached = [...new Set(readFileSync(file, "utf8").split("\n"))].filter((id) => id !== "").toSorted()
        if (passed) tests[test] = { seconds, reached }
        process.stderr.write(`${test}: ${passed ? `${seconds} s, ${reached.length} functions` : "left out"}\n`)
      }
    })
  )
  for (const file of Object.keys(sources))
    for (const sandbox of sandboxes) sandbox.write(file, readFileSync(file, "utf8"))
  mkdirSync(dirname(record), { recursive: true })
  writeFileSync(record, JSON.stringify({ sources, tests } satisfies Reach))
}

export const hasReach = () => existsSync(record)

/** Returns the test files that reach a position. Those that reach the least come first: they test the place itself. */
export const loadReach = () => {
  const { sources, tests } = JSON.parse(readFileSync(record, "utf8")) as Reach
  const sorted = Object.entries(tests).toSorted(([, left], [, right]) => left.reached.length - right.reached.length)
  return (file: string, text: string, at: number) => {
    const changed = sources[file] !== hashOf(text)
    const wanted = idOf(file, changed ? 0 : innermost(file, text, at))
    return sorted
      .filter(([, { reached }]) => reached.includes(wanted))
      .map(([name, { seconds }]) => ({ name, seconds }))
  }
}

/** Where the innermost function around a position starts; 0 for the file itself. */
const innermost = (file: string, text: string, at: number) => {
  let start = 0
  walk(file, text, (node) => {
    if (functions.has(node.type) && node.start <= at && at < node.end) start = node.start
  })
  return start
}
