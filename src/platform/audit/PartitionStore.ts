/** The statements that keep the partitions of the audit log. Only the owner of the tables may run those that change them. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { monthsAhead } from "../sql/AuditMonths.ts"
import { firstRow, rows } from "../sql/Rows.ts"

export const make = (sql: SqlClient.SqlClient) => {
  /** Whether this account may drop and make partitions, and how many whole months there are after that of `now`. */
  const state = (now: Date) =>
    firstRow(Schema.Struct({ isOwner: Schema.Boolean, months_ahead: Schema.Int }))(sql`
      select pg_has_role(relowner, 'usage') as "isOwner",
             ${monthsAhead(sql, now)} as months_ahead
        from pg_class
       where oid = 'audit_event'::regclass`)

  /** Whether an account may update or delete audit rows. An empty name is the account of this connection. */
  const mayRewrite = (account: string) =>
    Effect.map(
      sql`
        select
          from unnest('{audit_event,audit_link,audit_chain}'::text[]) name
         where has_table_privilege(coalesce(nullif(${account}, ''), current_user)::name, name, 'update, delete')`,
      (found) => found.length > 0
    )

  /** Every insert waits behind a statement that waits for its lock. */
  const lock = sql`
    select pg_advisory_xact_lock(hashtext('bridge-service audit partitions')), set_config('lock_timeout', '200ms', true)`

  /** Makes the partitions before a day, and returns how many. */
  const extend = (until: string) =>
    rows(Schema.Struct({ made: Schema.Int }))(sql`select extend_audit_log(${until}::date) as made`)

  /** The months (`2026_11`) whose partitions end by `day`, oldest first, without the last partition. */
  const endedBy = (day: string) =>
    rows(Schema.Struct({ month: Schema.String }))(sql`
      select right(relname, 7) as month
        from pg_inherits
        join pg_class on pg_class.oid = inhrelid
       where inhparent = 'audit_event'::regclass
         and relname ~ '^audit_event_[0-9]{4}_[0-9]{2}$'
         and (to_date(right(relname, 7), 'YYYY_MM') + interval '1 month')::date <= ${day}::date
         and (to_date(right(relname, 7), 'YYYY_MM') + interval '1 month')::date < audit_log_end()
       order by relname`)

  /** The last link of each chain in a month. The head that covers it stays: the chain is verified from there. */
  const lastLinks = (month: string) =>
    rows(Schema.Struct({ scope: Schema.String, seq: Schema.Number }))(sql`
      select scope, max(seq)::float8 as seq
        from ${sql(`audit_link_${month}`)}
       group by scope`)

  const deleteHeads = (scope: string, before: number, limit: number) => sql`
    delete from audit_chain
     where scope = ${scope}
       and seq in (
         select seq
           from audit_chain
          where scope = ${scope}
            and seq < ${before}::bigint
          order by seq
          limit ${limit})
    returning seq`

  const deleteCounts = (before: string, limit: number) => sql`
    delete from audit_refusal_count
     where refusal_key in (
       select refusal_key
         from audit_refusal_count
        where at < ${before}::timestamptz
        order by at
        limit ${limit})
    returning event_id`

  const drop = (month: string) =>
    sql`drop table ${sql(`audit_event_${month}`)}, ${sql(`audit_link_${month}`)}`.unprepared

  return { deleteCounts, deleteHeads, drop, endedBy, extend, lastLinks, lock, mayRewrite, state }
}
