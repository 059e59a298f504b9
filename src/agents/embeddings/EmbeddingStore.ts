/** Statements for the vectors of memory entries. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { rows } from "../../platform/sql/Rows.ts"

const Waiting = Schema.Struct({
  project_id: Schema.String,
  id: Schema.String,
  title: Schema.String,
  body: Schema.String,
  attempts: Schema.Int
})
export type Waiting = typeof Waiting.Type

const Block = Schema.Struct({
  number: Schema.Int,
  version: Schema.Int,
  ids: Schema.Uint8Array,
  codes: Schema.Uint8Array
})
export type Block = typeof Block.Type

export interface Embedded {
  readonly id: string
  readonly ids: Buffer
  readonly code: Buffer
  readonly vector: Buffer
}

/** Vectors per block. */
export const blockSize = 256

/** Characters of an entry that are sent: some 1,000 tokens, which every model takes. */
export const longestText = 4_000
/** Entries of a batch, and their characters: what a slow endpoint embeds in time. */
const [batchEntries, batchCharacters] = [64, 32_000]

export const make = (sql: SqlClient.SqlClient) => {
  /** Whether the text of the project may be sent (`set-project-limits --embeddings`). */
  const allowed = (project: string) =>
    sql.literal(`coalesce((${project}.limits->>'embeddings')::int, 1) = 1 and ${project}.disabled_at is null`)

  /**
   * Leases a batch of one project until `until`. Projects come in random order, so that one with a backlog leaves room for
   * others. An entry that failed before fills a batch alone.
   */
  const claim = (now: Date, until: Date) =>
    rows(Waiting)(sql`
      with recursive project_due as (
        (select project_id from embedding_queue order by project_id limit 1)
        union all
        select (select q.project_id from embedding_queue q where q.project_id > d.project_id order by q.project_id limit 1)
          from project_due d
         where d.project_id is not null
      ), chosen as (
        select p.project_id
          from project_due d
          join project p on p.project_id = d.project_id and ${allowed("p")}
         cross join lateral (
           select
             from embedding_queue q
             join memory_entry e on e.project_id = q.project_id and e.id = q.entry_id and e.active
            where q.project_id = d.project_id
              and q.due_at <= ${now}
            limit 1) q
         order by random()
         limit 1
      ), due as (
        select q.project_id, q.entry_id, q.due_at, q.attempts, e.title, e.body
          from embedding_queue q
          join memory_entry e on e.project_id = q.project_id and e.id = q.entry_id and e.active
         where q.project_id = (select project_id from chosen)
           and q.due_at <= ${now}
         order by q.due_at
         limit ${batchEntries}
           for update of q skip locked
      ), counted as (
        select d.project_id, d.entry_id, d.title, d.body,
               sum(case d.attempts when 0 then least(length(d.title) + length(d.body), ${longestText}) else ${batchCharacters} end)
                 over (order by d.due_at, d.entry_id) as characters
          from due d
      )
      update embedding_queue q
         set due_at = ${until}
        from counted c
       where c.characters <= ${batchCharacters}
         and q.project_id = c.project_id
         and q.entry_id = c.entry_id
      returning q.project_id, q.entry_id as id, c.title, c.body, q.attempts`)

  /** Serializes those who add vectors to a project. */
  const lock = (project_id: string) => sql`
    select pg_advisory_xact_lock(hashtextextended(${`embeddings ${project_id}`}, 0))`

  /** Those of the entries that are active and have no vector of the model; they stay so until the transaction ends. */
  const lacking = (project_id: string, ids: ReadonlyArray<string>, model: string) =>
    rows(Schema.Struct({ id: Schema.String }))(sql`
      select e.id
        from memory_entry e
        join project p on p.project_id = e.project_id
       where e.project_id = ${project_id}::uuid
         and e.id = any(${ids}::uuid[])
         and e.active
         and ${allowed("p")}
         and not exists (
           select from memory_embedding v where v.project_id = e.project_id and v.entry_id = e.id and v.model = ${model})
         for share of e`)

  /** The last block of the project. */
  const lastBlock = (project_id: string, model: string) =>
    rows(Schema.Struct({ number: Schema.Int, used: Schema.Int }))(sql`
      select number, length(ids) / 16 as used
        from embedding_block
       where project_id = ${project_id}::uuid
         and model = ${model}
       order by number desc
       limit 1`)

  /**
   * Adds vectors at the end of a block, which is made if it is new. The first one stands at `slot`. Versions begin anywhere:
   * a process may still know a block that was deleted.
   */
  const add = (
    project_id: string,
    model: string,
    number: number,
    slot: number,
    embedded: ReadonlyArray<Embedded>
  ) => sql`
    with block as (
      insert into embedding_block (project_id, model, number, version, ids, codes)
      values (${project_id}::uuid, ${model}, ${number}, (random() * 2 ^ 30)::int,
              ${Buffer.concat(embedded.map(({ ids }) => ids))}, ${Buffer.concat(embedded.map(({ code }) => code))})
          on conflict (project_id, model, number) do update
         set ids = embedding_block.ids || excluded.ids, codes = embedding_block.codes || excluded.codes,
             version = embedding_block.version + 1
    )
    insert into memory_embedding (project_id, entry_id, model, number, slot, vector)
    select ${project_id}::uuid, id, ${model}, ${number}, ${slot} + place - 1, decode(vector, 'hex')
      from unnest(${embedded.map(({ id }) => id)}::uuid[], ${embedded.map(({ vector }) => vector.toString("hex"))}::text[])
             with ordinality as t (id, vector, place)
        on conflict (project_id, entry_id) do update
       set model = excluded.model, number = excluded.number, slot = excluded.slot, vector = excluded.vector`

  const done = (project_id: string, ids: ReadonlyArray<string>) => sql`
    delete from embedding_queue
     where project_id = ${project_id}::uuid
       and entry_id = any(${ids}::uuid[])`

  /** Leaves entries in the queue until `until`, with so many attempts more. */
  const postpone = (project_id: string, ids: ReadonlyArray<string>, until: Date, attempts: 0 | 1) => sql`
    update embedding_queue
       set due_at = ${until}, attempts = attempts + ${attempts}
     where project_id = ${project_id}::uuid
       and entry_id = any(${ids}::uuid[])`

  /**
   * Reads a page of all active entries after the key, and queues those without a vector of the model. Returns the last key;
   * none at the end.
   */
  const queueLacking = (model: string, after: readonly [project_id: string, id: string], limit: number, now: Date) =>
    rows(Schema.Struct({ project_id: Schema.String, id: Schema.String }))(sql`
      with page as materialized (
        select e.project_id, e.id, e.active
          from memory_entry e
         where (e.project_id, e.id) > (${after[0]}::uuid, ${after[1]}::uuid)
         order by e.project_id, e.id
         limit ${limit}
      ), queued as (
        insert into embedding_queue (project_id, entry_id, due_at)
        select g.project_id, g.id, ${now}
          from page g
          join project p on p.project_id = g.project_id
         where g.active
           and ${allowed("p")}
           and not exists (
             select from memory_embedding v
              where v.project_id = g.project_id and v.entry_id = g.id and v.model = ${model})
            on conflict do nothing
      )
      select project_id, id
        from page
       order by project_id desc, id desc
       limit 1`)

  /** Deletes what no search uses: vectors of projects whose text may not be sent, and blocks of earlier models. */
  const prune = (model: string) => sql`
    with unwanted as (
      select project_id from project p where not (${allowed("p")}) and p.disabled_at is null
    ), unqueued as (
      delete from embedding_queue q using unwanted u where q.project_id = u.project_id
    ), vectors as (
      delete from memory_embedding v using unwanted u where v.project_id = u.project_id
    )
    delete from embedding_block b
     where b.project_id in (select project_id from unwanted)
        or b.model <> ${model}
           and not exists (select from memory_embedding v where v.project_id = b.project_id and v.model = b.model)`

  /** The numbers and versions of a project's blocks; none if its text may not be sent. */
  const versions = (project_id: string, model: string) =>
    rows(Schema.Struct({ number: Schema.Int, version: Schema.Int }))(sql`
      select b.number, b.version
        from embedding_block b
        join project p on p.project_id = b.project_id
       where b.project_id = ${project_id}::uuid
         and b.model = ${model}
         and ${allowed("p")}
       order by b.number`)

  const blocks = (project_id: string, model: string, numbers: ReadonlyArray<number>) =>
    rows(Block)(sql`
      select number, version, ids, codes
        from embedding_block
       where project_id = ${project_id}::uuid
         and model = ${model}
         and number = any(${numbers}::int[])`)

  const vectors = (project_id: string, model: string, ids: ReadonlyArray<string>) =>
    rows(Schema.Struct({ id: Schema.String, vector: Schema.Uint8Array }))(sql`
      select v.entry_id as id, v.vector
        from unnest(${ids}::uuid[]) as asked (id)
       cross join lateral (
         select v.entry_id, v.vector
           from memory_embedding v
          where v.project_id = ${project_id}::uuid
            and v.entry_id = asked.id
            and v.model = ${model}
         offset 0) v`)

  return {
    claim,
    lock,
    lacking,
    lastBlock,
    add,
    done,
    postpone,
    queueLacking,
    prune,
    versions,
    blocks,
    vectors
  }
}

/** For a statement that adds an entry or makes one inactive: the CTEs that keep the queue and the vectors. */
export const following = (sql: SqlClient.SqlClient) => ({
  /** Queues the rows of the CTE `from`, which has `project_id` and `id`. */
  queue: (from: string, now: unknown) => sql`
    insert into embedding_queue (project_id, entry_id, due_at)
    select a.project_id, a.id, ${now as Date}::timestamptz
      from ${sql.literal(from)} a
      join project p on p.project_id = a.project_id
     where coalesce((p.limits->>'embeddings')::int, 1) = 1`,
  /** Deletes the vector of an entry, as the CTEs `unqueued`, `vector` and `cleared`. */
  forget: (project_id: string, id: string) => sql`
    vector as (
      delete from memory_embedding
       where project_id = ${project_id}::uuid
         and entry_id = ${id}::uuid
      returning project_id, model, number, slot
    ), cleared as (
      update embedding_block b
         set ids = overlay(b.ids placing decode(repeat('00', 16), 'hex') from v.slot * 16 + 1),
             codes = overlay(b.codes placing decode(repeat('00', w.bytes), 'hex') from v.slot * w.bytes + 1),
             version = b.version + 1
        from vector v
       cross join lateral (
         select 16 * length(k.codes) / length(k.ids) as bytes
           from embedding_block k
          where k.project_id = v.project_id and k.model = v.model and k.number = v.number) w
       where b.project_id = v.project_id
         and b.model = v.model
         and b.number = v.number
    ), unqueued as (
      delete from embedding_queue
       where project_id = ${project_id}::uuid
         and entry_id = ${id}::uuid
    )`
})
