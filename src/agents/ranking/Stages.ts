/**
 * The stages of the ranking (decisions.md, Search), each with how much it counts: 0 leaves it out.
 *
 * 1. BM25 over the words of the query.
 * 2. `forms`, `synonyms`: an entry that has another form of a word, or another word for it, counts for this share of it.
 * 3. `dates`: a date finds every way to write it (Dates.ts).
 * 4. `coverage`: how much of its score an entry loses if it has none of what was asked; with half of it, half as much.
 * 5. `context`: the share of its score that one of the best lends to the entries beside it.
 * 6. `names`: what a name of the query adds to an entry that has it in its title.
 * 7. `meaning`: what the entry nearest to the query in meaning gets, as a share of the score of an entry with all of its
 *    words. An entry of average nearness gets nothing.
 */
export interface Stages {
  readonly forms: number
  readonly synonyms: number
  readonly dates: boolean
  readonly coverage: number
  readonly context: number
  readonly names: number
  readonly meaning: number
}

export const everyStage: Stages = {
  forms: 0.8,
  synonyms: 0.4,
  dates: true,
  coverage: 0.25,
  context: 0.3,
  names: 1.5,
  meaning: 0.6
}

/** The words of the query alone. */
export const wordsOnly: Stages = { forms: 0, synonyms: 0, dates: false, coverage: 0, context: 0, names: 0, meaning: 0 }
