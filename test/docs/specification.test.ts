/**
 * docs/specification.md and all citations: each names an existing clause, or an existing entry of docs/decisions.md;
 * and each clause links the files that implement it and the tests that check it.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"
import { read } from "../support/run/Markdown.ts"

/** Clauses about features that do not exist or that another document defines: they need no files and no tests. */
const nothingToKeep = ["1.6", "6.1", "6.4", "9.4", "9.6"]

interface Clause {
  readonly number: string
  readonly text: string
}

/** `## 4. Endpoints` is clause 4, `### 4.3 POST ...` is clause 4.3; the text of a section ends at its first clause. */
const clauses: ReadonlyArray<Clause> = read("docs/specification.md")
  .split(/^(?=#{2,3} )/m)
  .flatMap((text) => {
    const [, number] = /^#{2,3} (\d+(?:\.\d+)?)\b/.exec(text) ?? []
    return number === undefined ? [] : [{ number, text }]
  })
const numbers = clauses.map(({ number }) => number)
/** A section that is divided into clauses needs no links of its own. */
const promises = clauses.filter(({ number, text }) => !numbers.includes(`${number}.1`) || text.includes("Kept by"))

/** The entries of docs/decisions.md: the headings as they stand, and their names without the clause numbers in brackets. */
const headings = [...read("docs/decisions.md").matchAll(/^### (.+)$/gm)].map(([, heading]) => heading!)
const decisions = headings
  .map((heading) => heading.replace(/ \(\d[\d., ]*\)$/, ""))
  .toSorted((a, b) => b.length - a.length)
/** The anchor that GitHub generates for a heading. */
const anchor = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-")

/** The targets of the links in the line that begins with these words, as paths from the top of the repository. */
const linked = ({ text }: Clause, words: string) => {
  const [line = ""] = new RegExp(`^- ${words}: .*$`, "m").exec(text) ?? []
  return [...line.matchAll(/\[([^\]]+)\]\((?:\.\.\/)?([^)]+)\)/g)].map(([, label, path]) => ({
    label: label!,
    path: path!
  }))
}

describe("docs/specification.md", () => {
  it("has the clauses of the specification, in their order", () => {
    const sections = [6, 9, 5, 13, 7, 4, 4, 0, 6].flatMap((count, index) => [
      `${index + 1}`,
      ...Array.from({ length: count }, (_, clause) => `${index + 1}.${clause + 1}`)
    ])
    assert.deepStrictEqual(numbers, sections)
  })

  it.each(promises)("clause $number links the files that keep it and the tests that prove it", (clause) => {
    const kept = linked(clause, "Kept by")
    const proved = linked(clause, "Proved by")
    for (const { label, path } of [...kept, ...proved]) {
      assert.isTrue(existsSync(join(packageRoot, path)), path)
      assert.isTrue(path.endsWith(label), `${path} is called ${label}`)
    }
    if (/^- Nothing to keep: \S/m.test(clause.text)) {
      assert.include(nothingToKeep, clause.number)
      assert.isEmpty([...kept, ...proved])
      return
    }
    assert.isNotEmpty(kept.filter(({ path }) => /^(src|cli)\/.+\.ts$/.test(path)))
    assert.isNotEmpty(proved.filter(({ path }) => /^test\/.+\.test\.ts$/.test(path)))
  })

  it.each(clauses)("clause $number links entries of decisions.md that exist", (clause) => {
    for (const { label, path } of linked(clause, "Decided")) {
      const [page, id] = path.split("#")
      assert.strictEqual(page, "decisions.md")
      const heading = headings.find((heading) => anchor(heading) === id)
      assert.isDefined(heading, path)
      assert.isTrue(heading.startsWith(label), `"${heading}" is called "${label}"`)
    }
  })
})

interface Page {
  readonly file: string
  /** The file as one line: comment markers and line breaks become single spaces. */
  readonly text: string
  /** Where in the text each line of the file begins. */
  readonly begins: ReadonlyArray<number>
}

const parsePage = (file: string): Page => {
  const begins: Array<number> = []
  let text = ""
  for (const line of read(file).split("\n")) {
    begins.push(text.length)
    text += `${line.replace(/^\s*(?:\/\*\*?|\*\/|\*(?= |$)|\/\/|--(?= |$)|#(?= ))?\s*/, "").trimEnd()} `
  }
  return { file, text, begins }
}

const folders = ["src", "cli", "test", "bench", "scripts", "migrations", "docs", "deploy", ".ci", ".github"]
const pages = [
  ...folders.flatMap((folder) =>
    readdirSync(join(packageRoot, folder), { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`)
  ),
  ...readdirSync(packageRoot)
]
  .filter((file) => /\.(?:ts|mjs|sql|md|ya?ml|cfg|conf|service)$|^Dockerfile$|^\.ci\/run$/.test(file))
  .map(parsePage)

/** `file:line: text`, which terminals make clickable. */
const place = ({ begins, file, text }: Page, index: number) =>
  `${file}:${begins.findLastIndex((begin) => begin <= index)! + 1}: ${text.slice(index, index + 70).trim()}`

/** The wrong places, one per line. */
const places = (pattern: RegExp, isWrong: (found: RegExpExecArray, page: Page) => boolean, of = pages) =>
  of
    .flatMap((page) =>
      [...page.text.matchAll(pattern)].filter((found) => isWrong(found, page)).map(({ index }) => place(page, index))
    )
    .join("\n")

/** `3.2 to 3.4` -> 3.2, 3.3, 3.4; undefined unless both are in one section and in order. */
const range = (from: string, to: string) => {
  const [first, last] = [numbers.indexOf(from), numbers.indexOf(to)]
  const together = from.split(".")[0] === to.split(".")[0] || !`${from}${to}`.includes(".")
  return first === -1 || last <= first || !together ? undefined : numbers.slice(first, last + 1)
}

describe("every citation", () => {
  it("of the specification names an existing clause", () => {
    const list = /\bspec (\d+(?:\.\d+)*(?:(?:, and | and | to |[,;] )\d+(?:\.\d+)*(?![\w/]))*)/gi
    const wrong = places(list, ([, cited]) =>
      cited!.split(/, and | and |[,;] /).some((entry) => {
        const [from, to] = entry.split(" to ") as [string, string?]
        return to === undefined ? !numbers.includes(from) : range(from, to) === undefined
      })
    )
    assert.strictEqual(wrong, "")
  })

  it("of a decision names an existing entry", () => {
    const wrong = places(/\bdecisions\.md, /g, ({ 0: { length }, index }, { text }) => {
      const rest = text.slice(index + length)
      return !decisions.some((name) => rest.startsWith(name) && !/^[\w-]/.test(rest.slice(name.length)))
    })
    assert.strictEqual(wrong, "")
  })

  it.each([
    ["a contract, by section or heading", /\bcontract(?:'s)?,? (?:sections? \d|"[A-Z])/gi],
    ["a page that is not here", /\bresearch \d|\bresearch\/|\b(?:contract|continuity|spec)\.md\b/gi],
    ["a numbered requirement", /\breliability,? R\d|[( ]R\d{1,2}(?=[),.;:]| and )/g],
    ["a place outside the repository", /(?<![\w./-])shared\/|\/work\/|\bedition-\d/g]
  ] as const)("is of a clause or a decision, never of %s", (_, pattern) => {
    const others = pages.filter(({ file }) => !["docs/decisions.md", "docs/specification.md"].includes(file))
    assert.strictEqual(
      places(pattern, () => true, others),
      ""
    )
  })
})
