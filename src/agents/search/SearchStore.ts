/**
 * The statement that finds tasks, receipts and documents by words. Nothing indexes them: it reads the newest of each, which
 * bounds what it costs (decisions.md, Search over everything).
 */
import type { SqlClient } from "effect/sql"
import { Schema } from "effect"
import { rows } from "../../platform/sql/Rows.ts"
import type { Term } from "../memory/SearchStore.ts"
import type { Stages } from "../ranking/Stages.ts"
import { Hit, type Source } from "./Shapes.ts"

export type Work = Exclude<Source, "memory">

/** Rows of each kind that are read, the newest. */
const newest = 2_000
/** The same for documents. */
const newestDocuments = 200
/** Bytes of a document that are read. */
const readOfDocument = 65_536
/** Characters of a word with the space after it, and how many words a document counts as. */
const [wordLength, usualWords] = [8, 60]
/** Characters of an excerpt, and how many of them stand before the match. */
const [excerpted, before] = [300, 60]

const Found = Schema.toType(Hit)

export const make = (sql: SqlClient.SqlClient) => {
  /** Each with `head`, in which a word counts twice, and `text`, which has the head. */
  const sources = (project_id: string) => ({
    tasks: [
      sql`(
        select 'tasks' as source, t.id, t.title, concat_ws(' ', t.title, array_to_string(t.tags, ' ')) as head,
               concat_ws(chr(10), t.title, array_to_string(t.tags, ' '), t.body, t.blocked_reason) as text,
               t.updated_at as at, coalesce(t.updated_by, t.created_by) as actor, t.id as task_id
          from task t
         where t.project_id = ${project_id}::uuid
         order by t.updated_at desc, t.id desc
         limit ${newest})`,
      sql`(
        select 'tasks', n.task_id, k.title, '', n.text, n.created_at, n.actor, n.task_id
          from task_note n
          join task k on k.project_id = n.project_id and k.id = n.task_id
         where n.project_id = ${project_id}::uuid
         order by n.created_at desc, n.id desc
         limit ${newest})`
    ],
    receipts: [
      sql`(
        select 'receipts', r.id, k.title, '',
               concat_ws(chr(10), r.summary, array_to_string(r.next_steps, chr(10)),
                         array_to_string(r.pitfalls, chr(10)), r.git_checkpoint ->> 'branch'),
               r.created_at, r.actor, r.task_id
          from receipt r
          join task k on k.project_id = r.project_id and k.id = r.task_id
         where r.project_id = ${project_id}::uuid
         order by r.created_at desc, r.id desc
         limit ${newest})`
    ],
    // Their bytes may be cut within a character, so they are compared as PostgreSQL escapes them.
    documents: [
      sql`(
        select 'documents', p.document_id, p.title, concat_ws(' ', p.title, p.path),
               concat_ws(' ', p.title, p.path) || chr(10)
                 || encode(substring(b.bytes from 1 for ${readOfDocument}), 'escape'),
               p.pinned_at, 'operator', null::uuid
          from pinned_document p
          join document_blob b on b.blob_oid = p.blob_oid
         where p.project_id = ${project_id}::uuid
         order by p.pinned_at desc, p.document_id desc
         limit ${newestDocuments})`
    ]
  })

  /**
   * The best `limit` hits by BM25, as memory is ranked: each with as many of the words as possible, the rarer ones first. A
   * term is the beginning of a word, or a few characters of a script without spaces; the first of a word's terms counts
   * whole, related ones their share. A document is too long to count how often it has a term.
   */
  const work = (
    project_id: string,
    of: ReadonlyArray<Work>,
    terms: ReadonlyArray<Term>,
    { coverage }: Pick<Stages, "coverage">,
    limit: number
  ) =>
    rows(Found)(sql`
      with item (source, id, title, head, text, at, actor, task_id) as not materialized (
        ${of.flatMap((source) => sources(project_id)[source]).reduce((all, one) => sql`${all} union all ${one}`)}
      ), term as materialized (
        select word, lexeme as term, share, encode(convert_to(lexeme, 'UTF8'), 'escape') as escaped
          from unnest(
            ${terms.map(({ word }) => word)}::int[], ${terms.map(({ lexeme }) => lexeme)}::text[],
            ${terms.map(({ share }) => String(share))}::text[]::float8[]) as t (word, lexeme, share)
      ), matched as materialized (
        select i.source, i.id, i.title, i.at, i.actor, i.task_id, t.word, t.term, t.share,
               case when strpos(lower(i.head), t.term) > 0 then 2 else 1 end as head, m.position, m.tf,
               case when i.source = 'documents' then ${usualWords}::float8
                    else length(lower.text) / ${wordLength}::float8 end as dl,
               case when i.source = 'documents' then ''
                    else substring(i.text from greatest(1, m.position - ${before}) for ${excerpted}) end as excerpt,
               case when i.source = 'documents'
                    then m.position - length(replace(left(i.text, m.position), chr(10), '')) end as line
          from item i
         cross join lateral (select lower(i.text) as text offset 0) lower
         cross join term t
         cross join lateral (
           select position,
                  case when i.source = 'documents' or position = 0 then 1
                       else (length(lower.text) - length(replace(lower.text, t.term, ''))) / length(t.term) end as tf
             from (select strpos(lower.text, case when i.source = 'documents' then t.escaped else t.term end)
                            as position offset 0) p) m
         where m.position > 0
      ), weighed as materialized (
        select word, term, share * ln(1 + ${newest}::float8 / greatest(df, max(df) filter (where share = 1)
                                                                            over (partition by word))) as weight
          from (select word, term, share, count(*) as df from matched group by word, term, share) f
      ), whole as materialized (
        select coalesce(nullif(sum(weight), 0), 1) as weight
          from weighed
          join term using (word, term)
         where term.share = 1
      ), scored as (
        select source, id, (array_agg(title order by position))[1] as title,
               (array_agg(excerpt order by weight desc, position))[1] as excerpt,
               (array_agg(line order by weight desc, position))[1] as line, max(at) as at,
               (array_agg(actor order by at desc))[1] as actor, max(task_id::text) as task_id,
               sum(weight * tf * head / (tf * head + 0.84::float8 + 0.018::float8 * dl))
                 * (1 - ${coverage}::float8 * (1 - least(1, sum(weight) / min(whole_weight)))) as score
          from matched
          join weighed using (word, term)
         cross join (select weight from whole) as whole (whole_weight)
         group by source, id
      )
      select source as "in", id, title, excerpt, actor, at, task_id,
             case when source = 'documents' then greatest(1, line) end as start_line
        from scored
       order by score desc, at desc, id desc
       limit ${limit}`)

  return { work }
}
