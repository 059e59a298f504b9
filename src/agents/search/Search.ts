/** Finds memory, tasks, receipts and documents of a project by words (decisions.md, Search over everything). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import type { Actor } from "../../wire/Actor.ts"
import { excerpt } from "../../wire/Text.ts"
import type { ContinuityRefusal, Unavailable } from "../continuity/Errors.ts"
import { Memory } from "../memory/Memory.ts"
import * as Ranking from "../memory/Ranking.ts"
import type { Term } from "../memory/SearchStore.ts"
import type { MemoryHit } from "../memory/Shapes.ts"
import { everyStage } from "../ranking/Stages.ts"
import { type Hit, type SearchHits, type SearchRequest, sources } from "./Shapes.ts"
import * as Store from "./SearchStore.ts"

export class Search extends Context.Service<
  Search,
  {
    /** The best first; none for a query of stop words. */
    readonly search: (
      actor: Pick<Actor, "project_id">,
      input: SearchRequest
    ) => Effect.Effect<SearchHits, Unavailable | ContinuityRefusal<"cursor_invalid" | "search_too_broad">>
  }
>()("service/search/Search") {
  static readonly layer = Layer.effect(
    Search,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const memory = yield* Memory
      const { limited, termsOf } = Ranking.make(sql)
      const store = Store.make(sql)

      const inMemory = Effect.fnUntraced(function* (actor: Pick<Actor, "project_id">, query: string, limit: number) {
        const { entries, matched, semantic } = yield* memory.search(actor, { query, limit })
        return { hits: matched === "ranked" ? entries.map(hitOf) : [], semantic }
      })

      const inWork = Effect.fnUntraced(function* (
        project_id: string,
        of: ReadonlyArray<Store.Work>,
        query: string,
        limit: number
      ) {
        const terms = yield* termsOf(query, mostTerms)
        if (terms.length === 0) return []
        const asked = terms.map(beginning)
        const found = yield* limited(store.work(project_id, of, asked, everyStage, limit))
        return found.map((hit) => ({ ...hit, excerpt: excerpt(hit.excerpt.trim(), 400) }))
      }, persistence)

      const search = Effect.fn("Search.search")(function* (actor: Pick<Actor, "project_id">, input: SearchRequest) {
        const { in: asked = sources, limit = 10, query } = input
        const of = sources.filter((source) => source !== "memory").filter((source) => asked.includes(source))
        const found = asked.includes("memory")
          ? yield* inMemory(actor, query, limit)
          : { hits: [], semantic: undefined }
        const work = of.length > 0 ? yield* inWork(actor.project_id, of, query, limit) : []
        return {
          hits: fused([found.hits, work]).slice(0, limit),
          ...(found.semantic !== undefined && { semantic: found.semantic })
        }
      })

      return { search }
    })
  ).pipe(Layer.provide(Memory.layer))
}

/** How many words of a query count, the first, with related words. */
const mostTerms = 24

/** PostgreSQL's stem of `happy` is `happi`; what both begin with finds every form of the word. */
const beginning = (term: Term): Term =>
  /^[a-z]{3,}i$/.test(term.lexeme) ? { ...term, lexeme: term.lexeme.slice(0, -1) } : term

const hitOf = ({ actor, created_at, excerpt, id, title }: MemoryHit): Hit => ({
  in: "memory",
  id,
  title,
  excerpt,
  actor,
  at: created_at,
  task_id: null,
  start_line: null
})

/** One order of several lists whose scores do not compare: the first of each, then the second of each. */
const fused = (ranked: ReadonlyArray<ReadonlyArray<Hit>>) =>
  ranked
    .flatMap((hits) => hits.map((hit, rank) => ({ hit, rank })))
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ hit }) => hit)
