/**
 * Text with the word distribution of project notes: 20,000 words by Zipf's law, of which the most frequent is in a third
 * of the entries, and queries of five words drawn the same way. Entry `n` is the same in every process.
 */
const vocabulary = 20_000
const weights: Array<number> = []
for (let rank = 0, total = 0; rank < vocabulary; rank++) weights.push((total += 1 / (rank + 10)))

const consonants = "bcdfghjklmnprstvz"
const vowels = "aeiou"

/** The word of a rank: three syllables, different for each rank. */
const wordOf = (rank: number) => {
  let rest = (rank * 7919) % 614_125
  let word = ""
  for (let syllable = 0; syllable < 3; syllable++) {
    word += consonants[rest % 17]! + vowels[Math.floor(rest / 17) % 5]!
    rest = Math.floor(rest / 85)
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

const asked = (n: number) => ranks(n + 1_000_000_000, 5)
export const question = (n: number) => asked(n).map(wordOf).join(" ")
/** The rarest word of the query. */
export const rarest = (n: number) => wordOf(Math.max(...asked(n)))
