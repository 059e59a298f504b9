/**
 * What of a text is searched for (continuity.md, Search). PostgreSQL makes lexemes of `words` and `parts`; `grams` are lexemes.
 *
 *     words   the text, lower case and NFC by us, so that the server's locale cannot matter
 *     parts   once more what identifiers and paths consist of: src/fooBar.ts -> src foo Bar ts
 *     grams   of scripts written without spaces every 1 to 3 characters, because to_tsvector sees one word in a sentence
 */

import type { Searchable } from "./MemoryStore.ts"

const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー々]+/gu

/** Has a separator inside or a hump: anything else has no parts of its own. */
const identifier = /[\p{L}\p{N}]+(?:[_./:@#\\-]+[\p{L}\p{N}]+)+|\p{L}*\p{Ll}\p{Lu}[\p{L}\p{N}]*/gu

/** Of an entry. */
export const searchable = (text: string): Searchable => {
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

/** Of a query: of a run of three characters and more the single ones would find too much. */
export const asked = (query: string): Searchable => {
  const grams = new Set<string>()
  const words = spaced(query.normalize("NFC"), (run) => {
    for (const length of [...run].length === 1 ? [1] : [2, 3]) for (const gram of gramsOf(run, length)) grams.add(gram)
  })
  return { words: words.toLowerCase(), parts: partsOf(words), grams: [...grams], counts: [...grams].map(() => 1) }
}

const spaced = (text: string, see: (run: string) => void) =>
  text.replaceAll(unspaced, (run) => {
    see(run)
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
