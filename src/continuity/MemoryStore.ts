/** The statements of memory and of its search. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../wire/AuditRow.ts"
import { firstRow, rows } from "../wire/Rows.ts"

const Kind = Schema.Literals(["note", "decision"])

export const Entry = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  title: Schema.String,
  body: Schema.String,
  tags: Schema.Array(Schema.String),
  active: Schema.Boolean,
  supersedes: Schema.NullOr(Schema.String),
  superseded_by: Schema.NullOr(Schema.String),
  superseded_at: Schema.NullOr(Schema.Date),
  actor: Schema.String,
  role: Schema.String,
  session_ref: Schema.NullOr(Schema.String),
  task_id: Schema.NullOr(Schema.String),
  source: Schema.NullOr(Schema.String),
  created_at: Schema.Date
})
export type Entry = typeof Entry.Type

const Hit = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  title: Schema.String,
  body: Schema.String,
  tags: Schema.Array(Schema.String),
  created_at: Schema.Date
})
export type Hit = typeof Hit.Type
const RankedHit = Schema.Struct({ ...Hit.fields, score: Schema.Finite })

/** What Search.ts makes of a text: `words` and `parts` for to_tsvector, `grams` as lexemes with their `counts`. */
export interface Searchable {
  readonly words: string
  readonly parts: string
  readonly grams: ReadonlyArray<string>
  readonly counts: ReadonlyArray<number>
}

export interface Filter {
  readonly kind?: string | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}

export const make = (sql: SqlClient.SqlClient) => {
  /** Lexemes and how often they stand, from what Search.ts prepared. A lexeme of both tsvectors counts once. */
  const lexemes = ({ counts, grams, parts, words }: Searchable) => sql`
    select lexeme, max(tf)::int as tf
      from (select lexeme, cardinality(positions) as tf from unnest(to_tsvector('english', ${words}))
            union all
            select lexeme, cardinality(positions) from unnest(to_tsvector('english', ${parts}))
            union all
            select lexeme, tf from unnest(${grams}::text[], ${counts}::int[]) as gram (lexeme, tf)) l
     group by lexeme`

  const countEntry = (project_id: string, id: string, by: 1 | -1, from: string) => sql`
    insert into memory_count as c (project_id, part, active)
    select ${project_id}::uuid, get_byte(uuid_send(${id}::uuid), 15) % 16, ${by}
      from ${sql.literal(from)}
        on conflict (project_id, part) do update
       set active = c.active + excluded.active`

  /** Adds the entry, if what it supersedes is active and the task it names exists; else does and returns nothing. */
  const insert = (project_id: string, entry: Entry, text: Searchable, now: Date, trace: Trace) =>
    firstRow(Schema.Struct({ id: Schema.String }))(sql`
      with known as materialized (
        select 1
         where ${
           entry.task_id === null
             ? sql`true`
             : sql`exists (
                 select 1
                   from task
                  where project_id = ${project_id}::uuid
                    and id = ${entry.task_id}::uuid)`
         }
      ), superseded as (
        update memory_entry
           set active = false,
               superseded_by = ${entry.id}::uuid,
               superseded_at = ${now}
          from known
         where project_id = ${project_id}::uuid
           and id = ${entry.supersedes}::uuid
           and active
        returning id
      ), added as (
        insert into memory_entry (
          project_id, id, kind, title, body, tags, supersedes, actor, role, session_ref, task_id, created_at)
        select ${project_id}::uuid, ${entry.id}::uuid, ${entry.kind}, ${entry.title}, ${entry.body},
               ${entry.tags}::text[], ${entry.supersedes}::uuid, ${entry.actor}, ${entry.role}, ${entry.session_ref},
               ${entry.task_id}::uuid, ${now}::timestamptz
          from known
         where ${entry.supersedes}::uuid is null
            or exists (select 1 from superseded)
        returning project_id, id
      ), lexeme as materialized (
        ${lexemes(text)}
      ), posted as (
        insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
        select added.project_id, lexeme.lexeme, added.id, lexeme.tf, (select sum(tf) from lexeme)
          from added, lexeme
      ), counted as (
        ${countEntry(project_id, entry.id, 1, "added")}
      ), audited as (${auditRow(sql, trace, {
        action: "memory.added",
        from: "added",
        project: sql`project_id`,
        actor: sql`${entry.actor}::text`,
        subject: sql`jsonb_strip_nulls(jsonb_build_object('entry_id', id, 'supersedes', ${entry.supersedes}::text))`
      })})
      select id from added`)

  /** Makes an active entry that was added without it known to the search. */
  const post = (project_id: string, id: string, text: Searchable) => sql`
    with lexeme as materialized (
      ${lexemes(text)}
    ), posted as (
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select ${project_id}::uuid, lexeme, ${id}::uuid, tf, (select sum(tf) from lexeme)
        from lexeme
    ), one as (select 1)
    ${countEntry(project_id, id, 1, "one")}`

  /**
   * Takes an inactive entry out of the search. The lexemes are made again from its text, because an index of postings by
   * entry would cost every writer more than this costs the one who supersedes.
   */
  const forget = (project_id: string, id: string, text: Searchable) => sql`
    with lexeme as materialized (
      ${lexemes(text)}
    ), gone as (
      delete from memory_posting p
       using lexeme
       where p.project_id = ${project_id}::uuid
         and p.lexeme = lexeme.lexeme
         and p.entry_id = ${id}::uuid
    ), one as (select 1)
    ${countEntry(project_id, id, -1, "one")}`

  const archive = (project_id: string, id: string) =>
    firstRow(Entry)(sql`
      update memory_entry
         set active = false
       where project_id = ${project_id}::uuid
         and id = ${id}::uuid
         and active
      returning ${entryColumns}`)

  const entryColumns = sql.literal(
    `id, kind, title, body, tags, active, supersedes, superseded_by, superseded_at, actor, role, session_ref, task_id,
     source, created_at`
  )

  const find = (project_id: string, id: string) =>
    firstRow(Entry)(sql`
      select ${entryColumns}
        from memory_entry
       where project_id = ${project_id}::uuid
         and id = ${id}::uuid`)

  const findTask = (project_id: string, id: string) =>
    rows(Schema.Struct({ id: Schema.String }))(sql`
      select id
        from task
       where project_id = ${project_id}::uuid
         and id = ${id}::uuid`)

  const matching = ({ kind, tags }: Filter) => sql`
    ${kind === undefined ? sql`true` : sql`e.kind = ${kind}`}
    and ${tags === undefined || tags.length === 0 ? sql`true` : sql`e.tags @> ${tags}::text[]`}`

  /** How many lexemes a query has: none, when it is of stop words only. */
  const countLexemes = (query: Searchable) =>
    firstRow(Schema.Struct({ count: Schema.Int }))(sql`select count(*)::int as count from (${lexemes(query)}) l`)

  /**
   * BM25 with k1 1.2, b 0.3 and a constant average length: with so small a b the average hardly matters.
   * Without filters the best are cut before they are joined, so that a search reads `limit` entries.
   */
  const ranked = (project_id: string, query: Searchable, filter: Filter, limit: number) => {
    const filtered = filter.kind !== undefined || (filter.tags?.length ?? 0) > 0
    return rows(RankedHit)(sql`
      with asked as materialized (
        ${lexemes(query)}
      ), hit as materialized (
        select p.entry_id, p.lexeme, p.tf, p.dl
          from memory_posting p
         where p.project_id = ${project_id}::uuid
           and p.lexeme = any (array(select lexeme from asked))
      ), frequency as (
        select lexeme, count(*)::float8 as df
          from hit
         group by lexeme
      ), size as (
        select coalesce(sum(active), 0)::float8 as n
          from memory_count
         where project_id = ${project_id}::uuid
      ), scored as (
        select hit.entry_id,
               sum(ln(1 + greatest(size.n - f.df + 0.5, 0.5) / (f.df + 0.5))
                   * hit.tf * 2.2 / (hit.tf + 1.2 * (0.7 + 0.3 * hit.dl / 20.0))) as score
          from hit
          join frequency f using (lexeme)
         cross join size
         ${
           filtered
             ? sql`join memory_entry e on e.project_id = ${project_id}::uuid and e.id = hit.entry_id and e.active
                    and ${matching(filter)}`
             : sql``
         }
         group by hit.entry_id
         order by score desc, hit.entry_id desc
         limit ${limit}
      )
      select e.id, e.kind, e.title, e.body, e.tags, e.created_at, s.score::float8 as score
        from scored s
        join memory_entry e on e.project_id = ${project_id}::uuid and e.id = s.entry_id and e.active
       order by s.score desc, e.id desc`)
  }

  /** Newest first, one more than asked for when there is a next page. */
  const recent = (
    project_id: string,
    filter: Filter,
    after: readonly [created_at: string, id: string] | undefined,
    limit: number
  ) =>
    rows(Hit)(sql`
      select e.id, e.kind, e.title, e.body, e.tags, e.created_at
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

  return { insert, post, forget, archive, find, findTask, countLexemes, ranked, recent, countActive }
}
