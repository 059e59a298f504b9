/** Statements that destroy entries, tasks and documents with everything derived from them. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { following } from "../embeddings/EmbeddingStore.ts"

const Id = Schema.Struct({ id: Schema.String })
const Bytes = Schema.Struct({ bytes: Schema.Number })

export const make = (sql: SqlClient.SqlClient) => {
  const { forget } = following(sql)

  /** Entries and tasks refer to each other; the transaction's end checks their foreign keys. */
  const deferReferences = sql`set constraints all deferred`

  /** Until the transaction ends, the sweep that indexes entries again leaves the project: it would post what goes. */
  const lockReindex = (project_id: string) => sql`
    select
      from memory_reindex
     where project_id = ${project_id}::uuid
       for update`

  /**
   * Writers of the project lock this row first, and then entries. In a project that is always written it is never free for
   * long, so this waits in line as long as agents do (Database.ts), whatever the transaction's limit for other locks.
   */
  const lockUsage = Effect.fnUntraced(function* (project_id: string) {
    const [set] = yield* sql<{ before: string }>`
      select current_setting('lock_timeout') as before, set_config('lock_timeout', '2s', true)`
    yield* sql`
      select project_id
        from project_usage
       where project_id = ${project_id}::uuid
         for update`
    yield* sql`select set_config('lock_timeout', ${set!.before}, true)`
  })

  const lockEntries = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(Id)(sql`
      select id
        from memory_entry
       where project_id = ${project_id}::uuid
         and id = any (${ids}::uuid[])
       order by id
         for update`)

  /** Oldest first, and no more than a mebibyte of text: writers of the project wait while its postings go. */
  const entriesBefore = (project_id: string, before: Date, limit: number) =>
    rows(Id)(sql`
      select id
        from (select id, sum(octet_length(title) + octet_length(body)) over (order by id rows unbounded preceding) as bytes
                from (select id, title, body
                        from memory_entry
                       where project_id = ${project_id}::uuid
                         and created_at < ${before}
                       order by id
                       limit ${limit}) oldest) e
       where bytes <= 1048576
       order by id`)

  /**
   * Where the postings of the entries are. Reads all of the project, so that none stays that an earlier release made by other
   * rules.
   */
  const findPostings = (project_id: string, ids: ReadonlyArray<string>) =>
    firstRow(Schema.Struct({ places: Schema.String }))(sql`
      select coalesce(array_agg(ctid), '{}')::text as places
        from memory_posting
       where project_id = ${project_id}::uuid
         and entry_id = any (${ids}::uuid[])`)

  /** Another posting may stand in a place that has been free since. */
  const dropPostings = (project_id: string, ids: ReadonlyArray<string>, places: string) =>
    firstRow(Bytes)(sql`
      with gone as (
        delete from memory_posting
         where ctid = any (array(select unnest(${places}::tid[])))
           and project_id = ${project_id}::uuid
           and entry_id = any (${ids}::uuid[])
        returning lexeme
      )
      select coalesce(sum(octet_length(lexeme) + 24), 0)::float8 as bytes
        from gone`)

  /** The entries of `ids` with a vector. */
  const embedded = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(Id)(sql`
      select entry_id as id
        from memory_embedding
       where project_id = ${project_id}::uuid
         and entry_id = any (${ids}::uuid[])
       union
      select entry_id
        from embedding_queue
       where project_id = ${project_id}::uuid
         and entry_id = any (${ids}::uuid[])`)

  const forgetVector = (project_id: string, id: string) => sql`with ${forget(project_id, id)} select 1`

  const linked = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(Id)(sql`
      select id
        from memory_entry
       where project_id = ${project_id}::uuid
         and id = any (${ids}::uuid[])
         and (supersedes is not null or superseded_by is not null)
       order by id`)

  /** Takes an entry out of its chain: its predecessor gets its successor, and is archived if there is none. */
  const unlink = (project_id: string, id: string) =>
    firstRow(
      Schema.Struct({ supersedes: Schema.NullOr(Schema.String), superseded_by: Schema.NullOr(Schema.String) })
    )(sql`
      with entry as materialized (
        select supersedes, superseded_by
          from memory_entry
         where project_id = ${project_id}::uuid
           and id = ${id}::uuid
      ), own as (
        update memory_entry
           set supersedes = null
         where project_id = ${project_id}::uuid
           and id = ${id}::uuid
      ), predecessor as (
        update memory_entry e
           set superseded_by = entry.superseded_by,
               superseded_at = case when entry.superseded_by is null then null else e.superseded_at end
          from entry
         where e.project_id = ${project_id}::uuid
           and e.id = entry.supersedes
      )
      select supersedes, superseded_by
        from entry`)

  /** After `unlink`, in a statement of its own: an entry has one successor. */
  const relink = (project_id: string, id: string, supersedes: string | null) => sql`
    update memory_entry
       set supersedes = ${supersedes}::uuid
     where project_id = ${project_id}::uuid
       and id = ${id}::uuid`

  const dropEntries = (project_id: string, ids: ReadonlyArray<string>) =>
    firstRow(Bytes)(sql`
      with gone as (
        delete from memory_entry
         where project_id = ${project_id}::uuid
           and id = any (${ids}::uuid[])
        returning id, active,
                  octet_length(title) + octet_length(body) + octet_length(array_to_string(tags, '')) as bytes
      ), counted as (
        update memory_count c
           set active = c.active - g.entries
          from (select get_byte(uuid_send(id), 15) % 16 as part, count(*) as entries
                  from gone
                 where active
                 group by 1) g
         where c.project_id = ${project_id}::uuid
           and c.part = g.part
      )
      select coalesce(sum(bytes), 0)::float8 as bytes
        from gone`)

  /** An answer is kept twice: as an entry, and with its task until the next receipt. */
  const dropAnswers = (project_id: string, ids: ReadonlyArray<string>) =>
    firstRow(Bytes)(sql`
      with cleared as (
        select id, octet_length(coalesce(answer->>'text', '')) as bytes
          from task
         where project_id = ${project_id}::uuid
           and answer_entry_id = any (${ids}::uuid[])
           for no key update
      ), updated as (
        update task t
           set answer = null,
               answer_entry_id = null
          from cleared
         where t.project_id = ${project_id}::uuid
           and t.id = cleared.id
      )
      select coalesce(sum(bytes), 0)::float8 as bytes
        from cleared`)

  const lockTask = (project_id: string, id: string) =>
    firstRow(Id)(sql`
      select id
        from task
       where project_id = ${project_id}::uuid
         and id = ${id}::uuid
         for update`)

  const dropDependencies = (project_id: string, id: string) => sql`
    delete from task_dependency
     where project_id = ${project_id}::uuid
       and (task_id = ${id}::uuid or depends_on = ${id}::uuid)`

  const dropNotes = (project_id: string, id: string) =>
    firstRow(Bytes)(sql`
      with gone as (
        delete from task_note
         where project_id = ${project_id}::uuid
           and task_id = ${id}::uuid
        returning text
      )
      select coalesce(sum(512 + octet_length(text)), 0)::float8 as bytes
        from gone`)

  const receiptsGone = `
      select count(*)::float8 as receipts,
             coalesce(sum(1024 + octet_length(summary) + octet_length(array_to_string(next_steps, ''))
                          + octet_length(array_to_string(pitfalls, ''))
                          + octet_length(coalesce(git_checkpoint::text, ''))), 0)::float8 as bytes
        from gone`
  const Receipts = Schema.Struct({ receipts: Schema.Number, bytes: Schema.Number })

  const dropReceipts = (project_id: string, task_id: string) =>
    firstRow(Receipts)(sql`
      with gone as (
        delete from receipt
         where project_id = ${project_id}::uuid
           and task_id = ${task_id}::uuid
        returning *
      )
      ${sql.literal(receiptsGone)}`)

  const dropReceiptsBefore = (project_id: string, before: Date, limit: number) =>
    firstRow(Receipts)(sql`
      with gone as (
        delete from receipt
         where project_id = ${project_id}::uuid
           and id = any (array(
             select id
               from receipt
              where project_id = ${project_id}::uuid
                and created_at < ${before}
              order by created_at
              limit ${limit}
                for update skip locked))
        returning *
      )
      ${sql.literal(receiptsGone)}`)

  /** Notices of the task that wait to be sent, or were. */
  const dropNotices = (project_id: string, id: string) => sql`
    delete from push_outbox
     where project_id = ${project_id}::uuid
       and reference = ${id}::uuid`

  const dropTask = (project_id: string, id: string) =>
    firstRow(Bytes)(sql`
      with children as (
        update task
           set parent = null
         where project_id = ${project_id}::uuid
           and parent = ${id}::uuid
      ), entries as (
        update memory_entry
           set task_id = null
         where project_id = ${project_id}::uuid
           and task_id = ${id}::uuid
      )
      delete from task
       where project_id = ${project_id}::uuid
         and id = ${id}::uuid
      returning (octet_length(title) + octet_length(body) + octet_length(coalesce(blocked_reason, ''))
                 + octet_length(coalesce(answer->>'text', '')) + octet_length(array_to_string(coalesce(choices, '{}'), ''))
                 + octet_length(array_to_string(tags, '')))::float8 as bytes`)

  /**
   * Empties the remembered results that name one of the ids: they hold its text. A retry is refused from now on. In JSON an
   * id stands between quotes, so each result is read once, however many ids there are.
   */
  const dropResults = (project_id: string, ids: ReadonlyArray<string>) =>
    firstRow(Bytes)(sql`
      with named as (
        select tool, idempotency_key, octet_length(result) as bytes
          from idempotency_record
         where project_id = ${project_id}::uuid
           and exists (select from string_to_table(result, '"') as part where part = any (${ids}::text[]))
           for update
      ), emptied as (
        update idempotency_record r
           set result = ''
          from named
         where r.project_id = ${project_id}::uuid
           and r.tool = named.tool
           and r.idempotency_key = named.idempotency_key
      )
      select coalesce(sum(bytes), 0)::float8 as bytes
        from named`)

  const free = (
    project_id: string,
    freed: {
      readonly stored_bytes: number
      readonly index_bytes?: number
      readonly entries?: number
      readonly tasks?: number
      readonly receipts?: number
    }
  ) => sql`
    update project_usage
       set stored_bytes = greatest(0, stored_bytes - ${freed.stored_bytes}::bigint),
           index_bytes = greatest(0, index_bytes - ${freed.index_bytes ?? 0}::bigint),
           entries = greatest(0, entries - ${freed.entries ?? 0}::bigint),
           tasks = greatest(0, tasks - ${freed.tasks ?? 0}::bigint),
           receipts = greatest(0, receipts - ${freed.receipts ?? 0}::bigint)
     where project_id = ${project_id}::uuid`

  return {
    deferReferences,
    lockReindex,
    lockUsage,
    lockEntries,
    entriesBefore,
    findPostings,
    dropPostings,
    embedded,
    forgetVector,
    linked,
    unlink,
    relink,
    dropEntries,
    dropAnswers,
    lockTask,
    dropDependencies,
    dropNotes,
    dropReceipts,
    dropReceiptsBefore,
    dropNotices,
    dropTask,
    dropResults,
    free
  }
}
