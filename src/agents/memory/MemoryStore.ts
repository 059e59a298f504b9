/** Statements that write memory entries with their search index, and read single entries. */
import { following } from "../embeddings/EmbeddingStore.ts"
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { charge, type Usage } from "../../platform/sql/ProjectUsage.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import * as Lexemes from "./Lexemes.ts"
import type { Searchable } from "./Search.ts"
import { FlatEntry } from "./Shapes.ts"

const EntryRow = Schema.toType(FlatEntry)
export type EntryRow = typeof EntryRow.Type

export const make = (sql: SqlClient.SqlClient) => {
  const { forget, queue } = following(sql)
  const lexemes = Lexemes.make(sql)

  /** Adds the rows of the clause `from` to the count of active entries, or subtracts them. */
  const countEntries = (project_id: string, by: 1 | -1, from: string) => sql`
    insert into memory_count as c (project_id, part, active)
    select ${project_id}::uuid, get_byte(uuid_send(id), 15) % 16, count(*) * ${by}
      from ${sql.literal(from)}
     group by 2
        on conflict (project_id, part) do update
       set active = c.active + excluded.active`

  /** What a posting counts for in `project_usage`: its lexeme, the entry's id and two integers. */
  const bytesOf = (postings: string) => sql`
    select coalesce(sum(octet_length(lexeme) + 24), 0)
      from ${sql.literal(postings)}`

  /**
   * Inserts the entry. Inserts and returns nothing if the superseded entry is not active, the task does not exist or the
   * project would pass one of `maxima`. With `embedded`, the entry is queued for a vector.
   */
  const insert = (
    project_id: string,
    entry: EntryRow,
    text: Searchable,
    now: Date,
    trace: Trace,
    stored_bytes: number,
    maxima: Usage,
    embedded: boolean
  ) =>
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
      ), lexeme as materialized (
        ${lexemes.posted(text)}
      ), charged as (
        ${charge(sql, project_id, "known", { stored_bytes, entries: 1 }, maxima, bytesOf("lexeme"))}
      ), superseded as (
        update memory_entry
           set active = false,
               superseded_by = ${entry.id}::uuid,
               superseded_at = ${now}
          from charged
         where memory_entry.project_id = ${project_id}::uuid
           and id = ${entry.supersedes}::uuid
           and active
        returning id
      ), added as (
        insert into memory_entry (
          project_id, id, kind, title, body, tags, supersedes, actor, role, session_ref, task_id, source, created_at)
        select ${project_id}::uuid, ${entry.id}::uuid, ${entry.kind}, ${entry.title}, ${entry.body},
               ${entry.tags}::text[], ${entry.supersedes}::uuid, ${entry.actor}, ${entry.role}, ${entry.session_ref},
               ${entry.task_id}::uuid, ${entry.source}, ${now}::timestamptz
          from charged
         where ${entry.supersedes}::uuid is null
            or exists (select 1 from superseded)
        returning project_id, id
      ), posted as (
        insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
        select added.project_id, lexeme.lexeme, added.id, lexeme.tf, lexeme.dl
          from added, lexeme
      ), counted as (
        ${countEntries(project_id, 1, "added")}
      ), ${embedded ? sql`queued as (${queue("added", now)}),` : sql``} audited as (${auditRow(sql, trace, {
        action: "memory.added",
        from: "added",
        project: sql`project_id`,
        actor: sql`${entry.actor}::text`,
        subject: sql`jsonb_strip_nulls(jsonb_build_object('entry_id', id, 'supersedes', ${entry.supersedes}::text))`
      })})
      select id from added`)

  type Indexed = Searchable & { readonly id: string }
  /** The lexemes of many entries, as the CTE `lexeme`. */
  const lexemesOfAll = (entries: ReadonlyArray<Indexed>) => sql`
    text as materialized (
      select id, words, parts, grams, counts, more
        from jsonb_to_recordset(${JSON.stringify(entries)}::jsonb)
          as t (id uuid, words text, parts text, grams text[], counts int[], more int)
    ), lexeme as materialized (
      select t.id, l.lexeme, l.tf, l.dl
        from text t
       cross join lateral (${lexemes.postedOf({
         words: sql`t.words`,
         parts: sql`t.parts`,
         grams: sql`t.grams`,
         counts: sql`t.counts`,
         more: sql`t.more`
       })}) l
    )`

  /** Indexes active entries of an import, which inserts rows without `insert`, and returns the bytes of their postings. */
  const index = (project_id: string, entries: ReadonlyArray<Indexed>) =>
    firstRow(Schema.Struct({ bytes: Schema.Number }))(sql`
    with ${lexemesOfAll(entries)}, posted as (
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select ${project_id}::uuid, lexeme, id, tf, dl
        from lexeme
    )
    select (${bytesOf("lexeme")})::float8 as bytes`)

  /** Counts the active entries of an import, which has locked the project's usage by then, as `insert` does first. */
  const count = (project_id: string, ids: ReadonlyArray<string>) => sql`
    with imported as (
      select unnest(${ids}::uuid[]) as id
    )
    ${countEntries(project_id, 1, "imported")}`

  /** Adds the postings that active entries do not have yet, and returns their bytes. */
  const reindex = (project_id: string, entries: ReadonlyArray<Indexed>) =>
    firstRow(Schema.Struct({ bytes: Schema.Number }))(sql`
    with ${lexemesOfAll(entries)}, posted as (
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select e.project_id, l.lexeme, l.id, l.tf, l.dl
        from lexeme l
        join memory_entry e on e.project_id = ${project_id}::uuid and e.id = l.id and e.active
          on conflict do nothing
      returning lexeme
    )
    select (${bytesOf("posted")})::float8 as bytes`)

  const countPostings = (project_id: string, bytes: number) => sql`
    update project_usage
       set index_bytes = index_bytes + ${bytes}::bigint
     where project_id = ${project_id}::uuid`

  /** The next project after `last` with entries to index again. Stays locked until the transaction ends. */
  const nextToReindex = (now: Date, last: string) =>
    firstRow(Schema.Struct({ project_id: Schema.String, after: Schema.String }))(sql`
      select project_id, after
        from memory_reindex
       where due_at <= ${now}
         and project_id > ${last}::uuid
       order by project_id
       limit 1
         for update skip locked`)

  /** Tries a project again at `due_at`. */
  const postponeReindex = (project_id: string, due_at: Date) => sql`
    update memory_reindex
       set due_at = ${due_at}
     where project_id = ${project_id}::uuid`

  /** Records up to where a project is indexed again; undefined if to the end. */
  const reindexed = (project_id: string, after: string | undefined) =>
    after === undefined
      ? sql`delete from memory_reindex where project_id = ${project_id}::uuid`
      : sql`update memory_reindex set after = ${after}::uuid where project_id = ${project_id}::uuid`

  /** The next active entries in the order of their ids: so many at most, and none behind so many bytes of text. */
  const activeAfter = (project_id: string, after: string, limit: number, bytes: number) =>
    rows(EntryRow)(sql`
      select ${entryColumns}
        from (
          select ${entryColumns},
                 sum(octet_length(title) + octet_length(body))
                   over (order by id rows between unbounded preceding and 1 preceding) as bytes_before
            from memory_entry
           where project_id = ${project_id}::uuid
             and id > ${after}::uuid
             and active
           order by id
           limit ${limit}) next
       where coalesce(bytes_before, 0) < ${bytes}
       order by id`)

  /**
   * Removes an inactive entry from the index, and its vector. Its lexemes are computed again from `everIndexed`: an index of postings by
   * entry would make that unnecessary but slow down every insert. As an array, they are looked up one by one; a join may
   * read all postings of the project.
   */
  const unindex = (project_id: string, id: string, text: Searchable) => sql`
    with gone as (
      delete from memory_posting
       where project_id = ${project_id}::uuid
         and lexeme = any (array(select lexeme from (${lexemes.of(text)}) l))
         and entry_id = ${id}::uuid
      returning lexeme
    ), freed as (
      update project_usage
         set index_bytes = greatest(0, index_bytes - (${bytesOf("gone")}))
       where project_id = ${project_id}::uuid
    ), ${forget(project_id, id)}, one as (select ${id}::uuid as id)
    ${countEntries(project_id, -1, "one")}`

  /** Deactivates an active entry and returns it. Locks the project's usage first, as `insert` does. */
  const archive = (project_id: string, id: string) =>
    firstRow(EntryRow)(sql`
      with locked as materialized (
        select
          from project_usage
         where project_id = ${project_id}::uuid
           for update
      )
      update memory_entry
         set active = false
       where (select count(*) from locked) >= 0
         and project_id = ${project_id}::uuid
         and id = ${id}::uuid
         and active
      returning ${entryColumns}`)

  const entryColumns = sql.literal(
    `id, kind, title, body, tags, active, supersedes, superseded_by, superseded_at, actor, role, session_ref, task_id,
     source, created_at`
  )

  const find = (project_id: string, id: string) =>
    firstRow(EntryRow)(sql`
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

  /** The lexemes of a query. No rows if it has only stop words. */
  const queryLexemes = (query: Searchable) =>
    rows(Schema.Struct({ lexeme: Schema.String }))(sql`select lexeme from (${lexemes.posted(query)}) l`)

  /** The lexemes of single words. */
  const stems = (words: ReadonlyArray<string>) =>
    rows(Schema.Struct({ word: Schema.String, lexeme: Schema.String }))(sql`
      select w.word, l.lexeme
        from unnest(${words}::text[]) as w (word)
       cross join lateral unnest(tsvector_to_array(to_tsvector('english', w.word))) as l (lexeme)`)

  return {
    insert,
    index,
    count,
    reindex,
    countPostings,
    nextToReindex,
    postponeReindex,
    reindexed,
    activeAfter,
    unindex,
    archive,
    find,
    findTask,
    queryLexemes,
    stems
  }
}
