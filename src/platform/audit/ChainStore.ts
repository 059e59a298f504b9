/** The statements that chain the audit log, and those that read the chains to verify them. */
import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { firstRow, rows } from "../sql/Rows.ts"
import { HashedRow } from "./ChainHash.ts"

/** A place in the log, in the order of (at, event_id). `at` is text, because a Date has no microseconds. */
export interface Place {
  readonly at: string
  readonly event_id: string
}

const Progress = Schema.Struct({
  linked_before: Schema.NullOr(Schema.Date),
  heads_logged_at: Schema.NullOr(Schema.Date),
  /** The time of the newest head of all rows, or of the newest linked row if that is older; null without a head. */
  newest: Schema.NullOr(Schema.Date),
  /** Transactions before this one have ended; those from `next` on have not begun. */
  oldest: Schema.Number,
  next: Schema.Number
})

export type Progress = typeof Progress.Type

const Stretch = Schema.Struct({ count: Schema.Int, at: Schema.String, event_id: Schema.String })

export const Head = Schema.Struct({
  scope: Schema.String,
  /** How many rows the chain has up to here. */
  seq: Schema.Number,
  head: Schema.Uint8Array,
  at: Schema.Date
})
export type Head = typeof Head.Type

/** A link with its row. Without the row, the columns of the row are null, `at` excepted. */
const Linked = Schema.Struct({
  seq: Schema.Number,
  digest: Schema.Uint8Array,
  place_at: Schema.String,
  place_id: Schema.String,
  row: Schema.NullOr(HashedRow)
})
export type Linked = typeof Linked.Type

/** A row and its place in one chain. */
export interface Link {
  readonly event_id: string
  readonly at: string
  readonly scope: string
  readonly seq: number
  readonly digest: Uint8Array
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex")

export const make = (sql: SqlClient.SqlClient) => {
  const text = (at: string) => sql.literal(`to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)

  const columns = sql`
    e.event_id, ${text("e.at")} as at, e.project_id, e.actor, e.action, e.outcome, e.code, e.subject, e.address, e.user_agent`

  /** Once, so that there is a row to lock. */
  const begin = sql`insert into audit_chain_progress default values on conflict do nothing`

  /** Locks the chains for this transaction. None if another replica has them: nobody waits. */
  const lock = firstRow(Progress)(sql`
    select linked_before, heads_logged_at,
           (select least(at, (select max(at) from audit_link where scope = 'all'))
              from audit_chain
             where scope = 'all'
             order by seq desc
             limit 1) as newest,
           pg_snapshot_xmin(pg_current_snapshot())::text::float8 as oldest,
           pg_snapshot_xmax(pg_current_snapshot())::text::float8 as next
      from audit_chain_progress
       for update skip locked`)

  const linkedBefore = (at: Date) => sql`update audit_chain_progress set linked_before = ${at}`
  const headsLogged = (at: Date) => sql`update audit_chain_progress set heads_logged_at = ${at}`

  /** The last of the next `limit` rows, linked or not, and how many they are. */
  const stretch = (from: Place, limit: number, project_id?: string) =>
    firstRow(Stretch)(sql`
      with next as materialized (
        select at, event_id
          from audit_event
         where at >= ${from.at}::timestamptz
           and (at, event_id) > (${from.at}::timestamptz, ${from.event_id}::uuid)
           and ${project_id === undefined ? sql`true` : sql`project_id = ${project_id}::uuid`}
         order by at, event_id
         limit ${limit}
      )
      select (select count(*) from next)::int as count, ${text("at")} as at, event_id
        from next
       order by next.at desc, event_id desc
       limit 1`)

  const hasNoLink = (scope: string | Statement.Fragment) => sql`
    not exists (select
                  from audit_link l
                 where l.at = e.at
                   and l.event_id = e.event_id
                   and l.scope = ${scope})`

  /** Rows after `from`, up to `to`, without a link in the chain of all rows or of a project; or in one of both. */
  const unlinked = (from: Place, to: Place, project_id?: string, everywhere = false) =>
    rows(HashedRow)(sql`
      select ${columns}
        from audit_event e
       where e.at between ${from.at}::timestamptz and ${to.at}::timestamptz
         and (e.at, e.event_id) > (${from.at}::timestamptz, ${from.event_id}::uuid)
         and (e.at, e.event_id) <= (${to.at}::timestamptz, ${to.event_id}::uuid)
         and ${project_id === undefined ? sql`true` : sql`e.project_id = ${project_id}::uuid`}
         and (${hasNoLink(project_id ?? "all")}
              ${everywhere ? sql`or e.project_id is not null and ${hasNoLink(sql`e.project_id::text`)}` : sql``})
       order by e.at, e.event_id`)

  /** The last head of each scope that has one. */
  const lastHeads = (scopes: ReadonlyArray<string>) =>
    rows(Head)(sql`
      select c.scope, c.seq::float8 as seq, c.head, c.at
        from unnest(${scopes}::text[]) s (scope)
       cross join lateral (select *
                             from audit_chain
                            where scope = s.scope
                            order by seq desc
                            limit 1) c`)

  const insertLinks = (links: ReadonlyArray<Link>) => sql`
    insert into audit_link (event_id, at, scope, seq, digest)
    select event_id, at, scope, seq, decode(digest, 'hex')
      from unnest(${links.map(({ event_id }) => event_id)}::uuid[], ${links.map(({ at }) => at)}::timestamptz[],
                  ${links.map(({ scope }) => scope)}::text[], ${links.map(({ seq }) => seq)}::bigint[],
                  ${links.map(({ digest }) => hex(digest))}::text[]) l (event_id, at, scope, seq, digest)`

  const insertHeads = (heads: ReadonlyArray<Head>, at: Date) => sql`
    insert into audit_chain (scope, seq, head, at)
    select scope, seq, decode(head, 'hex'), ${at}
      from unnest(${heads.map(({ scope }) => scope)}::text[], ${heads.map(({ seq }) => seq)}::bigint[],
                  ${heads.map(({ head }) => hex(head))}::text[]) h (scope, seq, head)`

  /** The last heads of all chains, without those of projects that got none since then. */
  const headsSince = (since: Date | null) =>
    rows(Head)(sql`
      select c.scope, c.seq::float8 as seq, c.head, c.at
        from (select 'all' as scope union all select project_id::text from project) s
       cross join lateral (select *
                             from audit_chain
                            where scope = s.scope
                            order by seq desc
                            limit 1) c
       where ${since === null ? sql`true` : sql`c.at >= ${since} or c.scope = 'all'`}
       order by c.scope = 'all' desc, c.scope`)

  /** The scopes that have heads or links. */
  const scopes = rows(Schema.Struct({ scope: Schema.String }))(sql`
    select scope
      from (select 'all' as scope union all select project_id::text from project) s
     where exists (select from audit_chain c where c.scope = s.scope)
        or exists (select from audit_link l where l.scope = s.scope)
     order by scope = 'all' desc, scope`)

  /** The head to start from: the last one at `since`, or the oldest that is kept. */
  const startingHead = (scope: string, since: Date | undefined) =>
    firstRow(Head)(sql`
      select scope, seq::float8 as seq, head, at
        from audit_chain
       where scope = ${scope}
         and ${since === undefined ? sql`true` : sql`at <= ${since}`}
       order by ${since === undefined ? sql`seq` : sql`at desc, seq desc`}
       limit 1`)

  const headAt = (scope: string, seq: number) =>
    firstRow(Head)(sql`
      select scope, seq::float8 as seq, head, at
        from audit_chain
       where scope = ${scope}
         and seq = ${seq}::bigint`)

  /** The heads after `seq`, oldest first. */
  const heads = (scope: string, seq: number, limit: number) =>
    rows(Head)(sql`
      select scope, seq::float8 as seq, head, at
        from audit_chain
       where scope = ${scope}
         and seq > ${seq}::bigint
       order by seq
       limit ${limit}`)

  /** The links after a place, in the order of the chain, with their rows. */
  const links = (scope: string, from: { readonly seq: number } & Place, limit: number) =>
    rows(Linked)(sql`
      select l.seq::float8 as seq, l.digest, ${text("l.at")} as place_at, l.event_id as place_id,
             case when e.event_id is not null then jsonb_build_object(
               'event_id', e.event_id, 'at', ${text("e.at")}, 'project_id', e.project_id, 'actor', e.actor,
               'action', e.action, 'outcome', e.outcome, 'code', e.code, 'subject', e.subject, 'address', e.address,
               'user_agent', e.user_agent) end as row
        from (select *
                from audit_link
               where scope = ${scope}
                 and seq >= ${from.seq}::bigint
                 and (seq, at, event_id) > (${from.seq}::bigint, ${from.at}::timestamptz, ${from.event_id}::uuid)
               order by seq, at, event_id
               limit ${limit}) l
        left join audit_event e on e.at = l.at and e.event_id = l.event_id
       order by l.seq, l.at, l.event_id`)

  /** Whether no month was dropped yet: the first partition begins at the beginning of time. */
  const isWhole = Effect.map(
    sql`
      select
        from pg_inherits
        join pg_class c on c.oid = inhrelid
       where inhparent = 'audit_event'::regclass
         and pg_get_expr(c.relpartbound, c.oid) like '%MINVALUE%'`,
    (found) => found.length > 0
  )

  /** A link that no head covers. */
  const beyondLastHead = (scope: string) =>
    firstRow(Schema.Struct({ seq: Schema.Number, at: Schema.String, event_id: Schema.String }))(sql`
      select seq::float8 as seq, ${text("at")} as at, event_id
        from audit_link l
       where scope = ${scope}
         and seq > coalesce((select max(seq) from audit_chain where scope = ${scope}), 0)
       order by l.seq
       limit 1`)

  return {
    begin,
    beyondLastHead,
    headAt,
    heads,
    headsLogged,
    headsSince,
    insertHeads,
    insertLinks,
    isWhole,
    lastHeads,
    linkedBefore,
    links,
    lock,
    scopes,
    startingHead,
    stretch,
    unlinked
  }
}
