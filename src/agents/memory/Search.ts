/**
 * Prepares texts and queries for the search (decisions.md, Search). PostgreSQL turns `words` and `parts` into lexemes;
 * `grams` are lexemes already.
 *
 *     words   the text in lower case and NFC, converted here so that the database's locale does not matter
 *     parts   the parts of identifiers and paths, in addition: src/fooBar.ts -> src foo bar ts
 *     grams   1 to 3 consecutive characters of scripts without spaces, where to_tsvector takes a whole sentence for one word
 */

import type { Searchable } from "./MemoryStore.ts"

const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー々]+/gu

/** A word with separators inside or in camel case. */
const identifier = /[\p{L}\p{N}]+(?:[_./:@#\\-]+[\p{L}\p{N}]+)+|\p{L}*\p{Ll}\p{Lu}[\p{L}\p{N}]*/gu

/** Prepares the text of an entry. */
export const searchText = (text: string): Searchable => {
  const counted = new Map<string, number>()
  const words = spaced(text.normalize("NFC"), (run) => {
    for (const length of [1, 2, 3])
      for (const gram of gramsOf(run, length)) counted.set(gram, (counted.get(gram) ?? 0) + 1)
  })
  return {
    words: words.toLowerCase(),
    parts: partsOf(words),
    grams: [...counted.keys()],
    counts: [...counted.values()]
  }
}

/** Prepares a query. A single character counts only if it stands alone; the characters of a run would match too much. */
export const searchQuery = (query: string): Searchable => {
  const grams = new Set<string>()
  const words = spaced(query.normalize("NFC"), (run) => {
    for (const length of [...run].length === 1 ? [1] : [2, 3]) for (const gram of gramsOf(run, length)) grams.add(gram)
  })
  return { words: words.toLowerCase(), parts: partsOf(words), grams: [...grams], counts: [...grams].map(() => 1) }
}

/** Calls `visit` with every run of an unspaced script, and replaces the run by a space. */
const spaced = (text: string, visit: (run: string) => void) =>
  text.replaceAll(unspaced, (run) => {
    visit(run)
    return " "
  })

const gramsOf = (run: string, length: number) => {
  const characters = [...run]
  return characters.slice(length - 1).map((_, start) => characters.slice(start, start + length).join(""))
}

const partsOf = (words: string) =>
  [...words.matchAll(identifier)]
    .map(([name]) => name.replaceAll(/(\p{Ll}|\p{N})(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, "$1$2 "))
    .join(" ")
    .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
    .toLowerCase()
