/** The lexemes of a prepared text (Search.ts), as clauses of statements. */
import type { SqlClient, Statement } from "effect/sql"
import { maxPostings, type Searchable } from "./Search.ts"

/** A text in columns or parameters. */
type Given = Readonly<Record<keyof Searchable, Statement.Fragment>>

export const make = (sql: SqlClient.SqlClient) => {
  /**
   * The lexemes with their frequency, where they first occur in their list, and how many the text has. A lexeme in both
   * tsvectors counts once, with the larger frequency.
   */
  const lexemesOf = ({ counts, grams, more, parts, words }: Given) => sql`
    select lexeme, max(tf)::int as tf, min(place) as place, sum(max(tf)) over () + ${more} as dl
      from (select lexeme, cardinality(positions) as tf, positions[1] as place
              from unnest(to_tsvector('english', ${words}))
            union all
            select lexeme, cardinality(positions), positions[1]
              from unnest(to_tsvector('english', ${parts}))
            union all
            select lexeme, tf, place
              from unnest(${grams}, ${counts}) with ordinality as gram (lexeme, tf, place)) l
     group by lexeme`

  /** The lexemes to post: those that occur first. */
  const postedOf = (text: Given) => sql`
    ${lexemesOf(text)}
     order by place, lexeme collate "C"
     limit ${sql.literal(String(maxPostings))}`

  const parameters = ({ counts, grams, more, parts, words }: Searchable): Given => ({
    words: sql`${words}::text`,
    parts: sql`${parts}::text`,
    grams: sql`${grams}::text[]`,
    counts: sql`${counts}::int[]`,
    more: sql`${more}::int`
  })

  return {
    postedOf,
    of: (text: Searchable) => lexemesOf(parameters(text)),
    posted: (text: Searchable) => postedOf(parameters(text))
  }
}
