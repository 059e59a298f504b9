/**
 * Text with the word frequencies of real notes: a vocabulary of 20,000 words by Zipf's law, the most frequent word in a
 * third of the entries, and queries of five words from the same distribution. Entry `n` is the same in every process.
 */
const vocabulary = 20_000
const weights: Array<number> = []
for (let rank = 0, total = 0; rank < vocabulary; rank++) weights.push((total += 1 / (rank + 10)))

const consonants = "bcdfghjklmnprstvz"
const vowels = "aeiou"

/** A different word of three syllables for each rank. */
const wordOf = (rank: number) => {
  let remainder = (rank * 7919) % 614_125
  let word = ""
  for (let syllable = 0; syllable < 3; syllable++) {
    word += consonants[remainder % 17]! + vowels[Math.floor(remainder / 17) % 5]!
    remainder = Math.floor(remainder / 85)
  }
  return `${word}x`
}

const rankAt = (weight: number) => {
  let [low, high] = [0, vocabulary - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (weights[middle]! < weight) low = middle + 1
    else high = middle
  }
  return low
}

const ranks = (seed: number, count: number) => {
  let state = Math.imul(seed + 1, 2_654_435_761) >>> 0
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return rankAt((state / 2 ** 32) * weights.at(-1)!)
  })
}

export const body = (n: number) => ranks(n, 30).map(wordOf).join(" ")

const queryRanks = (n: number) => ranks(n + 1_000_000_000, 5)
export const question = (n: number) => queryRanks(n).map(wordOf).join(" ")
/** The word of the query that occurs in the fewest entries. */
export const rarest = (n: number) => wordOf(Math.max(...queryRanks(n)))
