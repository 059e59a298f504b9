/** Parses README.md and docs/ for tests: sections, table rows, fenced blocks. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "./Root.ts"

export const read = (path: string) => readFileSync(join(packageRoot, path), "utf8")

/** Heading -> its text, up to the next heading of this level or above. */
export const sections = (text: string, level: number): ReadonlyMap<string, string> =>
  new Map(
    withoutBlocks(text)
      .split(new RegExp(`^(?=#{1,${level}} )`, "m"))
      .filter((part) => part.startsWith(`${"#".repeat(level)} `))
      .map((part) => {
        const [heading = "", ...body] = part.split("\n")
        return [heading.slice(level + 1), body.join("\n")]
      })
  )

/** The rows of every table in a text, by column name, without the backticks around a whole cell. */
export const rows = (text: string): ReadonlyArray<Readonly<Record<string, string>>> => {
  const found: Array<Record<string, string>> = []
  let columns: ReadonlyArray<string> | undefined
  for (const line of text.split("\n")) {
    if (!line.startsWith("|")) columns = undefined
    else if (columns === undefined) columns = cells(line)
    else if (!/^[|\s:-]+$/.test(line)) {
      const row = cells(line)
      found.push(Object.fromEntries(columns.map((column, index) => [column, row[index] ?? ""])))
    }
  }
  return found
}

/** The fenced blocks of one language, in order; blocks inside a list lose its indentation. */
export const blocks = (text: string, language: string): ReadonlyArray<string> =>
  [...text.matchAll(new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^\\1\`\`\``, "gm"))].map(([, indent = "", block]) =>
    block!.replaceAll(new RegExp(`^${indent}`, "gm"), "")
  )

/** The fenced blocks of one language under one second-level heading. */
export const blocksUnder = (text: string, heading: string, language: string) =>
  blocks(
    text.split(/^(?=## )/m).find((part) => part.startsWith(`## ${heading}\n`))!,
    language
  )

const cells = (line: string) =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) =>
      cell
        .replaceAll("\\|", "|")
        .trim()
        .replace(/^`([^`]*)`$/, "$1")
    )

/** A line of a fenced block may start with `#` without being a heading. */
const withoutBlocks = (text: string) => text.replaceAll(/^```[^]*?^```/gm, "")
