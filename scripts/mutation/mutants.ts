/** The mutants of a file: each replaces one range of its text. */
import { type Node, walk } from "./code.ts"

export interface Mutant {
  readonly file: string
  readonly start: number
  readonly end: number
  readonly instead: string
  /** Leaves out a condition of a statement. These come first: no other kind of mistake has passed as many tests. */
  readonly condition: boolean
}

type Change = Omit<Mutant, "file">

export const mutantsOf = (file: string, text: string): ReadonlyArray<Mutant> => {
  const found: Array<Change> = []
  walk(file, text, (node) => found.push(...changesOf(node, text)))
  return found.map((change) => ({ file, ...change }))
}

const change = (start: number, end: number, instead: string): Change => ({ start, end, instead, condition: false })
const replaced = ({ end, start }: Node, ...texts: ReadonlyArray<string>) =>
  texts.map((text) => change(start, end, text))

const opposites: Readonly<Record<string, string>> = {
  "===": "!==",
  "!==": "===",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "+": "-",
  "-": "+",
  "&&": "||",
  "||": "&&"
}

const changesOf = (node: Node, text: string): ReadonlyArray<Change> => {
  switch (node.type) {
    case "BinaryExpression":
    case "LogicalExpression": {
      const start = text.indexOf(node["operator"], node["left"].end)
      const opposite = opposites[node["operator"]]
      if (opposite === undefined || start >= node["right"].start) return []
      return [change(start, start + node["operator"].length, opposite)]
    }
    case "IfStatement":
    case "ConditionalExpression":
      return replaced(node["test"], "true", "false")
    case "UnaryExpression":
      return node["operator"] === "!" ? replaced(node, text.slice(node["argument"].start, node["argument"].end)) : []
    case "ExpressionStatement":
      return replaced(node, ";")
    case "Literal":
      if (typeof node["value"] === "boolean") return replaced(node, String(!node["value"]))
      return typeof node["value"] === "number" ? replaced(node, `(${node["raw"]} + 1)`) : []
    case "CallExpression":
      return /hash/i.test(text.slice(node["callee"].start, node["callee"].end)) ? withoutKeys(node, text) : []
    case "TaggedTemplateExpression":
      return node["tag"].name === "sql" ? changesOfSql(node["quasi"], text) : []
    default:
      return []
  }
}

/** A hash that leaves out one of its keys. */
const withoutKeys = (call: Node, text: string) =>
  call["arguments"]
    .filter(({ type }: Node) => type === "ObjectExpression")
    .flatMap(({ properties }: Node) => properties as ReadonlyArray<Node>)
    .map(({ end, start }: Node) => change(start, text[end] === "," ? end + 1 : end, ""))

const swaps: ReadonlyArray<readonly [RegExp, string]> = [
  [/(?<=\s)=(?=\s)/g, "<>"],
  [/<=/g, "<"],
  [/<(?![=>])/g, "<="],
  [/(?<!<)>(?!=)/g, ">="],
  [/\bis null\b/g, "is not null"],
  [/\bis not null\b/g, "is null"],
  [/\bor\b/g, "and"],
  [/\bnot exists\b/g, "exists"],
  [/\bfor (no key )?update\b( of [\w, ]+)?/g, ""]
]

/** Changes the SQL only. Expressions in `${}` are code, and are changed as such. */
const changesOfSql = (template: Node, text: string): ReadonlyArray<Change> => {
  const swapped = (template["quasis"] as ReadonlyArray<Node>).flatMap(({ end, start }) =>
    swaps.flatMap(([pattern, instead]) =>
      [...text.slice(start, end).matchAll(pattern)].map((found) =>
        change(start + found.index, start + found.index + found[0].length, instead)
      )
    )
  )
  // `set a = b` is an assignment, not a condition.
  const compared = swapped.filter(({ start }) => !/^\s*(set\b|[\w.]+ = )/.test(lineAt(text, start)))
  return [...conditionsOf(template, text), ...compared]
}

/** What a line after a condition starts with, if it does not continue the condition. */
const next =
  /^\s*(and|or|where|from|join|left|cross|group|order|limit|for|on|returning|set|union|values|select|\)|`|\$\{)/

/** Leaves out one condition of a `where` or a `join`. */
const conditionsOf = (template: Node, text: string): ReadonlyArray<Change> => {
  const sql = text.slice(template.start, template.end)
  return [...sql.matchAll(/(?<=^[ \t]*)(?:where|and)\b|(?<=\bjoin .*)\bon\b|(?<=\bjoin .* on .*)\band\b/gm)].flatMap(
    (found): Array<Change> => {
      const start = template.start + found.index
      const from = start + found[0].length
      const end = endOfCondition(text, from, template.end - 1)
      if (end === undefined || text.slice(from, end).trim() === "true") return []
      return [{ start, end, instead: found[0] === "and" ? "" : `${found[0]} true`, condition: true }]
    }
  )
}

/** Where the condition that starts at `from` ends; undefined if it ends in the middle of something nested. */
const endOfCondition = (text: string, from: number, last: number) => {
  let depth = 0
  for (let at = from; at <= last; at++) {
    const character = text[at]!
    if ("({[".includes(character)) depth++
    else if (")}]".includes(character) && --depth < 0) return text.slice(from, at).trim() === "" ? undefined : at
    else if (depth === 0 && (at === last || (character === "\n" && next.test(text.slice(at + 1))))) return at
  }
  return undefined
}

export const lineAt = (text: string, at: number) =>
  text.slice(text.lastIndexOf("\n", at - 1) + 1, (text + "\n").indexOf("\n", at))
