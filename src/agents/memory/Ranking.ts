/** Turns a query into what the store searches, and searches it. A stage is left out where it counts nothing. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { refuse } from "../continuity/Errors.ts"
import type { Meaning } from "../embeddings/Embeddings.ts"
import { namesIn } from "../ranking/Names.ts"
import { type Related, relatedBy, words } from "../ranking/RelatedWords.ts"
import { everyStage, type Stages } from "../ranking/Stages.ts"
import * as MemoryStore from "./MemoryStore.ts"
import { searchQuery } from "./Search.ts"
import * as SearchStore from "./SearchStore.ts"

/** Entries by words, and by meaning, of which the best are taken. */
export const pool = 50

/** The cosine of texts that have nothing to do with each other, at least. */
const unrelated = 0.1

/** Shorter words stand in too many others. */
const shortest = 4

const aSecond = Effect.repeat(Effect.sleep("250 millis"), { times: 3 })

/**
 * Cancels a search after a second. A process that stood still sees its timers before the answers that have arrived, so
 * the second has four parts: then only one of them has passed. If the database does not answer the simplest statement
 * then, it is away, and the query may be good.
 */
export const withinLimit = <E>(simplest: Effect.Effect<unknown, E>) => {
  const answering = Effect.timeoutOrElse(simplest, {
    duration: "250 millis",
    orElse: () => refuse("bridge_persistence_error", 1)
  })
  const late = aSecond.pipe(Effect.andThen(answering), Effect.andThen(refuse("search_too_broad")))
  return <A, E2, R>(search: Effect.Effect<A, E2, R>) => Effect.raceFirst(search, late)
}

export const make = (sql: SqlClient.SqlClient) => {
  const { queryLexemes, stems } = MemoryStore.make(sql)
  const store = SearchStore.make(sql)
  const limited = withinLimit(store.simplest)

  let known: ReadonlyMap<string, ReadonlyArray<Related>> | undefined
  /** The stems of related words, which the database computes once per process. */
  const related = Effect.suspend(() =>
    known === undefined
      ? Effect.map(stems(words), (found) => (known = relatedBy(new Map(found.map((row) => [row.word, row.lexeme])))))
      : Effect.succeed(known)
  )

  const lexemesOf = (query: string, { dates }: Stages) =>
    Effect.map(queryLexemes(searchQuery(query, dates)), (rows) => rows.map(({ lexeme }) => lexeme))

  /** At most `mostAsked`. */
  const rarest = Effect.fnUntraced(function* (project_id: string, lexemes: ReadonlyArray<string>) {
    if (lexemes.length <= SearchStore.mostAsked) return lexemes
    return (yield* store.rarest(project_id, lexemes)).map(({ lexeme }) => lexeme)
  })

  /** The lexemes, then words related to them, at most `most`. */
  const withRelated = Effect.fnUntraced(function* (
    lexemes: ReadonlyArray<string>,
    stages: Stages,
    most = SearchStore.mostAsked
  ) {
    const terms: Array<SearchStore.Term> = lexemes.map((lexeme, word) => ({ word, lexeme, share: 1 }))
    const taken = new Set(lexemes)
    for (const kind of ["forms", "synonyms"] as const) {
      if (stages[kind] === 0) continue
      const relations = yield* related
      for (const [word, lexeme] of lexemes.entries()) {
        for (const other of relations.get(lexeme) ?? []) {
          if (other.kind !== kind || taken.has(other.lexeme) || terms.length >= most) continue
          taken.add(other.lexeme)
          terms.push({ word, lexeme: other.lexeme, share: stages[kind] })
        }
      }
    }
    return terms
  })

  /** The best entries; undefined if the query has no word to search for. */
  const search = Effect.fnUntraced(function* (
    project_id: string,
    query: string,
    filter: SearchStore.Filter,
    limit: number,
    stages = everyStage
  ) {
    const lexemes = yield* lexemesOf(query, stages)
    if (lexemes.length === 0) return undefined
    const names = stages.names > 0 ? namesIn(query) : []
    // The first search of a process waits for them. That is not a cost of its query.
    yield* related
    return yield* rarest(project_id, lexemes).pipe(
      Effect.flatMap((asked) => withRelated(asked, stages)),
      Effect.flatMap((terms) => store.ranked(project_id, { terms, names, stages }, filter, limit)),
      limited
    )
  })

  /** Adds entries that are near the query in meaning to those found by words, and what each entry's nearness counts. */
  const withMeaning = Effect.fnUntraced(function* (
    project_id: string,
    ranked: ReadonlyArray<SearchStore.Ranked>,
    { cosines, nearest }: Meaning,
    filter: SearchStore.Filter,
    share = everyStage.meaning
  ) {
    const byWords = new Set(ranked.map(({ id }) => id))
    const near = yield* cosines([...byWords, ...nearest.filter((id) => !byWords.has(id))])
    const values = [...near.values()].toSorted((a, b) => a - b)
    // What is usual depends on the model: some have no two texts below 0.4. A few entries do not tell it.
    const usual = values.length < 20 ? 2 * unrelated : Math.max(unrelated, values[values.length >> 1]!)
    const best = values.at(-1) ?? 0
    const others = nearest
      .filter((id) => !byWords.has(id) && near.get(id)! > usual)
      .toSorted((a, b) => near.get(b)! - near.get(a)!)
    const added = yield* store.among(project_id, others.slice(0, pool), filter)
    const whole = ranked[0]?.whole ?? 1
    const all: ReadonlyArray<SearchStore.Ranked> = [
      ...ranked,
      ...added.map((found) => ({ ...found, score: 0, matched: [], whole }))
    ]
    return all
      .map((hit) => {
        const nearness = Math.max(0, ((near.get(hit.id) ?? usual) - usual) / (best - usual || 1))
        const isNear = nearness >= 0.5
        return {
          ...hit,
          score: hit.score + share * whole * best * nearness,
          matched: isNear || hit.matched.length === 0 ? [...hit.matched, "meaning" as const] : hit.matched
        }
      })
      .toSorted((a, b) => b.score - a.score || (a.id < b.id ? 1 : -1))
  })

  /** What a query looks for in text without an index: no keys of dates, and no short word for another one. */
  const termsOf = Effect.fnUntraced(function* (query: string, most: number) {
    const lexemes = yield* lexemesOf(query, { ...everyStage, dates: false })
    const terms = yield* withRelated(lexemes.slice(0, most), everyStage, most)
    return terms.filter(({ lexeme, share }) => share === 1 || lexeme.length >= shortest)
  })

  return { limited, search, withMeaning, termsOf }
}
