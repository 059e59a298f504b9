/**
 * Statements that search memory: by relevance, or the newest entries.
 *
 * What a search reads is bounded (decisions.md, Search): a common lexeme hardly changes the ranking, but reading its
 * postings takes longest.
 */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { type Stages, wordsOnly } from "../ranking/Stages.ts"
import * as Lexemes from "./Lexemes.ts"
import type { Searchable } from "./Search.ts"
import { MemoryEntry, Reason, Similar } from "./Shapes.ts"

const { body, created_at, id, kind, provenance, tags, title } = MemoryEntry.fields
const { actor, role } = provenance.fields
/** `body` is cut to what an excerpt of 600 bytes needs: the bodies of 50 entries would be a MiB per call. */
const found = { id, kind, title, body, tags, actor, role, created_at }
const Found = Schema.toType(Schema.Struct(found))
export type Found = typeof Found.Type
const Ranked = Schema.toType(
  Schema.Struct({ ...found, score: Schema.Finite, matched: Schema.Array(Reason), whole: Schema.Finite })
)
export type Ranked = typeof Ranked.Type

export interface Filter {
  readonly kind?: string | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}

/** How many lexemes are searched: of a longer text the rarest, of a shorter query also related words. */
export const mostAsked = 32
/** Postings that are counted to find the rarest lexemes. A lexeme with more is common. */
const countedFirst = 2_000
/**
 * What a search may cost. `counted`: postings that are counted to weigh a lexeme; one that has more counts as being in half
 * of the entries at least. `read`: postings that are read to find candidates; of the other lexemes, only those of the best
 * candidates are. `newest`: how many of one lexeme are read, even if that is the rarest. `candidates`: how many entries
 * these are. `entries`: a smaller project is weighed like one of this size. `coming`: entries that count although they are
 * not there yet.
 */
export const asked = { counted: 20_000, read: 10_000, newest: Infinity, candidates: 200, entries: 0, coming: 0 }
/**
 * The same for a search that nobody asked for, before a write. In a project of few entries, a word that two of them share
 * would count as common, and nothing but a copy would be similar.
 */
export const unasked = { counted: 500, read: 2_000, newest: 4_000, candidates: 20, entries: 100, coming: 1 }

/** How many of the best lend to the entries beside them, to how many on each side, and what length lends all of its share. */
const [lenders, beside, shortBody] = [10, 2, 150]

/** A lexeme to look for. `word` numbers the word of the query that it stands for, `share` is what it counts of that. */
export interface Term {
  readonly word: number
  readonly lexeme: string
  readonly share: number
}

/** How much the stages of the statement count. */
type Counting = Pick<Stages, "forms" | "coverage" | "context">

/** What a search looks for, and how much each stage counts. */
export interface Question {
  readonly terms: ReadonlyArray<Term>
  readonly names: ReadonlyArray<string>
  readonly stages: Counting & Pick<Stages, "names">
}

export const make = (sql: SqlClient.SqlClient) => {
  const lexemes = Lexemes.make(sql)

  /** What a posting `p` of a weighed lexeme `w` adds to a score. */
  const bm25 = sql.literal("w.weight * p.tf / (p.tf + 0.84::float8 + 0.018::float8 * p.dl)")

  /** Counts the entries that hold a lexeme, but no more than `most`. */
  const frequency = (project_id: string, lexeme: string, most: number) => sql`
    select count(*)::float8 as df
      from (select
              from memory_posting p
             where p.project_id = ${project_id}::uuid
               and p.lexeme = ${sql.literal(lexeme)}
             limit ${most}) found`

  /** The lexemes that the fewest entries hold. */
  const rarest = (project_id: string, lexemes: ReadonlyArray<string>) =>
    rows(Schema.Struct({ lexeme: Schema.String }))(sql`
      select a.lexeme
        from unnest(${lexemes}::text[]) with ordinality as a (lexeme, position)
       cross join lateral (${frequency(project_id, "a.lexeme", countedFirst)}) f
       order by f.df, a.position
       limit ${mostAsked}`)

  const matching = ({ kind, tags }: Filter) => sql`
    ${kind === undefined ? sql`true` : sql`e.kind = ${kind}`}
    and ${tags === undefined || tags.length === 0 ? sql`true` : sql`e.tags @> ${tags}::text[]`}`

  /**
   * The clauses up to `total`, the score of each candidate for the `terms`, a clause with the columns of `Term`.
   *
   * BM25 with k1 = 1.2, b = 0.3 and a constant average length of 20; with so small a b the average hardly matters.
   *
   * The rarest lexemes find the candidates; the others are looked up for those alone. The best lend to the entries that
   * were written before and after them in the same session or for the same task, the shorter the more: a short note is half
   * a thought.
   *
   * PostgreSQL's estimates are useless in a project that its statistics do not know yet, so the order of work is fixed: each
   * step is materialized, and each look-up a lateral subquery that `offset 0` keeps apart. The constants are float8: a plain
   * 0.84 is numeric, and numeric arithmetic took longer than everything else.
   */
  const scored = (
    project_id: string,
    terms: Statement.Fragment,
    stages: Counting,
    filter: Filter,
    limit: number,
    { candidates, coming, counted, entries, newest, read }: typeof asked
  ) => {
    const filtered = filter.kind !== undefined || (filter.tags?.length ?? 0) > 0
    const covered = (score: string, met: string) => sql`
      ${sql.literal(score)} * (1 - ${stages.coverage}::float8 * (1 - least(1, ${sql.literal(met)} / whole.weight)))`
    /** What an entry scores by the weighed lexemes that `which` selects. */
    const scoreOf = (id: string, which: string) => sql`
      select coalesce(sum(${bm25}), 0) as score, coalesce(sum(w.weight), 0) as met,
             coalesce(bool_or(w.share = 1), false) as by_words, coalesce(bool_or(w.share < 1), false) as by_related
        from weighed w
       cross join lateral (
         select p.tf, p.dl
           from memory_posting p
          where p.project_id = ${project_id}::uuid
            and p.lexeme = w.lexeme
            and p.entry_id = ${sql.literal(id)}
         offset 0) p
       where ${sql.literal(which)}`
    const neighbours = (order: "<" | ">") => sql`
      (select e.id, e.actor, e.session_ref, e.task_id, e.active and ${matching(filter)} as eligible
         from memory_entry e
        where e.project_id = ${project_id}::uuid
          and e.id ${sql.literal(order)} source.id
        order by e.id ${sql.literal(order === "<" ? "desc" : "asc")}
        limit ${sql.literal(String(beside))})`
    const lent = sql`
      source as materialized (
        select s.id, e.actor, e.session_ref, e.task_id,
               s.score * ${stages.context}::float8
                 * least(1, ${shortBody}::float8 / octet_length(e.body)) ^ 1.5 as lent
          from (select id, score from scored order by score desc, id desc limit ${lenders}) s
         cross join lateral (
           select e.actor, e.session_ref, e.task_id, e.body
             from memory_entry e
            where e.project_id = ${project_id}::uuid
              and e.id = s.id
              and e.active
           offset 0) e
      ), near as materialized (
        select n.id, sum(source.lent) as lent
          from source
         cross join lateral (${neighbours("<")} union all ${neighbours(">")}) n
         where n.eligible
           and (n.actor = source.actor and n.session_ref is not distinct from source.session_ref
                or n.task_id = source.task_id)
         group by n.id
      ), total as materialized (
        select s.id, s.score + coalesce(n.lent, 0) as score, s.by_words, s.by_related, n.id is not null as by_context
          from scored s
          left join near n using (id)
         union all
        select n.id, n.lent + ${covered("o.score", "o.met")}, o.by_words, o.by_related, true
          from near n
         cross join whole
         cross join lateral (${scoreOf("n.id", "true")}) o
         where not exists (select 1 from scored s where s.id = n.id)
      )`
    const alone = sql`
      total as materialized (
        select s.id, s.score, s.by_words, s.by_related, false as by_context
          from scored s
      )`
    return sql`
      size as materialized (
        select greatest(coalesce(sum(active), 0) + ${coming}, ${entries})::float8 as n
          from memory_count
         where project_id = ${project_id}::uuid
      ), counted as materialized (
        select t.word, t.lexeme, t.share, size.n,
               case when f.df < ${counted} then f.df + ${coming} else greatest(f.df, size.n / 2) end as df
          from size
         cross join (${terms}) t
         cross join lateral (${frequency(project_id, "t.lexeme", counted)}) f
         order by f.df, t.word
         limit ${mostAsked}
      ), idf as materialized (
        select word, lexeme, share, df, ln(1 + greatest(n - of_word + 0.5, 0.5) / (of_word + 0.5)) as idf,
               of_word > 0 as is_known
          from (select *, greatest(df, sum(df) filter (where share >= ${stages.forms || 1}::float8)
                                         over (partition by word)) as of_word
                  from counted) c
      ), whole as materialized (
        select coalesce(nullif(sum(2.2::float8 * idf), 0), 1) as weight
          from idf
         where share = 1
           and is_known
      ), weighed as materialized (
        select lexeme, share, 2.2::float8 * idf * share as weight,
               sum(df) over by_rarity <= ${read} or row_number() over by_rarity = 1 as drives
          from idf
         where df > 0
        window by_rarity as (order by df, lexeme)
      ), candidate as materialized (
        select p.entry_id as id, sum(${bm25}) as score, sum(w.weight) as met,
               bool_or(w.share = 1) as by_words, bool_or(w.share < 1) as by_related
          from weighed w
         cross join lateral (
           select p.entry_id, p.tf, p.dl
             from memory_posting p
            where p.project_id = ${project_id}::uuid
              and p.lexeme = w.lexeme
           ${newest === Infinity ? sql`offset 0` : sql`order by p.entry_id desc limit ${newest}`}) p
         ${
           filtered
             ? sql`join memory_entry e on e.project_id = ${project_id}::uuid and e.id = p.entry_id and e.active
                    and ${matching(filter)}`
             : sql``
         }
         where w.drives
         group by p.entry_id
         order by score desc, p.entry_id desc
         limit ${candidates}
      ), scored as materialized (
        select c.id, ${covered("(c.score + a.score)", "(c.met + a.met)")} as score,
               c.by_words or a.by_words as by_words, c.by_related or a.by_related as by_related
          from candidate c
         cross join whole
         cross join lateral (${scoreOf("c.id", "not w.drives")}) a
         order by score desc, c.id desc
         limit ${Math.max(20, limit)}
      ), ${stages.context > 0 ? lent : alone}`
  }

  const ranked = (project_id: string, { names, stages, terms }: Question, filter: Filter, limit: number) => {
    const given = sql`
      select *
        from unnest(
          ${terms.map(({ word }) => word)}::int[], ${terms.map(({ lexeme }) => lexeme)}::text[],
          ${terms.map(({ share }) => String(share))}::text[]::float8[]) as term (word, lexeme, share)`
    return rows(Ranked)(sql`
      with ${scored(project_id, given, stages, filter, limit, asked)}
      select e.id, e.kind, e.title, left(e.body, 601) as body, e.tags, e.actor, e.role, e.created_at,
             array_remove(array[
               case when t.by_words then 'words' end, case when t.by_related then 'related' end,
               case when t.by_context then 'context' end], null) as matched,
             t.score + ${stages.names}::float8 * (
               select count(*)
                 from unnest(${names}::text[]) as name
                where strpos(' ' || translate(lower(e.title), '.,:;!?()[]{}"''/_-', repeat(' ', 17)) || ' ',
                             ' ' || name || ' ') > 0) as score,
             (select weight from whole) as whole
        from total t
       cross join lateral (
         select e.*
           from memory_entry e
          where e.project_id = ${project_id}::uuid
            and e.id = t.id
            and e.active
         offset 0) e
       order by score desc, e.id desc
       limit ${limit}`)
  }

  /**
   * The entries that share most of the rarer words of a new one, by these words alone; their score is a share of what the new
   * one will have, because it has all of them. `beginning`: the part of the new one whose words are looked for; `replaced`:
   * the entry that it will supersede. One statement, because it runs before a write.
   */
  const similar = (
    project_id: string,
    {
      beginning,
      replaced,
      whole
    }: { readonly beginning: Searchable; readonly replaced: string | null; readonly whole: Searchable },
    limit: number
  ) => {
    const words = sql`
      select row_number() over (order by place, lexeme collate "C")::int as word, lexeme, 1::float8 as share
        from (${lexemes.posted(beginning)}) l`
    return rows(Schema.toType(Similar))(sql`
      with ${scored(project_id, words, wordsOnly, {}, limit, unasked)}, own as materialized (
        select sum(${bm25}) as score
          from weighed w
          join (${lexemes.posted(whole)}) p using (lexeme)
      )
      select e.id, e.kind, e.title, t.score / own.score as score
        from total t
        join own on own.score > 0
       cross join lateral (
         select e.id, e.kind, e.title
           from memory_entry e
          where e.project_id = ${project_id}::uuid
            and e.id = t.id
            and e.id is distinct from ${replaced}::uuid
            and e.active
         offset 0) e
       order by t.score desc, e.id desc
       limit ${limit}`)
  }

  /** Those of the entries that are active and match the filter. */
  const among = (project_id: string, ids: ReadonlyArray<string>, filter: Filter) =>
    rows(Found)(sql`
      select e.id, e.kind, e.title, left(e.body, 601) as body, e.tags, e.actor, e.role, e.created_at
        from unnest(${ids}::uuid[]) as asked (id)
       cross join lateral (
         select e.*
           from memory_entry e
          where e.project_id = ${project_id}::uuid
            and e.id = asked.id
            and e.active
         offset 0) e
       where ${matching(filter)}`)

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

  /** Whether the database answers at all. */
  const simplest = sql`select 1`

  return { rarest, ranked, similar, among, recent, countActive, simplest }
}
