/**
 * Statements that search memory: by relevance, or the newest entries.
 *
 * What a search reads is bounded (decisions.md, Search): its rarest lexemes, and of these as many as stand in `mostRead`
 * entries together. A common lexeme hardly changes the ranking, but reading its postings takes longest.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { MemoryEntry } from "./Shapes.ts"

const { body, created_at, id, kind, provenance, tags, title } = MemoryEntry.fields
const { actor, role } = provenance.fields
/** `body` is cut to what an excerpt of 600 bytes needs: the bodies of 50 entries would be a MiB per call. */
const found = { id, kind, title, body, tags, actor, role, created_at }
const Found = Schema.toType(Schema.Struct(found))
export type Found = typeof Found.Type
const Ranked = Schema.toType(Schema.Struct({ ...found, score: Schema.Finite }))

export interface Filter {
  readonly kind?: string | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}

/** Postings that are counted to find the rarest lexemes. A lexeme with more is common. */
const countedFirst = 2_000
/**
 * What a search may cost. `counted`: postings that are counted to weigh a lexeme; one that has more counts as being in half
 * of the entries at least. `mostRead`: postings that are read to score entries. `entries`: a smaller project is weighed
 * like one of this size.
 */
export const asked = { counted: 20_000, mostRead: 200_000, entries: 0 }
/**
 * The same for a search that nobody asked for, beside a write. In a project of few entries, a word that two of them share
 * would count as common, and nothing but a copy would be similar.
 */
export const unasked = { counted: countedFirst, mostRead: 20_000, entries: 100 }

export const make = (sql: SqlClient.SqlClient) => {
  /** Counts the entries that hold a lexeme, but no more than `most`. */
  const frequency = (project_id: string, lexeme: string, most: number) => sql`
    select count(*)::float8 as df
      from (select
              from memory_posting p
             where p.project_id = ${project_id}::uuid
               and p.lexeme = ${sql.literal(lexeme)}
             limit ${most}) found`

  /** The `most` lexemes that the fewest entries hold. */
  const rarest = (project_id: string, lexemes: ReadonlyArray<string>, most: number) =>
    rows(Schema.Struct({ lexeme: Schema.String }))(sql`
      select a.lexeme
        from unnest(${lexemes}::text[]) with ordinality as a (lexeme, position)
       cross join lateral (${frequency(project_id, "a.lexeme", countedFirst)}) f
       order by f.df, a.position
       limit ${most}`)

  const matching = ({ kind, tags }: Filter) => sql`
    ${kind === undefined ? sql`true` : sql`e.kind = ${kind}`}
    and ${tags === undefined || tags.length === 0 ? sql`true` : sql`e.tags @> ${tags}::text[]`}`

  /**
   * BM25 with k1 = 1.2, b = 0.3 and a constant average length of 20; with so small a b the average hardly matters.
   *
   * The postings of a lexeme are read twice, to count and to score them. Both are index-only scans, which is faster
   * than materializing them. Without filters the limit applies before the join, so that a search reads `limit` entries.
   * The constants are float8: a plain 0.84 is numeric, and numeric arithmetic took longer than everything else.
   */
  const ranked = (
    project_id: string,
    lexemes: ReadonlyArray<string>,
    filter: Filter,
    limit: number,
    { counted, entries, mostRead } = asked
  ) => {
    const filtered = filter.kind !== undefined || (filter.tags?.length ?? 0) > 0
    return rows(Ranked)(sql`
      with size as materialized (
        select greatest(coalesce(sum(active), 0), ${entries})::float8 as n
          from memory_count
         where project_id = ${project_id}::uuid
      ), weighed as materialized (
        select a.lexeme, size.n, case when f.df < ${counted} then f.df else greatest(f.df, size.n / 2) end as df
          from size
         cross join unnest(${lexemes}::text[]) as a (lexeme)
         cross join lateral (${frequency(project_id, "a.lexeme", counted)}) f
      ), asked as materialized (
        select lexeme, 2.2 * ln(1 + greatest(n - df + 0.5, 0.5) / (df + 0.5)) as weight
          from (select lexeme, n, df, sum(df) over by_rarity as read, row_number() over by_rarity as rank
                  from weighed
                window by_rarity as (order by df, lexeme)) w
         where read <= ${mostRead} or rank = 1
      ), scored as (
        select p.entry_id, sum(asked.weight * p.tf / (p.tf + 0.84::float8 + 0.018::float8 * p.dl)) as score
          from asked
          join memory_posting p on p.project_id = ${project_id}::uuid and p.lexeme = asked.lexeme
         ${
           filtered
             ? sql`join memory_entry e on e.project_id = ${project_id}::uuid and e.id = p.entry_id and e.active
                    and ${matching(filter)}`
             : sql``
         }
         group by p.entry_id
         order by score desc, p.entry_id desc
         limit ${limit}
      )
      select e.id, e.kind, e.title, left(e.body, 601) as body, e.tags, e.actor, e.role, e.created_at, s.score
        from scored s
        join memory_entry e on e.project_id = ${project_id}::uuid and e.id = s.entry_id and e.active
       order by s.score desc, e.id desc`)
  }

  /** Newest first: `limit` rows, and one more if there is a next page. */
  const recent = (
    project_id: string,
    filter: Filter,
    after: readonly [created_at: string, id: string] | undefined,
    limit: number
  ) =>
    rows(Found)(sql`
      select e.id, e.kind, e.title, left(e.body, 601) as body, e.tags, e.actor, e.role, e.created_at
        from memory_entry e
       where e.project_id = ${project_id}::uuid
         and e.active
         and ${matching(filter)}
         and ${
           after === undefined ? sql`true` : sql`(e.created_at, e.id) < (${after[0]}::timestamptz, ${after[1]}::uuid)`
         }
       order by e.created_at desc, e.id desc
       limit ${limit + 1}`)

  const countActive = (project_id: string) =>
    firstRow(Schema.Struct({ count: Schema.Int }))(sql`
      select coalesce(sum(active), 0)::int as count
        from memory_count
       where project_id = ${project_id}::uuid`)

  return { rarest, ranked, recent, countActive }
}
