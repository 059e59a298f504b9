/**
 * Prepares texts and queries for the search (decisions.md, Search). PostgreSQL turns `words` and `parts` into lexemes;
 * `grams` are lexemes already.
 *
 *     words   the text in lower case and NFC, converted here so that the database's locale does not matter
 *     parts   the parts of identifiers and paths, in addition: src/fooBar.ts -> src foo bar ts
 *     grams   keys of dates and commit ids; then pairs of characters of scripts without spaces, where to_tsvector takes a
 *             whole sentence for one word; then the single characters, so that they are the first to go when an entry has
 *             too many lexemes
 *
 * Every expression here takes time linear in the text.
 */

import { nfc } from "../../wire/Text.ts"
import { commitKeys } from "../ranking/CommitIds.ts"
import { datesOf, keysAsked } from "../ranking/Dates.ts"

/** `counts` are the frequencies of `grams`. */
export interface Searchable {
  readonly words: string
  readonly parts: string
  readonly grams: ReadonlyArray<string>
  readonly counts: ReadonlyArray<number>
  /** How many more grams the text has: they count for its length, but cannot be posted. */
  readonly more: number
}

/**
 * Postings per entry, each about 80 bytes in the table, 90 in the index and 250 in the WAL. 16 KiB of English have 600
 * lexemes; 16 KiB of Chinese would have 7,000, and dense text 16,000: 2.7 MB on disk and 3.9 MB of WAL.
 */
export const maxPostings = 2000

const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー々]+/gu

/**
 * A word with separators inside or in camel case. The lookbehinds let a match begin only where a word or its letters
 * begin: without them, a long word that does not match is read again from each of its characters.
 */
const identifier =
  /(?<![\p{L}\p{N}])[\p{L}\p{N}]+(?:[_./:@#\\-]+[\p{L}\p{N}]+)+|(?<!\p{L})\p{L}*\p{Ll}\p{Lu}[\p{L}\p{N}]*/gu

/**
 * The longest word that PostgreSQL's parser gets. At each `@`, `_` and `/` it may look ahead to the end of the word, for
 * an address or a path: 16 KiB of `1a@` as one word take it ten seconds.
 */
const longestWord = /\S{128}/gu

/** Prepares the text of an entry. */
export const searchText = (text: string): Searchable =>
  prepared(text, (runs) => [...runs.flatMap(pairsOf), ...runs.filter((run) => run.length > 1).flat()])

/**
 * Prepares a query. A single character counts only if it stands alone; the characters of a run would match too much. A date
 * is asked for by its keys, not by its words; without `dates`, by its words.
 */
export const searchQuery = (query: string, dates = true): Searchable => {
  const { keys, rest } = dates ? datesOf(nfc(query)) : { keys: [], rest: query }
  return prepared(rest, (runs) => runs.flatMap(pairsOf), maxPostings, [...keysAsked(keys), ...commitKeys(rest)])
}

/**
 * Prepares a text to remove its postings: everything that any version indexed. Earlier ones also kept runs of three
 * characters, and did not cut words: words of up to 256 characters are whole here, and in longer ones all parts of up to
 * 64 characters. What is left of others is a row that no search returns, because the entry is not active.
 */
export const everIndexed = (text: string): Searchable => {
  const current = prepared(
    text,
    (runs) => [1, 2, 3].flatMap((length) => runs.flatMap((run) => gramsOf(run, length))),
    Infinity
  )
  const words = withoutRuns(text, () => {}).toLowerCase()
  const long = words.match(/\S{129,}/gu) ?? []
  const cuts = long.flatMap((word) => [cut(word, /\S{256}/gu), cut(word.slice(64), longestWord)])
  return { ...current, words: [current.words, ...cuts].join(" ") }
}

/** Consecutive characters of unspaced scripts. */
type Run = ReadonlyArray<string>

const prepared = (
  text: string,
  gramsIn: (runs: ReadonlyArray<Run>) => ReadonlyArray<string>,
  most = maxPostings,
  keys = keysIn(nfc(text))
): Searchable => {
  const runs: Array<Run> = []
  const words = withoutRuns(text, (run) => runs.push(run))
  const counted = new Map<string, number>()
  const grams = [...keys, ...gramsIn(runs)]
  for (const gram of grams) {
    const before = counted.get(gram)
    if (before !== undefined || counted.size < most) counted.set(gram, (before ?? 0) + 1)
  }
  const counts = [...counted.values()]
  return {
    words: cut(words.toLowerCase(), longestWord),
    parts: partsOf(words),
    grams: [...counted.keys()],
    counts,
    more: grams.length - counts.reduce((sum, one) => sum + one, 0)
  }
}

/** What a text is indexed by besides its words: its dates and commit ids. */
export const keysIn = (text: string): ReadonlyArray<string> => [...datesOf(text).keys, ...commitKeys(text)]

/** Calls `visit` with every run, and puts a space in its place. */
const withoutRuns = (text: string, visit: (run: Run) => void) =>
  nfc(text).replaceAll(unspaced, (run) => {
    visit([...run])
    return " "
  })

/** `<!--` would make the parser look for the end of the comment, each time to the end of the text. */
const cut = (words: string, longest: RegExp) => words.replaceAll("<!--", " ").replaceAll(longest, "$& ")

const pairsOf = (run: Run) => gramsOf(run, run.length === 1 ? 1 : 2)

const gramsOf = (run: Run, length: number) =>
  run.slice(length - 1).map((_, start) => run.slice(start, start + length).join(""))

const partsOf = (words: string) =>
  [...words.matchAll(identifier)]
    .map(([name]) => name.replaceAll(/(\p{Ll}|\p{N})(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, "$1$2 "))
    .join(" ")
    .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
    .toLowerCase()
